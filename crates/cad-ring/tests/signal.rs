//! The signal by which ranks reduce, and the program: its own handlers, its sleeps, its stack, its rounding.

mod world;

use cad_run::{Callback, Executor, State, UserBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use world::line::{
    CALLED, Line, alone, block, blocked, did, dispose, disposition, programs, subtract, until,
};
use world::{compute, run, run_on, soon};

#[test]
fn a_handler_of_the_programs_is_left_alone() {
    let _alone = alone();
    dispose(programs());
    CALLED.store(0, Ordering::Relaxed);
    run(3, |mut r| {
        let mut line = Line::new(10);
        let plan = line.plan(&r);
        line.fill(r.rank, 3);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.check(r.rank, 3);
        assert_eq!(did(&mut r.ring).1, 0);
        r.meet();
    });
    assert_eq!(CALLED.load(Ordering::Relaxed), 0);
    assert_eq!(disposition().sa_sigaction, programs());
    dispose(libc::SIG_DFL);
}

#[test]
fn a_handler_that_the_program_installs_later_is_not_called_for_later_plans() {
    let _alone = alone();
    CALLED.store(0, Ordering::Relaxed);
    let possible = world::possible();
    run(3, |mut r| {
        let mut line = Line::new(10);
        let plan = line.plan(&r);
        assert_eq!(r.finish(&plan, 0), State::Done);
        let before = did(&mut r.ring);
        r.meet();
        if r.rank == 0 {
            dispose(programs());
        }
        r.meet();
        line.fill(r.rank, 3);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.check(r.rank, 3);
        assert_eq!(did(&mut r.ring).1, before.1);
        r.meet();
    });
    assert_eq!(CALLED.load(Ordering::Relaxed), 0);
    if possible {
        assert_eq!(disposition().sa_sigaction, programs());
    }
    dispose(libc::SIG_DFL);
}

#[test]
fn a_signal_that_the_program_resets_is_as_good_as_blocked() {
    let _alone = alone();
    blocked(|r, issued, _| {
        // Pending signals that are ignored are dropped.
        dispose(libc::SIG_DFL);
        block(false);
        assert_eq!(issued.query(), State::Pending);
        assert_eq!(r.ring.wait(issued, soon()), State::Done);
    });
    assert_eq!(disposition().sa_sigaction, libc::SIG_DFL);
}

#[test]
fn the_signal_is_afterwards_as_it_was() {
    let _alone = alone();
    for before in [libc::SIG_DFL, libc::SIG_IGN] {
        dispose(before);
        run(2, |r| {
            let now = disposition();
            assert!(![libc::SIG_DFL, libc::SIG_IGN].contains(&now.sa_sigaction));
            let (restart, stack) = (libc::SA_RESTART, libc::SA_ONSTACK);
            assert_eq!(now.sa_flags & (restart | stack), restart | stack);
            r.meet();
        });
        assert_eq!(disposition().sa_sigaction, before);
    }
    dispose(libc::SIG_DFL);
}

/// Whether a thread of this process sleeps.
fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().starts_with('S')
}

#[test]
fn a_program_that_sleeps_is_interrupted_and_others_go_on() {
    let _alone = alone();
    for restarts in [false, true] {
        let sleeper = AtomicI32::new(0);
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let interrupted = AtomicU32::new(0);
        run_on(1, 3, Callback::Signal, |mut r| {
            let mut line = Line::new(50);
            let plan = line.plan(&r);
            assert_eq!(r.finish(&plan, 0), State::Done);
            line.fill(r.rank, 7);
            r.meet();
            if r.rank == 0 {
                until("the second rank sleeps", || {
                    let thread = sleeper.load(Ordering::Acquire);
                    thread > 0 && sleeps(thread)
                });
            }
            let issued = r.ring.issue(&plan, 0).unwrap();
            if r.rank != 1 {
                assert_eq!(r.ring.wait(&issued, soon()), State::Done);
                if r.rank == 2 {
                    // SAFETY: one byte is read from a byte.
                    assert_eq!(unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) }, 1);
                }
                r.meet();
                return;
            }
            let mut byte = [0u8];
            let mut poll = libc::pollfd {
                fd: ends[0],
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: no preconditions.
            sleeper.store(unsafe { libc::gettid() }, Ordering::Release);
            // Only the last rank ends this sleep, and it has to have our sum before.
            loop {
                // SAFETY: one structure, one byte.
                let result = unsafe {
                    match restarts {
                        false => libc::poll(&mut poll, 1, 60_000) as isize,
                        true => libc::read(ends[0], byte.as_mut_ptr().cast(), 1),
                    }
                };
                if result == 1 {
                    break;
                }
                let why = std::io::Error::last_os_error();
                assert_eq!(why.raw_os_error(), Some(libc::EINTR), "{result}");
                interrupted.fetch_add(1, Ordering::Relaxed);
            }
            line.check(1, 7);
            assert_eq!(r.ring.wait(&issued, soon()), State::Done);
            r.meet();
        });
        // SAFETY: they are open, and nobody uses them any more.
        unsafe {
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
        if world::possible() {
            let interrupted = interrupted.load(Ordering::Relaxed);
            assert_eq!(interrupted > 0, !restarts, "{interrupted} times");
        }
    }
}

