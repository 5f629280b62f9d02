//! Descriptors on simulated processes, each in a thread of its own.

use cad_run::{
    Calc, Descriptor, END, Executor, Inline, Plan, Refused, START, State, UserBuf, barrier,
};
use mtmi::Matched;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::{Manner, Sim, World};

const MANNERS: [Manner; 3] = [Manner::SHARED, Manner::NETWORK, Manner::SLOW];

type Process = Inline<Matched<Sim>>;

/// Plays all processes.
fn run(size: u32, manner: Manner, body: impl Fn(&World, Process, u32) + Sync) {
    let world = World::new(size, manner);
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (world, body) = (&world, &body);
            scope.spawn(move || body(world, Inline::new(Matched::new(world.join(rank))), rank));
        }
    });
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(30))
}

fn finish(mut process: Process, plan: Plan, channel: u32) -> State {
    let issued = process.issue(&Rc::new(plan), channel).unwrap();
    process.wait(&issued, soon())
}

/// Passes chunks on from process to process, as the paper's example does.
fn pipeline(memory: &mut [u8], rank: u32, size: u32, chunk: usize) -> Plan {
    let mut cad = Descriptor::new(rank, size, None);
    for part in memory.chunks_mut(chunk) {
        let (buf, n) = (UserBuf::of_array(part), part.len() as u64);
        let mut last = START;
        if rank > 0 {
            let recv = cad.make_recv_node(buf, n, rank - 1).unwrap();
            cad.connect_node(last, recv).unwrap();
            last = recv;
        }
        if rank + 1 < size {
            let send = cad.make_send_node(buf, n, rank + 1).unwrap();
            cad.connect_node(last, send).unwrap();
            last = send;
        }
        cad.connect_node(last, END).unwrap();
    }
    cad.plan().unwrap()
}

#[test]
fn a_pipeline_passes_all_chunks_on_each_time_it_is_issued() {
    for manner in MANNERS {
        run(4, manner, |_, mut process, rank| {
            let mut memory = [vec![0u8; 100_000], vec![0u8; 100_000]];
            let plans = memory
                .each_mut()
                .map(|m| Rc::new(pipeline(m, rank, 4, 30_000)));
            for round in 0..10u8 {
                if rank == 0 {
                    memory[0].fill(round + 1);
                    memory[1].fill(round + 101);
                }
                // Two channels at once, begun in either order.
                let order = if rank % 2 == 0 { [0, 1] } else { [1, 0] };
                let issued = order.map(|c| process.issue(&plans[c], 10 + c as u32).unwrap());
                for i in &issued {
                    assert_eq!(process.wait(i, soon()), State::Done);
                    assert_eq!(i.query(), State::Done);
                }
                assert!(memory[0].iter().all(|&b| b == round + 1), "rank {rank}");
                assert!(memory[1].iter().all(|&b| b == round + 101), "rank {rank}");
            }
        });
    }
}

fn subtract(src: UserBuf, dst: UserBuf, bytes: u64) {
    assert_eq!(bytes, 8);
    let (mut a, mut b) = ([0; 8], [0; 8]);
    src.read(&mut a);
    dst.read(&mut b);
    let result = i64::from_ne_bytes(b) - i64::from_ne_bytes(a);
    dst.write(&result.to_ne_bytes());
}

#[test]
fn calculations_and_copies_run_in_order() {
    // The processes' numbers go up the line, each subtracting what comes from its own.
    let as_calc = || -> Calc { Rc::new(subtract) };
    run(3, Manner::SLOW, |_, process, rank| {
        let mut own = (10 * i64::from(rank) + 1).to_ne_bytes();
        let (mut got, mut copy) = ([0u8; 8], [0u8; 8]);
        let [own_buf, got_buf, copy_buf] =
            [&mut own, &mut got, &mut copy].map(|m| UserBuf::of_array(m));
        let mut cad = Descriptor::new(rank, 3, None);
        let mut last = START;
        // Made in the wrong order, connected in the right one.
        let copied = cad.make_copy_node(own_buf, copy_buf, 8).unwrap();
        if rank > 0 {
            let calc = match rank {
                1 => cad.make_calc_node(as_calc(), got_buf, own_buf, 8),
                _ => cad.make_reduction_node(subtract, got_buf, own_buf, 8),
            };
            let calc = calc.unwrap();
            let recv = cad.make_recv_node(got_buf, 8, rank - 1).unwrap();
            cad.connect_node(recv, calc).unwrap();
            last = calc;
        }
        if rank < 2 {
            let send = cad.make_send_node(own_buf, 8, rank + 1).unwrap();
            cad.connect_node(last, send).unwrap();
        }
        cad.connect_node(last, copied).unwrap();
        assert_eq!(finish(process, cad.plan().unwrap(), 0), State::Done);
        let result = [1, 10, 11][rank as usize];
        assert_eq!(i64::from_ne_bytes(own), result);
        assert_eq!(copy, own);
    });
}

