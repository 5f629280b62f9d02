//! Reductions that the handler of a signal does while the rank computes; and what may keep it from doing so, where the rank does them
//! in its next call. Each is done once, whoever does it: a reduction here subtracts. (`signal.rs` has what is between the handler
//! and the program.)

mod world;

use cad_run::{Callback, Descriptor, Executor, State};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use world::line::{
    Line, alone, block, blocked, did, disposition, has_rung, memory, subtract, until, urgent,
};
use world::{Rank, compute, run, run_on, run_with, soon, workers};

#[test]
fn ranks_that_only_compute_reduce() {
    let _alone = alone();
    let sizes = [(1, 4), (2, 1), (3, 8192), (4, 100), (5, 8192), (8, 30)];
    for (hosts, (size, numbers)) in (1..=2).flat_map(|hosts| sizes.map(|of| (hosts, of))) {
        let computing = AtomicU32::new(0);
        run_on(hosts, size, Callback::Signal, |mut r| {
            let mut line = Line::new(numbers);
            let plan = line.plan(&r);
            assert_eq!(r.finish(&plan, 0), State::Done);
            r.meet();
            let before = did(&mut r.ring);
            for round in 1..6 {
                line.fill(r.rank, round);
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
                line.check(r.rank, round);
                r.meet();
            }
            let after = did(&mut r.ring);
            let expected = if r.rank > 0 { 5 } else { 0 };
            assert_eq!((after.0 - before.0, after.1 - before.1), (0, expected));
            assert_eq!(workers(), Vec::<String>::new());
            r.meet();
        });
    }
}

/// Why the calling thread's last call failed.
fn errno() -> *mut i32 {
    // SAFETY: it only tells a place.
    unsafe { libc::__errno_location() }
}

#[test]
fn why_a_call_of_the_programs_failed_stays() {
    let _alone = alone();
    let computing = AtomicU32::new(0);
    run_on(1, 2, Callback::Signal, |mut r| {
        let mut line = Line::new(10);
        let plan = line.plan_with(&r, |src, dst, bytes| {
            // SAFETY: the place is this thread's own.
            unsafe { *errno() = libc::ERANGE };
            subtract(src, dst, bytes);
        });
        assert_eq!(r.finish(&plan, 0), State::Done);
        let before = did(&mut r.ring);
        line.fill(r.rank, 1);
        r.meet();
        if r.rank == 0 {
            until("the other computes", || {
                computing.load(Ordering::Acquire) == 1
            });
        }
        let issued = r.ring.issue(&plan, 0).unwrap();
        // SAFETY: as above.
        unsafe { *errno() = libc::EAGAIN };
        computing.fetch_add(r.rank, Ordering::Release);
        compute(&issued);
        if r.rank == 1 {
            // SAFETY: as above.
            assert_eq!(unsafe { *errno() }, libc::EAGAIN);
            assert_eq!(did(&mut r.ring).1 - before.1, 1, "by the handler");
        }
        line.check(r.rank, 1);
        r.meet();
    });
}

#[test]
fn many_plans_at_once_reduce_while_ranks_compute() {
    let _alone = alone();
    run(4, |mut r| {
        let mut lines: Vec<Line> = (1..9).map(|n| Line::new(100 * n)).collect();
        let plans: Vec<_> = lines.iter_mut().map(|line| line.plan(&r)).collect();
        for (channel, plan) in plans.iter().enumerate() {
            assert_eq!(r.finish(plan, channel as u32), State::Done);
        }
        for round in 1..20 {
            let mut issued = Vec::new();
            for (channel, plan) in plans.iter().enumerate() {
                lines[channel].fill(r.rank, round);
                issued.push(r.ring.issue(plan, channel as u32).unwrap());
            }
            issued.iter().for_each(compute);
            lines.iter().for_each(|line| line.check(r.rank, round));
            r.meet();
        }
        let all = if r.rank > 0 { 20 * 8 } else { 0 };
        assert_eq!(did(&mut r.ring), (0, all));
        r.meet();
    });
}