static STACK: AtomicUsize = AtomicUsize::new(0);

fn subtract_and_note(src: UserBuf, dst: UserBuf, bytes: u64) {
    let local = 0u8;
    STACK.store(&raw const local as usize, Ordering::Relaxed);
    subtract(src, dst, bytes);
}

#[test]
fn the_handler_runs_on_the_alternative_stack() {
    let _alone = alone();
    run(2, |mut r| {
        let mut line = Line::new(50);
        let plan = line.plan_with(&r, subtract_and_note);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.fill(r.rank, 7);
        let mut memory = vec![0u8; 1 << 18];
        let range = memory.as_ptr_range();
        let mut stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        let mut before = stack;
        // SAFETY: the memory outlives its use, which ends below.
        assert_eq!(unsafe { libc::sigaltstack(&stack, &mut before) }, 0);
        if r.rank == 0 {
            r.meet();
        }
        let issued = r.ring.issue(&plan, 0).unwrap();
        if r.rank == 1 {
            STACK.store(0, Ordering::Relaxed);
            r.meet();
        }
        compute(&issued);
        line.check(r.rank, 7);
        if r.rank == 1 {
            let at = STACK.load(Ordering::Relaxed) as *const u8;
            assert!(range.contains(&at), "{at:?} in {range:?}");
        }
        stack = before;
        // SAFETY: what was there before.
        assert_eq!(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }, 0);
        r.meet();
    });
}

#[cfg(target_arch = "x86_64")]
mod control {
    use super::*;
    use std::arch::asm;

    static SEEN: AtomicU32 = AtomicU32::new(0);

    fn control() -> u32 {
        let mut word = 0u32;
        // SAFETY: stores the control word to a local of its size.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
        word
    }

    fn set_control(word: u32) {
        // SAFETY: loads a control word without reserved bits.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
    }

    fn subtract_and_look(src: UserBuf, dst: UserBuf, bytes: u64) {
        SEEN.store(control(), Ordering::Relaxed);
        subtract(src, dst, bytes);
    }

    /// Toward zero, and flushing the smallest numbers.
    const ROUNDING: u32 = 0xe000;

    #[test]
    fn the_handler_rounds_as_the_program_does() {
        let _alone = alone();
        run(2, |mut r| {
            let mut line = Line::new(50);
            let plan = line.plan_with(&r, subtract_and_look);
            assert_eq!(r.finish(&plan, 0), State::Done);
            line.fill(r.rank, 7);
            let before = control();
            set_control(before | ROUNDING);
            if r.rank == 0 {
                r.meet();
            }
            let issued = r.ring.issue(&plan, 0).unwrap();
            if r.rank == 1 {
                SEEN.store(0, Ordering::Relaxed);
                r.meet();
            }
            compute(&issued);
            assert_eq!(control() & ROUNDING, ROUNDING);
            set_control(before);
            line.check(r.rank, 7);
            if r.rank == 1 {
                assert_eq!(SEEN.load(Ordering::Relaxed) & ROUNDING, ROUNDING);
                assert!(did(&mut r.ring).1 >= 1);
            }
            r.meet();
        });
    }
}
