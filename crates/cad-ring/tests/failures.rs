//! Ranks that leave too early, parts that are taken back, and strangers.

mod world;

use cad_run::{Descriptor, Executor, Plan, State, UserBuf};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Instant;
use sys::unix;
use world::{Rank, pass_on, pipeline, run, soon};

/// A message to and from the other rank, the second after the first: with both waiting, nobody begins.
fn stuck(memory: &mut [u8], r: &Rank, size: u32) -> Rc<Plan> {
    let (up, down) = ((r.rank + 1) % size, (r.rank + size - 1) % size);
    let (buf, n) = (UserBuf::of_array(memory), memory.len() as u64);
    let mut cad = Descriptor::new(r.rank, size, None);
    let recv = cad.make_recv_node(buf, n, down).unwrap();
    let send = cad.make_send_node(buf, n, up).unwrap();
    cad.connect_node(recv, send).unwrap();
    Rc::new(cad.plan().unwrap())
}

/// Chunks from rank to rank, and from the last a word to everybody: nobody is done without it.
fn pipeline_and_word(memory: &mut [u8], word: &mut [u8], r: &Rank) -> Rc<Plan> {
    let mut cad = Descriptor::new(r.rank, r.size, None);
    let received = pass_on(&mut cad, memory, r.rank, r.size, 1 << 20);
    let (buf, last) = (UserBuf::of_array(word), r.size - 1);
    if r.rank < last {
        cad.make_recv_node(buf, 1, last).unwrap();
        return Rc::new(cad.plan().unwrap());
    }
    for to in 0..last {
        let send = cad.make_send_node(buf, 1, to).unwrap();
        cad.connect_node(received, send).unwrap();
    }
    Rc::new(cad.plan().unwrap())
}

#[test]
fn a_rank_that_leaves_in_the_middle_ends_what_needs_it_only() {
    run(4, |mut r| {
        // More than the sockets hold.
        let (mut memory, mut word) = (vec![1u8; 3 << 20], [1u8]);
        let both = pipeline_and_word(&mut memory, &mut word, &r);
        assert_eq!(r.finish(&both, 0), State::Done);
        r.meet();
        if r.rank == 3 {
            // It has begun to receive, and goes before the first has anything to send.
            let issued = r.ring.issue(&both, 0).unwrap();
            assert_eq!(issued.query(), State::Pending);
            let Rank { ring, meeting, .. } = r;
            drop(ring);
            assert_eq!(issued.query(), State::Cancelled);
            meeting.meet(4);
            meeting.meet(4);
            return;
        }
        // The others have begun too, and wait.
        let begun = (r.rank > 0).then(|| r.ring.issue(&both, 0).unwrap());
        r.meet();
        let issued = begun.unwrap_or_else(|| r.ring.issue(&both, 0).unwrap());
        // Whoever drops its ring says that it has cancelled.
        let first = r.ring.wait(&issued, soon());
        assert_eq!(first, State::Cancelled, "rank {}", r.rank);
        r.meet();
        let plan = pipeline(&mut memory, r.rank, 4, 1 << 20);
        // Who sends to it needs it; who sends to another may be done when that has taken everything.
        let second = r.finish(&plan, 0);
        let done = r.rank < 2 && second == State::Done;
        assert!(done || second == State::Lost, "rank {}: {second:?}", r.rank);
        let mut cad = Descriptor::new(r.rank, 4, None);
        let all = UserBuf::of_array(&mut memory);
        cad.make_send_node(all, 3 << 20, 3).unwrap();
        assert_eq!(r.finish(&Rc::new(cad.plan().unwrap()), 0), State::Lost);
        let mut other = [r.rank as u8; 4];
        let mut cad = Descriptor::new(r.rank, 4, Some(vec![0, 1, 2]));
        let buf = UserBuf::of_array(&mut other);
        match r.rank {
            0 => drop(cad.make_send_node(buf, 4, 2).unwrap()),
            2 => drop(cad.make_recv_node(buf, 4, 0).unwrap()),
            _ => {}
        }
        let third = r.finish(&Rc::new(cad.plan().unwrap()), 7);
        assert_eq!(third, State::Done);
        assert_eq!(other[0], if r.rank == 2 { 0 } else { r.rank as u8 });
        r.meeting.meet(3);
    });
}

