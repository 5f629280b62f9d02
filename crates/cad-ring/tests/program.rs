//! Reductions that kaccd's program does in chains of ranks that only compute: no call of theirs, and no signal, for which there is no handler here.

mod world;

use boundary::UserBuf;
use cad_ring::program_usable;
use cad_run::{Callback, Counts, Descriptor, Executor, Known, Plan, START, State};
use cad_softirq::calc::{Formula, How};
use cad_softirq::daemon::{Daemon, Limits};
use cad_softirq::layout::{Op, Type};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use world::line::{alone, memory, until};
use world::{Rank, compute, possible, run_on, soon};

const NAME: &[u8] = b"kaccd of the ring's test";
const PORT: u16 = 7119;

/// A daemon in a thread; killed on request, or when a test ends.
struct Kaccd<'a>(&'a AtomicBool);

impl Drop for Kaccd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `body` beside a daemon that it can end, in a network namespace of its own, if that is possible here.
fn beside(body: impl FnOnce(&(dyn Fn() + Sync)) + Send) {
    let _alone = alone();
    let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let end = || {
        over.store(true, Ordering::Release);
        until("the daemon ends", || ended.load(Ordering::Acquire));
    };
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            // SAFETY: no descriptors are unshared.
            let apart =
                unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
            let daemon = apart.map_err(|e| e.to_string()).and_then(|()| {
                let daemon = Daemon::new(NAME, PORT, Limits::default());
                daemon.map_err(|e| e.to_string())
            });
            let lacks = |daemon: &Daemon| daemon.lacks().map(ToString::to_string);
            let mut daemon = match daemon.and_then(|d| lacks(&d).map_or(Ok(d), Err)) {
                Ok(daemon) => daemon,
                Err(why) => {
                    let known = [
                        "CAP_BPF",
                        "privilege",
                        "not permitted",
                        "control group",
                        "tcx",
                    ];
                    assert!(known.iter().any(|k| why.contains(k)), "{why}");
                    eprintln!("skipped: {why}");
                    return;
                }
            };
            std::thread::scope(|scope| {
                // It is of the same namespace.
                let ranks = scope.spawn(|| {
                    let _kaccd = Kaccd(&over);
                    if possible() {
                        program_usable(NAME).unwrap_or_else(|e| panic!("{e}"));
                        body(&end);
                    }
                });
                while !over.load(Ordering::Acquire) {
                    daemon.step(Duration::from_millis(5));
                }
                drop(daemon);
                ended.store(true, Ordering::Release);
                ranks.join().unwrap();
            });
        });
        run.join().unwrap();
    });
}

/// Numbers that go up a line of ranks, each adding its own to what comes.
struct Sums {
    own: Vec<i64>,
    got: Vec<i64>,
}

impl Sums {
    fn new(n: usize) -> Sums {
        Sums {
            own: vec![0; n],
            got: vec![0; n],
        }
    }

    fn plan(&mut self, r: &Rank) -> Rc<Plan> {
        let bytes = 8 * self.own.len() as u64;
        let (own, got) = (memory(&mut self.own), memory(&mut self.got));
        let mut cad = Descriptor::new(r.rank, r.size, None);
        let mut last = START;
        if r.rank > 0 {
            let recv = cad.make_recv_node(got, bytes, r.rank - 1).unwrap();
            last = cad.make_reduction_node(add, got, own, bytes).unwrap();
            let how = How::Standard(Formula::of(Op::Sum, Type::I64).unwrap());
            let known = Known {
                from: got,
                to: own,
                bytes,
                how,
            };
            cad.know_reduction(last, known).unwrap();
            cad.connect_node(recv, last).unwrap();
        }
        if r.rank + 1 < r.size {
            let send = cad.make_send_node(own, bytes, r.rank + 1).unwrap();
            cad.connect_node(last, send).unwrap();
        }
        Rc::new(cad.plan().unwrap())
    }

    fn fill(&mut self, rank: u32, round: i64) {
        for (i, number) in (0..).zip(&mut self.own) {
            *number = i64::from(rank) * 1_000_000 + round * i - 7;
        }
    }

    fn check(&self, rank: u32, round: i64) {
        for (i, &number) in (0..).zip(&self.own) {
            let expected: i64 = (0..=i64::from(rank))
                .map(|r| r * 1_000_000 + round * i - 7)
                .sum();
            assert_eq!(number, expected, "rank {rank}, round {round}, number {i}");
        }
    }
}

fn add(src: UserBuf, dst: UserBuf, bytes: u64) {
    for at in (0..bytes as i64).step_by(8) {
        let (mut a, mut b) = ([0; 8], [0; 8]);
        src.offset(at).read(&mut a);
        dst.offset(at).read(&mut b);
        let sum = i64::from_ne_bytes(a).wrapping_add(i64::from_ne_bytes(b));
        dst.offset(at).write(&sum.to_ne_bytes());
    }
}

