//! A lock's bias: one thread that enters a [lock](crate::lock) without an atomic read-modify-write, until another comes.
//!
//! A program that asks for threads often calls from one of them only. To that thread the lock leans: it says that it is inside, looks
//! whether the lock still leans to it, and is in. Whoever else comes holds the real lock first, then ends the bias for good, and waits
//! until the thread is out.
//!
//! # Why the two are never inside together
//! The thread: *say that it is inside*, then *look whether the bias holds*. The other: *end the bias*, then *look whether the thread is
//! inside*. One of the two must see the other, which takes a full barrier between the two steps on both sides. The other comes
//! once, so it pays for [both](crate::barrier). In the same way the thread, when it leaves, *says so*, then *looks whether somebody
//! waits*.
//!
//! A bias never comes back: a thread that looks late could take the word that says who is inside for its own.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU32, AtomicUsize};

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, AtomicUsize};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use system::{barrier, can_barrier, light, wake, watch};

/// What stands for the thread while there has been no bias yet,
const NONE: usize = 0;
/// and since it was ended. No thread's pointer is odd.
const ENDED: usize = 1;

/// The bias of a lock. See the [module](self).
pub struct Bias {
    /// Thread pointer of the thread it leans to.
    thread: AtomicUsize,
    /// 1 while that is inside, or looks whether it may be.
    inside: AtomicU32,
    #[cfg(all(test, loom))]
    futex: system::Futex,
}

impl Bias {
    /// None yet.
    #[cfg(not(all(test, loom)))]
    pub const fn none() -> Bias {
        Bias {
            thread: AtomicUsize::new(NONE),
            inside: AtomicU32::new(0),
        }
    }

    /// Leans the lock to the thread `me`, which holds it, unless it has leaned to any before or barriers can't be had.
    pub fn lean(&self, me: usize) {
        if can_barrier() && self.thread.load(Relaxed) == NONE {
            self.thread.store(me, Relaxed);
        }
    }

    /// Whether the lock leans to thread `me`: then nobody else has come.
    #[inline(always)]
    pub fn is_to(&self, me: usize) -> bool {
        self.thread.load(Relaxed) == me
    }

    /// Enters, if the lock leans to thread `me`; it may not be inside already.
    #[inline(always)]
    pub fn enter(&self, me: usize) -> bool {
        if !self.is_to(me) {
            return false;
        }
        self.inside.store(1, Relaxed);
        light();
        if self.is_to(me) {
            return true;
        }
        self.leave();
        false
    }

    /// Leaves.
    #[inline(always)]
    pub fn leave(&self) {
        self.inside.store(0, Release);
        light();
        if self.thread.load(Relaxed) == ENDED {
            wake(self);
        }
    }

    /// Ends the bias, if there is one, and waits until its thread is out. Whoever calls holds the lock itself; what the thread did
    /// inside is seen afterwards.
    pub fn end(&self) {
        if matches!(self.thread.load(Relaxed), NONE | ENDED) {
            return;
        }
        self.thread.store(ENDED, Relaxed);
        barrier();
        while self.inside.load(Acquire) != 0 {
            watch(self);
        }
    }

    /// In a forked child, where no other thread is: there is no bias, nor will be.
    pub fn forget(&self) {
        self.thread.store(ENDED, Relaxed);
        self.inside.store(0, Relaxed);
    }
}

#[cfg(not(all(test, loom)))]
mod system {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::compiler_fence;

    use rustix::thread::futex;

    use super::Bias;

    pub use crate::barrier::can_here as can_barrier;

    /// The side that pays.
    pub fn barrier() {
        if !crate::barrier::here() {
            std::thread::sleep(crate::barrier::SEEN_BY_THEN);
        }
    }

    const FLAGS: futex::Flags = futex::Flags::PRIVATE;

    /// The side of a barrier that doesn't pay.
    #[inline(always)]
    pub fn light() {
        compiler_fence(SeqCst);
    }

    /// Sleeps while the thread is inside. May return early.
    pub fn watch(bias: &Bias) {
        let _ = futex::wait(&bias.inside, FLAGS, 1, None);
    }

    #[cold]
    #[inline(never)]
    pub fn wake(bias: &Bias) {
        let _ = futex::wake(&bias.inside, FLAGS, i32::MAX as u32);
    }
}

/// The same for the model: a futex made of a mutex and a condition variable, and fences on both sides.
#[cfg(all(test, loom))]
mod system {
    use std::sync::atomic::Ordering::{Relaxed, SeqCst};

    use loom::sync::atomic::fence;
    use loom::sync::{Condvar, Mutex};

    use super::Bias;

    #[derive(Debug, Default)]
    pub struct Futex {
        queue: Mutex<()>,
        woken: Condvar,
    }

    pub fn can_barrier() -> bool {
        true
    }

    pub fn barrier() {
        fence(SeqCst);
    }

    pub fn light() {
        fence(SeqCst);
    }

    pub fn watch(bias: &Bias) {
        let queue = bias.futex.queue.lock().unwrap();
        if bias.inside.load(Relaxed) == 1 {
            drop(bias.futex.woken.wait(queue).unwrap());
        }
    }

    pub fn wake(bias: &Bias) {
        let _queue = bias.futex.queue.lock().unwrap();
        bias.futex.woken.notify_all();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    const OWNER: usize = 2;

    struct Shared {
        bias: Bias,
        real: Mutex<()>,
        /// What the lock guards; loom reports who is not alone with it,
        state: UnsafeCell<u32>,
        /// and tries others here only, which it does at atomics.
        busy: AtomicU32,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            let bias = Bias {
                thread: AtomicUsize::new(NONE),
                inside: AtomicU32::new(0),
                futex: system::Futex::default(),
            };
            bias.lean(OWNER);
            Arc::new(Shared {
                bias,
                real: Mutex::new(()),
                state: UnsafeCell::new(0),
                busy: AtomicU32::new(0),
            })
        }

        fn change(&self) {
            assert_eq!(self.busy.load(Relaxed), 0, "somebody else is inside");
            self.busy.store(1, Relaxed);
            // SAFETY: loom checks that nobody else is inside.
            self.state.with_mut(|state| unsafe { *state += 1 });
            self.busy.store(0, Relaxed);
        }

        /// What a lock does with its bias.
        fn enter_and_change(&self, me: usize) {
            if self.bias.enter(me) {
                self.change();
                self.bias.leave();
                return;
            }
            let _real = self.real.lock().unwrap();
            self.bias.end();
            self.change();
        }
    }

    fn check(others: usize, times: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let s = Shared::new();
            let threads: Vec<_> = (0..others)
                .map(|n| {
                    let s = s.clone();
                    thread::spawn(move || s.enter_and_change(4 + 2 * n))
                })
                .collect();
            for _ in 0..times {
                s.enter_and_change(OWNER);
            }
            for thread in threads {
                thread.join().unwrap();
            }
            // SAFETY: all others are over.
            let all = s.state.with(|state| unsafe { *state });
            assert_eq!(all as usize, others + times);
        });
    }

    #[test]
    fn loom_one_comes_while_the_owner_enters_twice() {
        check(1, 2);
    }

    #[test]
    fn loom_two_come() {
        check(2, 1);
    }
}
