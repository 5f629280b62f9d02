//! Plans on ranks that are threads: they move what they should, while the rank computes.

mod world;

use cad_run::{Calc, Callback, Descriptor, Executor, NotIssued, Plan, State, UserBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use world::{Rank, compute, pipeline, run, run_apart, run_on, soon, workers};

/// Numbers that look random.
fn noise(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn a_pipeline_passes_all_chunks_on_each_time_it_is_issued() {
    for size in [1, 2, 3, 4, 5] {
        run(size, |mut r| {
            let mut memory = [vec![0u8; 400_000], vec![0u8; 100_000]];
            let plans = [(0, 150_000), (1, 9_000)]
                .map(|(m, chunk)| pipeline(&mut memory[m], r.rank, size, chunk));
            for round in 0..10u8 {
                if r.rank == 0 {
                    memory[0].fill(round + 1);
                    memory[1].fill(round + 101);
                }
                // Two channels at once, begun in either order.
                let order = if r.rank % 2 == 0 { [0, 1] } else { [1, 0] };
                let issued = order.map(|c| r.ring.issue(&plans[c], 10 + c as u32).unwrap());
                for i in &issued {
                    assert_eq!(r.ring.wait(i, soon()), State::Done);
                }
                assert!(memory[0].iter().all(|&b| b == round + 1), "rank {}", r.rank);
                assert!(
                    memory[1].iter().all(|&b| b == round + 101),
                    "rank {}",
                    r.rank
                );
            }
            let nodes: usize = plans.iter().map(|p| p.graph().nodes().len()).sum();
            let counts = r.ring.counts();
            assert_eq!((counts.plans, counts.in_calls), (20, 0));
            assert_eq!(counts.nodes, 10 * nodes as u64);
            r.meet();
        });
    }
}

#[test]
fn a_relay_that_only_computes_passes_a_broadcast_on() {
    for hosts in 1..=3 {
        relays(hosts);
    }
}

fn relays(hosts: u32) {
    let computes = AtomicBool::new(false);
    run_on(hosts, 3, Callback::Signal, |mut r| {
        let mut memory = vec![0u8; 1 << 20];
        let plan = pipeline(&mut memory, r.rank, 3, 1 << 20);
        assert_eq!(r.finish(&plan, 0), State::Done);
        r.meet();
        if r.rank == 0 {
            memory.fill(7);
            while !computes.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        let issued = r.ring.issue(&plan, 0).unwrap();
        if r.rank == 1 {
            assert_eq!(issued.query(), State::Pending);
            computes.store(true, Ordering::Release);
            compute(&issued);
        }
        assert_eq!(r.ring.wait(&issued, soon()), State::Done);
        assert!(memory.iter().all(|&b| b == 7));
        assert_eq!(workers(), Vec::<String>::new());
        r.meet();
    });
}

#[test]
fn the_first_issue_of_a_channel_needs_no_call_either() {
    for relay_first in [true, false] {
        let issued_by = AtomicU32::new(0);
        run_on(1, 3, Callback::Signal, |mut r| {
            let mut memory = vec![r.rank as u8 + 1; 200_000];
            let plan = pipeline(&mut memory, r.rank, 3, 50_000);
            let before = match (relay_first, r.rank) {
                (true, 1) => 0,
                (true, _) => 1,
                (false, 1) => 2,
                (false, _) => 0,
            };
            while issued_by.load(Ordering::Acquire) < before {
                std::thread::yield_now();
            }
            let issued = r.ring.issue(&plan, 0).unwrap();
            issued_by.fetch_add(1, Ordering::Release);
            if r.rank == 1 {
                compute(&issued);
            }
            assert_eq!(r.ring.wait(&issued, soon()), State::Done);
            assert!(memory.iter().all(|&b| b == 1));
            r.meet();
        });
    }
}

/// A plan that passes one byte on between two ranks, of which this may be one.
fn one_message(memory: UserBuf, rank: u32, from: u32, to: u32) -> Rc<Plan> {
    let mut cad = Descriptor::new(rank, 3, None);
    if rank == from {
        cad.make_send_node(memory, 1, to).unwrap();
    } else if rank == to {
        cad.make_recv_node(memory, 1, from).unwrap();
    }
    Rc::new(cad.plan().unwrap())
}

#[test]
fn a_later_issue_may_be_the_first_to_need_a_peer() {
    run(3, |mut r| {
        let mut memory = [[r.rank as u8]; 4];
        let bufs = memory.each_mut().map(|m| UserBuf::of_array(m));
        // The third waits behind the first, which is held up, while the fourth begins.
        let ways = [(2, 0), (0, 2), (0, 1), (0, 1)];
        let plans: Vec<_> = bufs
            .iter()
            .zip(ways)
            .map(|(&buf, (from, to))| one_message(buf, r.rank, from, to))
            .collect();
        let mut issued = Vec::new();
        for rank in 0..3 {
            if r.rank == rank {
                issued.extend(plans.iter().map(|p| r.ring.issue(p, 0).unwrap()));
            }
            r.meet();
            if r.rank == 0 && rank == 0 {
                r.ring.progress();
            }
        }
        for i in &issued {
            assert_eq!(r.ring.wait(i, soon()), State::Done);
        }
        r.meet();
    });
}

#[test]
fn who_waits_for_a_peer_whose_line_is_held_up_needs_no_call() {
    run(3, |mut r| {
        let mut memory = [[r.rank as u8]; 3];
        let bufs = memory.each_mut().map(|m| UserBuf::of_array(m));
        // The third waits on rank 0, whose lanes the first two hold until rank 2 comes.
        let ways = [(2, 0), (2, 0), (0, 1)];
        let plans: Vec<_> = bufs
            .iter()
            .zip(ways)
            .map(|(&buf, (from, to))| one_message(buf, r.rank, from, to))
            .collect();
        let mut issued = Vec::new();
        for rank in 0..3 {
            if r.rank == rank {
                issued.extend(plans.iter().map(|p| r.ring.issue(p, 0).unwrap()));
            }
            r.meet();
        }
        for i in &issued {
            match r.rank {
                1 => compute(i),
                _ => assert_eq!(r.ring.wait(i, soon()), State::Done),
            }
        }
        if r.rank == 1 {
            assert_eq!(memory[2], [0]);
        }
        r.meet();
    });
}

#[test]
fn a_channel_that_one_rank_has_left_serves_the_others() {
    run(3, |mut r| {
        for channel in 0..60 {
            let mut memory = vec![r.rank as u8; 3000];
            let plan = pipeline(&mut memory, r.rank, 3, 1000);
            // The first is through, and has left the channel, before the others begin.
            if r.rank > 0 {
                r.meet();
            }
            assert_eq!(r.finish(&plan, channel), State::Done);
            r.ring.forget(channel);
            if r.rank == 0 {
                r.meet();
            }
            assert!(memory.iter().all(|&b| b == 0));
        }
        r.ring.progress();
        r.meet();
    });
}

#[test]
fn copies_need_no_call() {
    run(2, |mut r| {
        let mut memory = vec![r.rank as u8; 600_000];
        let (first, second) = memory.split_at_mut(300_000);
        let (a, b) = (UserBuf::of_array(first), UserBuf::of_array(second));
        let mut cad = Descriptor::new(r.rank, 2, None);
        if r.rank == 0 {
            let copy = cad.make_copy_node(a, b, 300_000).unwrap();
            let send = cad.make_send_node(b, 300_000, 1).unwrap();
            cad.connect_node(copy, send).unwrap();
        } else {
            let recv = cad.make_recv_node(a, 300_000, 0).unwrap();
            let copy = cad.make_copy_node(a, b, 300_000).unwrap();
            cad.connect_node(recv, copy).unwrap();
        }
        let plan = Rc::new(cad.plan().unwrap());
        for round in 1..4u8 {
            if r.rank == 0 {
                // Not before the other has taken the last round's.
                r.meet();
                first.fill(10 * round);
            } else {
                r.meet();
            }
            let issued = r.ring.issue(&plan, 0).unwrap();
            if r.rank == 1 && round > 1 {
                compute(&issued);
            }
            assert_eq!(r.ring.wait(&issued, soon()), State::Done);
            assert!(second.iter().all(|&b| b == 10 * round));
        }
        assert_eq!(r.ring.counts().in_calls, 0);
        r.meet();
    });
}

/// The ranks' numbers go up the line, each subtracting what comes from its own.
fn up_the_line(own: UserBuf, got: UserBuf, rank: u32, size: u32) -> Rc<Plan> {
    let subtract: Calc = Rc::new(|src, dst, bytes| {
        assert_eq!(bytes, 8);
        let (mut a, mut b) = ([0; 8], [0; 8]);
        src.read(&mut a);
        dst.read(&mut b);
        let result = i64::from_ne_bytes(b) - i64::from_ne_bytes(a);
        dst.write(&result.to_ne_bytes());
    });
    let mut cad = Descriptor::new(rank, size, None);
    let mut last = cad_run::START;
    if rank > 0 {
        last = cad.make_calc_node(subtract, got, own, 8).unwrap();
        let recv = cad.make_recv_node(got, 8, rank - 1).unwrap();
        cad.connect_node(recv, last).unwrap();
    }
    if rank + 1 < size {
        let send = cad.make_send_node(own, 8, rank + 1).unwrap();
        cad.connect_node(last, send).unwrap();
    }
    Rc::new(cad.plan().unwrap())
}

#[test]
fn calculations_wait_for_a_call() {
    run(3, |mut r| {
        let (mut own, mut got) = ([0u8; 8], [0u8; 8]);
        let bufs = [&mut own, &mut got].map(|m| UserBuf::of_array(m));
        let plan = up_the_line(bufs[0], bufs[1], r.rank, 3);
        for round in 0..5 {
            own = (10 * i64::from(r.rank) + round).to_ne_bytes();
            assert_eq!(r.finish(&plan, 4), State::Done);
            let result = [round, 10, 10 + round][r.rank as usize];
            assert_eq!(i64::from_ne_bytes(own), result);
        }
        let expected = if r.rank == 0 { 0 } else { 5 };
        assert_eq!(r.ring.counts().in_calls, expected);
        r.meet();
    });
}

#[test]
fn messages_without_data_make_a_barrier() {
    for (hosts, size) in [(1, 2), (1, 3), (1, 5), (2, 2), (2, 3), (2, 5), (4, 5)] {
        let came = AtomicU32::new(0);
        run_on(hosts, size, Callback::Signal, |mut r| {
            std::thread::sleep(std::time::Duration::from_millis(5 * u64::from(r.rank)));
            came.fetch_add(1, Ordering::SeqCst);
            let plan = Rc::new(cad_run::barrier(r.rank, size).unwrap());
            assert_eq!(r.finish(&plan, u32::MAX), State::Done);
            assert_eq!(came.load(Ordering::SeqCst), size);
            r.meet();
        });
    }
}

/// Everybody to everybody, with sizes that differ.
struct Exchange {
    send: Vec<Vec<u8>>,
    recv: Vec<Vec<u8>>,
    plan: Rc<Plan>,
}

impl Exchange {
    fn new(rank: u32, size: u32, seed: u64) -> Exchange {
        let length = |from: u32, to: u32| {
            let mut state = seed << 16 | u64::from(from) << 8 | u64::from(to);
            noise(&mut state);
            1 + (noise(&mut state) % 300_000) as usize
        };
        let mut send: Vec<_> = (0..size).map(|p| vec![0; length(rank, p)]).collect();
        let mut recv: Vec<_> = (0..size).map(|p| vec![0; length(p, rank)]).collect();
        let mut cad = Descriptor::new(rank, size, None);
        for peer in (0..size).filter(|&p| p != rank) {
            let p = peer as usize;
            let (out, into) = (send[p].len() as u64, recv[p].len() as u64);
            let buf = UserBuf::of_array(&mut send[p]);
            cad.make_send_node(buf, out, peer).unwrap();
            let buf = UserBuf::of_array(&mut recv[p]);
            cad.make_recv_node(buf, into, peer).unwrap();
        }
        let plan = Rc::new(cad.plan().unwrap());
        Exchange { send, recv, plan }
    }

    fn fill(&mut self, r: &Rank, round: u8) {
        for (peer, memory) in self.send.iter_mut().enumerate() {
            memory.fill(round ^ (16 * r.rank as u8 + peer as u8));
        }
    }

    fn check(&self, r: &Rank, round: u8) {
        for (peer, memory) in self.recv.iter().enumerate() {
            let expected = round ^ (16 * peer as u8 + r.rank as u8);
            let own = peer as u32 == r.rank;
            assert!(own || memory.iter().all(|&b| b == expected));
        }
    }
}

#[test]
fn many_issues_at_once_do_not_mix() {
    const CHANNELS: usize = 2;
    const DEEP: usize = 4;
    run(4, |mut r| {
        let mut all: Vec<Exchange> = (0..CHANNELS * DEEP)
            .map(|i| Exchange::new(r.rank, 4, i as u64))
            .collect();
        let mut seed = u64::from(r.rank) + 99;
        for round in 0..12u8 {
            let mut left = [0; CHANNELS];
            let mut issued = Vec::new();
            while issued.len() < CHANNELS * DEEP {
                let channel = noise(&mut seed) as usize % CHANNELS;
                if left[channel] == DEEP {
                    continue;
                }
                let which = channel * DEEP + left[channel];
                left[channel] += 1;
                all[which].fill(&r, round);
                issued.push(r.ring.issue(&all[which].plan, channel as u32).unwrap());
            }
            if r.rank == 1 {
                issued.reverse();
            }
            for i in &issued {
                assert_eq!(r.ring.wait(i, soon()), State::Done, "round {round}");
            }
            all.iter().for_each(|e| e.check(&r, round));
        }
        r.meet();
    });
}

#[test]
fn chains_longer_than_the_ring_takes_run() {
    run(3, |mut r| {
        let mut memory = vec![r.rank as u8; 20_000];
        // Some thousand steps, and each chunk waits for the one before.
        let plan = pipeline(&mut memory, r.rank, 3, 10);
        for round in 1..4 {
            if r.rank == 0 {
                memory.fill(round);
            }
            assert_eq!(r.finish(&plan, 0), State::Done);
            assert!(memory.iter().all(|&b| b == round));
        }
        r.meet();
    });
}

#[test]
fn what_cannot_run_in_the_kernel_is_refused() {
    run(2, |mut r| {
        let mut memory = [0u8; 8];
        let buf = UserBuf::of_array(&mut memory);
        let mut cad = Descriptor::new(r.rank, 2, None);
        let first = cad.make_send_node(buf, 8, 1 - r.rank).unwrap();
        let second = cad.make_send_node(buf, 8, 1 - r.rank).unwrap();
        cad.connect_node(second, first).unwrap();
        let refused = r.ring.issue(&Rc::new(cad.plan().unwrap()), 0);
        assert!(matches!(refused, Err(NotIssued::Unfit(_))));
        // It does not count on the channel.
        let mut memory = vec![r.rank as u8; 5000];
        let plan = pipeline(&mut memory, r.rank, 2, 1000);
        assert_eq!(r.finish(&plan, 0), State::Done);
        assert!(memory.iter().all(|&b| b == 0));
        r.meet();
    });
}

/// Nobody waits for the others when it joins, and plans come to their ends all the same.
#[test]
fn those_who_have_not_met_do_when_a_plan_needs_both() {
    const BYTES: usize = 300_000;
    run_apart(4, |mut r| {
        let mut memory = vec![0; BYTES];
        for round in 1..=12 {
            memory.fill(if r.rank == 0 { round } else { 0 });
            let plan = pipeline(&mut memory, r.rank, r.size, 64 << 10);
            assert_eq!(r.finish(&plan, u32::from(round % 3)), State::Done);
            assert!(memory.iter().all(|&byte| byte == round));
        }
        r.meet();
    });
}

/// Who is gone before anybody has met it ends what needs it.
#[test]
fn who_is_gone_before_it_was_met_is_lost() {
    run_apart(3, |mut r| {
        let mut memory = vec![0; 1000];
        if r.rank == 1 {
            drop(r.ring);
            return;
        }
        let plan = pipeline(&mut memory, r.rank, r.size, 1000);
        let issued = r.ring.issue(&plan, 1).unwrap();
        assert_eq!(issued.query(), State::Pending);
        r.ring.lose(1);
        assert_eq!(r.ring.wait(&issued, soon()), State::Lost);
    });
}