#[test]
fn what_a_rank_has_sent_before_it_leaves_is_good() {
    run(2, |mut r| {
        let mut memory = vec![r.rank as u8; 50_000];
        let plan = pipeline(&mut memory, r.rank, 2, 50_000);
        assert_eq!(r.finish(&plan, 0), State::Done);
        r.meet();
        let Rank {
            mut ring, meeting, ..
        } = r;
        if plan.graph().team().rank == 0 {
            let issued = ring.issue(&plan, 0).unwrap();
            assert_eq!(ring.wait(&issued, soon()), State::Done);
            drop(ring);
            meeting.meet(2);
            return;
        }
        memory.fill(9);
        meeting.meet(2);
        let mut finish = || {
            let issued = ring.issue(&plan, 0).unwrap();
            ring.wait(&issued, soon())
        };
        assert_eq!(finish(), State::Done);
        // Now there is nothing any more.
        assert_eq!(finish(), State::Lost);
        assert!(memory.iter().all(|&b| b == 0));
    });
}

#[test]
fn what_is_cancelled_ends_and_leaves_others_alone() {
    run(3, |mut r| {
        let (mut memory, mut never) = (vec![r.rank as u8; 50_000], [7u8; 8]);
        let nobody = stuck(&mut never, &r, 3);
        let plan = pipeline(&mut memory, r.rank, 3, 10_000);
        for _ in 0..5 {
            let begun = r.ring.issue(&nobody, 1).unwrap();
            let good = r.ring.issue(&plan, 2).unwrap();
            assert_eq!(r.ring.wait(&begun, Some(Instant::now())), State::Pending);
            r.meet();
            r.ring.cancel(&begun);
            assert_eq!(r.ring.wait(&begun, soon()), State::Cancelled);
            assert_eq!(r.ring.wait(&good, soon()), State::Done);
            assert_eq!(never, [7; 8]);
            // Too late for one that is over.
            r.ring.cancel(&good);
            assert_eq!(good.query(), State::Done);
            r.meet();
            // The channel serves again, with new connections on its lanes.
            for _ in 0..3 {
                assert_eq!(r.finish(&plan, 1), State::Done);
            }
            assert!(memory.iter().all(|&b| b == 0));
            r.meet();
        }
    });
}

/// Rank 1 asks, and rank 0 answers with all this memory, when it is in a call.
fn answer(ask: &mut [u8; 8], memory: &mut [u8], rank: u32) -> Rc<Plan> {
    let (ask, n) = (UserBuf::of_array(ask), memory.len() as u64);
    let memory = UserBuf::of_array(memory);
    let mut cad = Descriptor::new(rank, 2, None);
    if rank == 1 {
        cad.make_send_node(ask, 8, 0).unwrap();
        cad.make_recv_node(memory, n, 0).unwrap();
    } else {
        let recv = cad.make_recv_node(ask, 8, 1).unwrap();
        let calc = cad.make_calc_node(Rc::new(|_, _, _| {}), ask, ask, 8);
        let send = cad.make_send_node(memory, n, 1).unwrap();
        cad.connect_node(recv, *calc.as_ref().unwrap()).unwrap();
        cad.connect_node(calc.unwrap(), send).unwrap();
    }
    Rc::new(cad.plan().unwrap())
}