/// Reductions done by the program, and in calls and by the handler.
fn did(r: &mut Rank) -> (u64, u64) {
    let Counts {
        in_calls,
        in_signals,
        by_program,
        ..
    } = r.ring.counts();
    (by_program, in_calls + in_signals)
}

#[test]
fn ranks_that_only_compute_reduce_without_a_signal() {
    beside(|_| {
        for (size, numbers) in [(2, 1), (3, 128), (4, 100), (5, 7), (8, 30)] {
            let computing = AtomicU32::new(0);
            run_on(1, size, Callback::None, |mut r| {
                r.ring.calculate_by(NAME).unwrap();
                let mut sums = Sums::new(numbers);
                let plan = sums.plan(&r);
                assert_eq!(r.finish(&plan, 0), State::Done);
                r.meet();
                let before = did(&mut r);
                for round in 1..30 {
                    sums.fill(r.rank, round);
                    if r.rank == 0 {
                        let others = (size - 1) * round as u32;
                        until("the others compute", || {
                            computing.load(Ordering::Acquire) == others
                        });
                    }
                    let issued = r.ring.issue(&plan, 0).unwrap();
                    if r.rank > 0 {
                        assert_eq!(issued.query(), State::Pending);
                        computing.fetch_add(1, Ordering::Release);
                    }
                    compute(&issued);
                    sums.check(r.rank, round);
                    r.meet();
                }
                let after = did(&mut r);
                let expected = if r.rank > 0 { 29 } else { 0 };
                assert_eq!((after.0 - before.0, after.1 - before.1), (expected, 0));
                r.meet();
            });
        }
    });
}

#[test]
fn more_at_once_than_there_are_cells_are_right_too() {
    beside(|_| {
        run_on(1, 3, Callback::Signal, |mut r| {
            r.ring.calculate_by(NAME).unwrap();
            let mut all: Vec<Sums> = (1..61).map(Sums::new).collect();
            let plans: Vec<_> = all.iter_mut().map(|sums| sums.plan(&r)).collect();
            let kept: Vec<_> = (0..)
                .zip(&plans)
                .map(|(channel, plan)| r.ring.keep(plan, channel))
                .collect();
            for round in 1..10 {
                let mut issued = Vec::new();
                if r.rank == 0 {
                    // All of the others are under way.
                    r.meet();
                }
                for (sums, kept) in all.iter_mut().zip(&kept) {
                    sums.fill(r.rank, round);
                    issued.push(r.ring.issue_kept(kept).unwrap());
                }
                if r.rank > 0 {
                    r.meet();
                }
                for one in &issued {
                    assert_eq!(r.ring.wait(one, soon()), State::Done);
                }
                all.iter().for_each(|sums| sums.check(r.rank, round));
                r.meet();
            }
            let (by_program, others) = did(&mut r);
            let most = if r.rank > 0 { 60 * 9 } else { 0 };
            assert_eq!(by_program + others, most);
            // The first plans find cells, those beyond do without.
            assert!(
                most == 0 || (by_program > 0 && others > 0),
                "{by_program} {others}"
            );
            // One after the other, each finds some.
            let before = did(&mut r);
            for (sums, kept) in all.iter_mut().zip(&kept) {
                sums.fill(r.rank, 77);
                let issued = r.ring.issue_kept(kept).unwrap();
                assert_eq!(r.ring.wait(&issued, soon()), State::Done);
                sums.check(r.rank, 77);
                r.meet();
            }
            assert!(r.rank == 0 || did(&mut r).0 > before.0);
            r.meet();
        });
    });
}

#[test]
fn what_is_under_way_goes_on_when_the_daemon_is_gone() {
    beside(|end| {
        let gone = AtomicBool::new(false);
        run_on(1, 4, Callback::None, |mut r| {
            r.ring.calculate_by(NAME).unwrap();
            let mut sums = Sums::new(128);
            let plan = sums.plan(&r);
            assert_eq!(r.finish(&plan, 0), State::Done);
            r.meet();
            for round in 1..20 {
                sums.fill(r.rank, round);
                if r.rank == 0 {
                    if round == 5 {
                        // The others have begun, or are about to.
                        end();
                        gone.store(true, Ordering::Release);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                let issued = r.ring.issue(&plan, 0).unwrap();
                compute(&issued);
                sums.check(r.rank, round);
                r.meet();
            }
            assert!(gone.load(Ordering::Acquire) && program_usable(NAME).is_err());
            let all = if r.rank > 0 { 20 } else { 0 };
            assert_eq!(did(&mut r), (all, 0));
            r.meet();
        });
    });
}