#[test]
fn without_the_call_back_reductions_wait_for_a_call() {
    let _alone = alone();
    run_with(3, Callback::None, |mut r| {
        assert_eq!(disposition().sa_sigaction, libc::SIG_DFL);
        let mut line = Line::new(10);
        let plan = line.plan(&r);
        for round in 1..4 {
            line.fill(r.rank, round);
            assert_eq!(r.finish(&plan, 0), State::Done);
            line.check(r.rank, round);
        }
        assert_eq!(did(&mut r.ring), (if r.rank > 0 { 3 } else { 0 }, 0));
        r.meet();
    });
}

#[test]
fn a_signal_that_is_blocked_is_handled_when_it_is_let_through() {
    let _alone = alone();
    blocked(|r, issued, line| {
        assert_eq!(line.own[2], 10 + 7 * 2, "too early");
        block(false);
        line.check(1, 7);
        compute(issued);
        assert_eq!(did(&mut r.ring), (0, 2));
    });
}

#[test]
fn a_signal_that_is_blocked_loses_to_a_call() {
    let _alone = alone();
    blocked(|r, issued, line| {
        assert_eq!(r.ring.wait(issued, soon()), State::Done);
        line.check(1, 7);
        let before = did(&mut r.ring);
        assert_eq!(before.0, 1);
        // It comes, and finds nothing to do.
        assert!(has_rung());
        block(false);
        assert!(!has_rung());
        line.check(1, 7);
        assert_eq!(did(&mut r.ring), before);
    });
}

#[test]
fn a_full_queue_of_signals_does_not_matter() {
    let _alone = alone();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is filled in, and a limit that is allowed is set; no real-time signal is queued then.
    let before = unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
        let before = limit;
        limit.rlim_cur = 0;
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit), 0);
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        let refused = libc::sigqueue(libc::getpid(), libc::SIGRTMAX(), value);
        assert_eq!(refused, -1, "there is room for another");
        before
    };
    run(3, |mut r| {
        let mut line = Line::new(50);
        let plan = line.plan(&r);
        assert_eq!(r.finish(&plan, 0), State::Done);
        r.meet();
        for round in 1..5 {
            line.fill(r.rank, round);
            let issued = r.ring.issue(&plan, 0).unwrap();
            compute(&issued);
            line.check(r.rank, round);
            r.meet();
        }
        assert_eq!(did(&mut r.ring), (0, if r.rank > 0 { 5 } else { 0 }));
        r.meet();
    });
    // SAFETY: as it was.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &before) };
    assert_eq!(result, 0);
}

#[test]
fn more_than_can_be_prepared_wait_for_a_call() {
    const MANY: usize = 700;
    let _alone = alone();
    run(2, |mut r| {
        let (mut own, mut got) = (vec![5i64; MANY], vec![3i64; 1]);
        let from = memory(&mut got);
        let mut cad = Descriptor::new(r.rank, 2, None);
        if r.rank == 0 {
            cad.make_send_node(from, 8, 1).unwrap();
        } else {
            let mut last = cad.make_recv_node(from, 8, 0).unwrap();
            for number in own.chunks_mut(1) {
                let to = memory(number);
                let node = cad.make_reduction_node(subtract, from, to, 8).unwrap();
                cad.connect_node(last, node).unwrap();
                last = node;
            }
        }
        let plan = Rc::new(cad.plan().unwrap());
        let issued = r.ring.issue(&plan, 0).unwrap();
        assert_eq!(r.ring.wait(&issued, soon()), State::Done);
        let (in_calls, in_signals) = did(&mut r.ring);
        if r.rank == 1 {
            assert!(own.iter().all(|&n| n == 2));
            assert_eq!(in_calls + in_signals, MANY as u64);
            assert!(in_calls >= 100 && in_signals >= 100, "{in_calls}");
        }
        r.meet();
    });
}