#[test]
fn what_fails_leaves_an_earlier_one_on_its_lane_alone() {
    run(2, |mut r| {
        let mut memory = vec![r.rank as u8 + 1; 2_000_000];
        let (mut ask, mut small) = ([0; 8], vec![r.rank as u8; 5000]);
        let slow = answer(&mut ask, &mut memory, r.rank);
        let quick = pipeline(&mut small, r.rank, 2, 1000);
        let issue = |r: &mut Rank, plan: &Rc<Plan>| r.ring.issue(plan, 1).unwrap();
        let last = if r.rank == 0 {
            let begun = [issue(&mut r, &slow), issue(&mut r, &quick)];
            r.meet();
            // The other asks, and takes its next part on the same lane back.
            r.meet();
            let last = issue(&mut r, &slow);
            assert_eq!(begun.map(|b| r.ring.wait(&b, soon())), [State::Done; 2]);
            last
        } else {
            r.meet();
            let begun = [issue(&mut r, &slow), issue(&mut r, &quick)];
            let last = issue(&mut r, &slow);
            assert_eq!(r.ring.wait(&begun[1], soon()), State::Done);
            assert_eq!(begun[0].query(), State::Pending);
            r.ring.cancel(&last);
            let soon_enough = Instant::now() + std::time::Duration::from_millis(50);
            assert_eq!(r.ring.wait(&begun[0], Some(soon_enough)), State::Pending);
            r.meet();
            assert_eq!(r.ring.wait(&begun[0], soon()), State::Done);
            last
        };
        assert_eq!(r.ring.wait(&last, soon()), State::Cancelled);
        assert!(memory.iter().all(|&b| b == 1));
        // The lane serves again.
        for _ in 0..3 {
            assert_eq!(r.finish(&quick, 1), State::Done);
        }
        r.meet();
    });
}

#[test]
fn one_who_cancels_ends_it_for_all() {
    run(3, |mut r| {
        let mut never = [7u8; 8];
        let plan = stuck(&mut never, &r, 3);
        let issued = r.ring.issue(&plan, 1).unwrap();
        r.meet();
        if r.rank == 2 {
            r.ring.cancel(&issued);
        }
        assert_eq!(r.ring.wait(&issued, soon()), State::Cancelled);
        assert_eq!(never, [7; 8]);
        r.meet();
    });
}

#[test]
fn a_part_that_was_taken_back_before_others_began_theirs_ends_them_at_once() {
    run(2, |mut r| {
        let mut memory = vec![r.rank as u8; 5000];
        let plan = pipeline(&mut memory, r.rank, 2, 1000);
        if r.rank == 0 {
            let issued = r.ring.issue(&plan, 1).unwrap();
            // It has sent everything already, or waits for room: both may be.
            r.ring.cancel(&issued);
            let late = r.ring.wait(&issued, soon());
            assert!(matches!(late, State::Cancelled | State::Done));
            r.meet();
            r.meet();
            return;
        }
        let mut never = [0u8; 8];
        let nobody = {
            let buf = UserBuf::of_array(&mut never);
            let mut cad = Descriptor::new(1, 2, None);
            cad.make_recv_node(buf, 8, 0).unwrap();
            Rc::new(cad.plan().unwrap())
        };
        r.meet();
        let first = r.finish(&plan, 1);
        assert!(matches!(first, State::Cancelled | State::Done));
        // The other has not issued this one, and ends.
        let issued = r.ring.issue(&nobody, 1).unwrap();
        r.meet();
        assert_eq!(r.ring.wait(&issued, soon()), State::Lost);
    });
}

#[test]
fn strangers_do_not_disturb() {
    run(2, |mut r| {
        let mut memory = vec![r.rank as u8; 300_000];
        let plan = pipeline(&mut memory, r.rank, 2, 10_000);
        assert_eq!(r.finish(&plan, 0), State::Done);
        r.meet();
        // All listeners, those of other tests among them. Whom one has let in goes by its name too: once is enough.
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        let names = sockets
            .lines()
            .filter_map(|l| l.split_once("@yamabiko-cad-"));
        let names: BTreeSet<&str> = names.map(|(_, name)| name).collect();
        let mut guests = Vec::new();
        for name in names {
            let name = format!("yamabiko-cad-{}", name.trim());
            for hello in ["", "yamabiko-ring 0.1.0 0 00", "yamabiko-ring 0.1.0 x"] {
                let guest = unix::connect(name.as_bytes(), unix::Kind::Packets, soon());
                if let Ok(guest) = guest {
                    // It may be hung up on already.
                    let _ = guest.send_all(hello.as_bytes(), None, soon());
                    guests.push(guest);
                }
            }
        }
        assert!(!guests.is_empty());
        for _ in 0..3 {
            assert_eq!(r.finish(&plan, 0), State::Done);
        }
        assert!(memory.iter().all(|&b| b == 0));
        r.meet();
    });
}