#[test]
fn lengths_that_differ_are_an_error() {
    for (sent, expected) in [(4, 8), (8, 4)] {
        run(2, Manner::NETWORK, |_, process, rank| {
            let mut memory = [0u8; 8];
            let buf = UserBuf::of_array(&mut memory);
            let mut cad = Descriptor::new(rank, 2, None);
            match rank {
                0 => cad.make_send_node(buf, sent, 1).unwrap(),
                _ => cad.make_recv_node(buf, expected, 0).unwrap(),
            };
            let state = finish(process, cad.plan().unwrap(), 3);
            assert!(rank == 0 || state == State::Length, "{state:?}");
        });
    }
}

#[test]
fn what_is_cancelled_ends_and_leaves_others_alone() {
    run(2, Manner::NETWORK, |_, mut process, rank| {
        let (mut memory, mut never) = (vec![rank as u8; 50_000], [7u8; 8]);
        let mut cad = Descriptor::new(rank, 2, None);
        let recv = cad
            .make_recv_node(UserBuf::of_array(&mut never), 8, 1 - rank)
            .unwrap();
        let send = cad
            .make_send_node(UserBuf::of_array(&mut never), 8, 1 - rank)
            .unwrap();
        cad.connect_node(recv, send).unwrap();
        let stuck = process.issue(&Rc::new(cad.plan().unwrap()), 1).unwrap();
        let plan = Rc::new(pipeline(&mut memory, rank, 2, 10_000));
        let good = process.issue(&plan, 2).unwrap();
        assert_eq!(process.wait(&stuck, Some(Instant::now())), State::Pending);
        process.cancel(&stuck);
        assert_eq!(process.wait(&stuck, soon()), State::Cancelled);
        assert_eq!(process.wait(&good, soon()), State::Done);
        assert_eq!(never, [7; 8]);
        // Too late for one that is over.
        process.cancel(&good);
        assert_eq!(good.query(), State::Done);
    });
}

#[test]
fn a_lost_process_ends_what_needs_it_only() {
    run(4, Manner::NETWORK, |world, mut process, rank| {
        let mut memory = vec![0u8; 1000];
        let mut other = [rank as u8; 4];
        if rank == 0 {
            world.kill(0);
            return;
        }
        // 3 waits for 2, which waits for 1, which waits for the dead one.
        let needs = Rc::new(pipeline(&mut memory, rank, 4, 1000));
        let first = process.issue(&needs, 0).unwrap();
        assert_eq!(process.wait(&first, soon()), State::Lost);
        let second = process.issue(&needs, 0).unwrap();
        assert_eq!(process.wait(&second, soon()), State::Lost);
        let mut cad = Descriptor::new(rank, 4, Some(vec![1, 2, 3]));
        let buf = UserBuf::of_array(&mut other);
        match rank {
            1 => drop(cad.make_send_node(buf, 4, 3).unwrap()),
            3 => drop(cad.make_recv_node(buf, 4, 1).unwrap()),
            _ => {}
        }
        let third = process.issue(&Rc::new(cad.plan().unwrap()), 0).unwrap();
        assert_eq!(process.wait(&third, soon()), State::Done);
        assert_eq!(other[0], if rank == 3 { 1 } else { rank as u8 });
    });
}

#[test]
fn what_cannot_be_is_refused() {
    let mut memory = [0u8; 8];
    let buf = UserBuf::of_array(&mut memory);
    let mut cad = Descriptor::new(1, 4, Some(vec![1, 2]));
    assert_eq!(cad.make_send_node(buf, 8, 4), Err(Refused::Peer(4)));
    assert_eq!(cad.make_send_node(buf, 8, 1), Err(Refused::Peer(1)));
    assert_eq!(cad.make_recv_node(buf, 8, 3), Err(Refused::Peer(3)));
    assert_eq!(cad.make_recv_node(buf, u64::MAX, 2), Err(Refused::Memory));
    let a = cad.make_recv_node(buf, 8, 2).unwrap();
    let b = cad.make_send_node(buf, 8, 2).unwrap();
    assert_eq!(cad.connect_node(a, 2), Err(Refused::Node(2)));
    assert_eq!(cad.connect_node(END, a), Err(Refused::Node(END)));
    assert_eq!(cad.connect_node(a, START), Err(Refused::Node(START)));
    cad.connect_node(a, b).unwrap();
    cad.connect_node(b, a).unwrap();
    let circle = Refused::Graph(cad::Invalid::Cycle);
    assert_eq!(cad.plan().err(), Some(circle));
    let mut cad = Descriptor::new(0, 2, None);
    for _ in 0..=cad::MAX_TAG {
        cad.make_send_node(buf, 8, 1).unwrap();
    }
    assert_eq!(cad.make_send_node(buf, 8, 1), Err(Refused::TooMany));
}

#[test]
fn a_barrier_holds_all_until_the_last_has_come() {
    for size in [1, 2, 3, 5] {
        let came = AtomicU32::new(0);
        run(size, Manner::SLOW, |_, process, rank| {
            std::thread::sleep(Duration::from_millis(10 * u64::from(rank)));
            came.fetch_add(1, Ordering::SeqCst);
            assert_eq!(
                finish(process, barrier(rank, size).unwrap(), 0),
                State::Done
            );
            assert_eq!(came.load(Ordering::SeqCst), size);
        });
    }
}