#[test]
fn what_is_cancelled_is_not_calculated_any_more() {
    let _alone = alone();
    run(3, |mut r| {
        let mut line = Line::new(50);
        let plan = line.plan(&r);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.fill(r.rank, 7);
        if r.rank != 1 {
            r.meet();
            let state = r.finish(&plan, 0);
            assert!([State::Done, State::Cancelled].contains(&state));
            r.meet();
            return;
        }
        block(true);
        let issued = r.ring.issue(&plan, 0).unwrap();
        r.meet();
        until("the kernel rings", has_rung);
        // That looks first at what has come, so the reduction may be done.
        r.ring.cancel(&issued);
        assert_ne!(r.ring.wait(&issued, soon()), State::Pending);
        let left = line.own.clone();
        block(false);
        assert!(!has_rung());
        assert_eq!(line.own, left);
        r.meet();
    });
}

#[test]
fn a_rank_that_leaves_leaves_nothing_to_be_calculated() {
    let _alone = alone();
    run(2, |mut r| {
        let mut line = Line::new(50);
        let plan = line.plan(&r);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.fill(r.rank, 7);
        if r.rank == 0 {
            r.meet();
            assert_eq!(r.finish(&plan, 0), State::Done);
            r.meet();
            return;
        }
        block(true);
        let issued = r.ring.issue(&plan, 0).unwrap();
        r.meet();
        until("the kernel rings", has_rung);
        let Rank { ring, meeting, .. } = r;
        drop(ring);
        drop(plan);
        assert_eq!(issued.query(), State::Cancelled);
        let left = line.own.clone();
        line.fill(1, 7);
        assert_eq!(line.own, left, "nobody has done it");
        // The other rank still has a share in the handler.
        block(false);
        assert!(!has_rung());
        assert_eq!(line.own, left);
        meeting.meet(2);
    });
}

#[test]
fn a_forked_child_calculates_nothing() {
    let _alone = alone();
    blocked(|r, issued, line| {
        let own = line.own.clone();
        // SAFETY: the child calls nothing but what a handler may call.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                let set = urgent();
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
                libc::raise(libc::SIGURG);
                libc::_exit(i32::from(line.own != own));
            }
        }
        let mut status = -1;
        // SAFETY: `status` is filled in.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(issued.query(), State::Pending);
        block(false);
        line.check(1, 7);
        compute(issued);
        assert_eq!(did(&mut r.ring), (0, 2));
    });
}

#[test]
fn the_executor_may_be_interrupted_anywhere() {
    let _alone = alone();
    run(3, |mut r| {
        let stop = AtomicBool::new(false);
        // SAFETY: no preconditions.
        let me = unsafe { libc::pthread_self() } as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    // SAFETY: the rank's thread waits for this one before it ends.
                    unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGURG) };
                    std::thread::yield_now();
                }
            });
            let mut lines: Vec<Line> = (1..5).map(|n| Line::new(n * n * 100)).collect();
            let plans: Vec<_> = lines.iter_mut().map(|line| line.plan(&r)).collect();
            for (channel, plan) in plans.iter().enumerate() {
                assert_eq!(r.finish(plan, channel as u32), State::Done);
            }
            for round in 1..40 {
                let mut issued = Vec::new();
                for (channel, plan) in plans.iter().enumerate() {
                    lines[channel].fill(r.rank, round);
                    issued.push(r.ring.issue(plan, channel as u32).unwrap());
                }
                for (i, one) in issued.iter().enumerate() {
                    if (i + round as usize).is_multiple_of(2) {
                        compute(one);
                    }
                    assert_eq!(r.ring.wait(one, soon()), State::Done);
                    lines[i].check(r.rank, round);
                }
            }
            stop.store(true, Ordering::Release);
        });
        let (in_calls, in_signals) = did(&mut r.ring);
        let all = if r.rank > 0 { 40 * 4 } else { 0 };
        assert_eq!(in_calls + in_signals, all);
        r.meet();
    });
}
