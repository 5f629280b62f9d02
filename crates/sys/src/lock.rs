//! The one coarse lock of a process, which costs a flag test until threads are asked for.
//!
//! [`BigLock`] holds state that is not `Sync` (cells, slabs) and may be entered again by the thread
//! that is inside. It begins *threaded*: a real ticket lock, first come, first served, that spins a
//! little and then sleeps on a futex. [`BigLock::set_threaded`]`(false)`, which the engine calls
//! when a program promised to call from one thread at a time, reduces entering to one load.
//!
//! While only one thread has come since it was made threaded, that enters by the lock's [bias](crate::bias), which costs stores and loads only.
//!
//! A thread that waits for something calls [`BigLock::relax`] in its loop: if somebody else wants
//! in, the lock is released whatever its depth and everybody who queued goes first.
//! [`BigLock::unlocked`] runs a closure, such as sleeping on a doorbell, outside the lock.
//!
//! # What the user of the lock promises
//! References into the state and reference counts (`Rc`) taken out of it are used and dropped only
//! while the lock is held, and no `RefCell` of the state stays borrowed over `relax` or `unlocked`.
//! While the lock is not threaded, only one thread at a time calls. The types cannot check this:
//! it is the same promise that the MPI program makes with its thread level.

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use rustix::thread::futex;

use crate::bias::Bias;
use crate::copy::pause;

/// Polls before a waiting thread sleeps: a few microseconds.
const SPINS: u32 = 100;

/// An owner-reentrant lock around state that is not `Sync`. See the [module](self).
pub struct BigLock<T> {
    threaded: AtomicBool,
    /// Thread pointer of the thread inside; 0 when nobody is.
    owner: AtomicUsize,
    /// How often the owner entered; touched by the owner only,
    depth: Cell<u32>,
    /// and whether it did by the bias.
    biased: Cell<bool>,
    bias: Bias,
    next: AtomicU32,
    serving: AtomicU32,
    sleepers: AtomicU32,
    state: T,
}

// SAFETY: `state` is reached only through guards, and (see the module's promises) only one thread has a guard at a time: the ticket
// lock and its bias see to it, or the program promised it. `depth` and `biased` are reached only by the thread whose pointer is in `owner`,
// which it alone stores there while it is inside, by one that has just entered or is about to leave, and by the only thread of a forked child.
unsafe impl<T> Sync for BigLock<T> {}
// SAFETY: as for `Sync`; the lock itself is in no way bound to the thread that made it.
unsafe impl<T> Send for BigLock<T> {}

/// Proof of being inside; leaves when dropped.
pub struct Guard<'a, T> {
    lock: &'a BigLock<T>,
    /// Whether entering took the real lock.
    real: bool,
    /// Whoever entered leaves: guards stay in their thread.
    not_send: PhantomData<*const ()>,
}

/// What identifies the calling thread for as long as it lives; never 0.
#[inline(always)]
pub fn thread_pointer() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let tp: usize;
        // SAFETY: on x86_64 Linux `fs` points at the thread's control block, whose first word
        // holds its own address; reading it has no side effect.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) tp,
                options(pure, readonly, nostack, preserves_flags));
        }
        tp
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: no preconditions.
        unsafe { libc::pthread_self() as usize }
    }
}

impl<T> BigLock<T> {
    /// A lock around `state`, threaded. See the [module](self) for what its user promises.
    pub const fn new(state: T) -> BigLock<T> {
        BigLock {
            threaded: AtomicBool::new(true),
            owner: AtomicUsize::new(0),
            depth: Cell::new(0),
            biased: Cell::new(false),
            bias: Bias::none(),
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            state,
        }
    }

    /// Enters, waiting until no other thread is inside.
    #[inline]
    pub fn enter(&self) -> Guard<'_, T> {
        let real = self.threaded.load(Ordering::Relaxed);
        if real {
            self.enter_threaded();
        }
        Guard {
            lock: self,
            real,
            not_send: PhantomData,
        }
    }

    /// Enters by the bias: with threads, if the lock leans to the caller, which is not inside. Nobody else has come then.
    #[inline(always)]
    pub fn enter_alone(&self) -> Option<Guard<'_, T>> {
        let me = thread_pointer();
        let outside = self.is_threaded() && self.owner.load(Ordering::Relaxed) != me;
        if !outside || !self.bias.enter(me) {
            return None;
        }
        self.biased.set(true);
        self.owner.store(me, Ordering::Relaxed);
        self.depth.set(1);
        Some(Guard {
            lock: self,
            real: true,
            not_send: PhantomData,
        })
    }

    /// Whether entering takes the real lock.
    pub fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// Whether any thread but the caller may want to enter, or has.
    pub fn is_shared(&self) -> bool {
        self.is_threaded() && !self.bias.is_to(thread_pointer())
    }

    /// [Whether it is threaded](BigLock::is_threaded), to be looked at again and again.
    pub fn threaded_flag(&self) -> &AtomicBool {
        &self.threaded
    }

    /// Sets whether several threads may call at the same time. To be called from inside, by a
    /// thread that entered once; `false` only when the program promised that one thread at a time
    /// calls from now on.
    pub fn set_threaded(&self, threaded: bool) {
        if threaded && !self.is_threaded() && self.owner.load(Ordering::Relaxed) != thread_pointer()
        {
            // The caller's guard did not take the lock; from now on it holds it all the same, and
            // leaves it when dropped.
            self.lock();
            self.depth.set(1);
        }
        if threaded {
            self.bias.lean(thread_pointer());
        }
        self.threaded.store(threaded, Ordering::Relaxed);
    }

    /// Lets the threads that queued for the lock go first. Does nothing when none is waiting, or
    /// the caller is not inside.
    #[inline]
    pub fn relax(&self) {
        if self.threaded.load(Ordering::Relaxed) {
            self.relax_threaded();
        }
    }

    /// Runs `f` without the lock, whatever its depth, and takes it again. `f` must not touch the
    /// state except by entering.
    pub fn unlocked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _back = self.is_threaded().then(|| self.step_out()).flatten();
        f()
    }

    /// Enters without a guard, until [`let_go`](BigLock::let_go): for the time of a fork, in which no other thread may be
    /// inside, as the child would find the state half changed.
    pub fn hold(&self) {
        if self.is_threaded() {
            self.enter_threaded();
        }
    }

    /// Ends what [`hold`](BigLock::hold) began.
    pub fn let_go(&self) {
        if self.is_threaded() {
            self.leave_threaded();
        }
    }

    /// In a child that was forked while the caller held the lock: it is the only thread there, so nobody is inside or queues any
    /// more, and entering takes no real lock.
    pub fn forget_others(&self) {
        self.depth.set(0);
        self.biased.set(false);
        self.bias.forget();
        self.owner.store(0, Ordering::Relaxed);
        let serving = self.serving.load(Ordering::Relaxed);
        self.next.store(serving, Ordering::Relaxed);
        self.sleepers.store(0, Ordering::Relaxed);
        self.threaded.store(false, Ordering::Relaxed);
    }

    #[inline(never)]
    fn relax_threaded(&self) {
        let me = thread_pointer();
        let somebody_waits = match self.owner.load(Ordering::Relaxed) == me && self.biased.get() {
            // Whoever comes ends the bias, and holds the ticket that is served.
            true => !self.bias.is_to(me),
            false => {
                let mine = self.serving.load(Ordering::Relaxed);
                self.next.load(Ordering::Relaxed) != mine.wrapping_add(1)
            }
        };
        if somebody_waits {
            drop(self.step_out());
        }
    }

    /// Leaves the lock entirely if the caller is inside; dropping the result enters again.
    fn step_out(&self) -> Option<Back<'_, T>> {
        if self.owner.load(Ordering::Relaxed) != thread_pointer() {
            return None;
        }
        let depth = self.depth.get();
        self.unlock();
        Some(Back { lock: self, depth })
    }

    #[inline(never)]
    fn enter_threaded(&self) {
        // Only this thread ever stores its own pointer here, so a relaxed load cannot mistake it.
        if self.owner.load(Ordering::Relaxed) == thread_pointer() {
            self.depth.set(self.depth.get() + 1);
            return;
        }
        self.lock();
        self.depth.set(1);
    }

    #[inline(never)]
    fn leave_threaded(&self) {
        if self.owner.load(Ordering::Relaxed) != thread_pointer() {
            return;
        }
        let depth = self.depth.get() - 1;
        if depth == 0 {
            self.unlock();
        } else {
            self.depth.set(depth);
        }
    }

    #[inline(always)]
    fn lock(&self) {
        let me = thread_pointer();
        match self.bias.enter(me) {
            true => self.biased.set(true),
            false => self.take_turn(),
        }
        self.owner.store(me, Ordering::Relaxed);
    }

    #[inline(never)]
    fn take_turn(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let mut spins = 0;
        loop {
            let serving = self.serving.load(Ordering::Acquire);
            if serving == ticket {
                break;
            }
            if spins < SPINS {
                spins += 1;
                pause();
                continue;
            }
            // Counted before `serving` is looked at again by the futex, and both are sequentially
            // consistent with the pair in `unlock`: either we see the new value or are woken.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wait_bitset(&self.serving, FLAGS, serving, None, bit(ticket));
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
        self.bias.end();
    }

    #[inline(always)]
    fn unlock(&self) {
        self.depth.set(0);
        self.owner.store(0, Ordering::Relaxed);
        match self.biased.replace(false) {
            true => self.bias.leave(),
            false => self.end_turn(),
        }
    }

    #[inline(never)]
    fn end_turn(&self) {
        let turn = self.serving.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            let _ = futex::wake_bitset(&self.serving, FLAGS, i32::MAX as u32, bit(turn));
        }
    }
}

const FLAGS: futex::Flags = futex::Flags::PRIVATE;

/// Sleepers are woken by ticket, modulo 32, so a hand-over wakes one thread and not all.
fn bit(ticket: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (ticket % 32)).unwrap_or(NonZeroU32::MIN)
}

/// Enters again, to the old depth, when dropped.
struct Back<'a, T> {
    lock: &'a BigLock<T>,
    depth: u32,
}

impl<T> Drop for Back<'_, T> {
    fn drop(&mut self) {
        self.lock.lock();
        self.lock.depth.set(self.depth);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.lock.state
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.real || self.lock.threaded.load(Ordering::Relaxed) {
            self.lock.leave_threaded();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn counts_exactly() {
        static LOCK: BigLock<Cell<u64>> = BigLock::new(Cell::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for i in 0..5_000 {
                        let outer = LOCK.enter();
                        let inner = LOCK.enter();
                        inner.set(inner.get() + 1);
                        drop(inner);
                        if i % 16 == 0 {
                            LOCK.relax();
                        }
                        outer.set(outer.get() + 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(LOCK.enter().get(), 40_000);
    }

    #[test]
    fn relax_starves_nobody() {
        static LOCK: BigLock<Cell<bool>> = BigLock::new(Cell::new(false));
        let guard = LOCK.enter();
        let _again = LOCK.enter();
        let others: Vec<_> = (0..3)
            .map(|i| {
                std::thread::spawn(move || {
                    let end = Instant::now() + Duration::from_secs(20);
                    while Instant::now() < end {
                        let g = LOCK.enter();
                        if i == 0 {
                            g.set(true);
                        }
                        if g.get() {
                            return;
                        }
                        LOCK.relax();
                    }
                    panic!("starved");
                })
            })
            .collect();
        while !guard.get() {
            LOCK.relax();
        }
        LOCK.unlocked(|| others.into_iter().for_each(|t| t.join().unwrap()));
        assert_eq!(guard.lock.depth.get(), 2);
    }

    #[test]
    fn unlocked_lets_others_in() {
        static LOCK: BigLock<Cell<u32>> = BigLock::new(Cell::new(0));
        let guard = LOCK.enter();
        let other = std::thread::spawn(|| LOCK.enter().set(7));
        LOCK.unlocked(|| other.join().unwrap());
        assert_eq!(guard.get(), 7);
        LOCK.unlocked(|| LOCK.unlocked(|| ()));
        drop(guard);
        LOCK.unlocked(|| LOCK.relax());
        assert_eq!(LOCK.owner.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn modes_change_from_inside() {
        static LOCK: BigLock<Cell<u32>> = BigLock::new(Cell::new(0));
        let real = LOCK.enter();
        LOCK.set_threaded(false);
        assert!(!LOCK.enter().real);
        drop(real);
        assert_eq!(LOCK.owner.load(Ordering::Relaxed), 0);
        let fast = LOCK.enter();
        LOCK.relax();
        LOCK.set_threaded(true);
        let tried = std::sync::Arc::new(AtomicBool::new(false));
        let other = std::thread::spawn({
            let tried = tried.clone();
            move || {
                let g = LOCK.enter();
                assert!(tried.load(Ordering::SeqCst));
                g.set(1);
            }
        });
        drop(LOCK.enter());
        std::thread::sleep(Duration::from_millis(20));
        tried.store(true, Ordering::SeqCst);
        drop(fast);
        other.join().unwrap();
        assert_eq!(LOCK.enter().get(), 1);
    }

    /// A lock that leans to the calling thread, which is not inside.
    fn leaning<T>(lock: BigLock<T>) -> &'static BigLock<T> {
        let lock: &'static BigLock<T> = Box::leak(Box::new(lock));
        let inside = lock.enter();
        lock.set_threaded(false);
        lock.set_threaded(true);
        drop(inside);
        assert!(lock.is_threaded() && !lock.is_shared(), "no membarrier?");
        lock
    }

    #[test]
    fn counts_exactly_when_others_come_to_a_biased_lock() {
        for _ in 0..50 {
            let lock = leaning(BigLock::new(Cell::new(0)));
            let add = move || {
                for _ in 0..200 {
                    let inside = lock.enter();
                    inside.set(inside.get() + 1);
                }
            };
            let others: Vec<_> = (0..3).map(|_| std::thread::spawn(add)).collect();
            add();
            others.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(lock.enter().get(), 800);
            assert!(lock.is_shared());
        }
    }

    #[test]
    fn whoever_comes_to_a_biased_lock_is_let_in() {
        let lock = leaning(BigLock::new(Cell::new(0)));
        let outer = lock.enter();
        let inner = lock.enter();
        lock.relax();
        assert!(lock.biased.get() && lock.depth.get() == 2);
        let other = std::thread::spawn(move || lock.enter().set(7));
        let end = Instant::now() + Duration::from_secs(20);
        while inner.get() == 0 && Instant::now() < end {
            lock.relax();
        }
        assert_eq!(inner.get(), 7);
        assert!(!lock.biased.get() && lock.depth.get() == 2);
        drop((outer, inner));
        other.join().unwrap();
        assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
        assert!(!leaning(BigLock::new(())).biased.get(), "another lock");
    }

    #[test]
    fn whoever_made_a_lock_lean_lets_others_in_too() {
        let lock: &'static BigLock<Cell<u32>> = Box::leak(Box::new(BigLock::new(Cell::new(0))));
        let inside = lock.enter();
        lock.set_threaded(true);
        assert!(!lock.is_shared() && !lock.biased.get());
        let other = std::thread::spawn(move || lock.enter().set(7));
        let end = Instant::now() + Duration::from_secs(20);
        while inside.get() == 0 && Instant::now() < end {
            lock.relax();
        }
        assert_eq!(inside.get(), 7);
        other.join().unwrap();
    }

    #[test]
    fn a_biased_lock_is_free_while_its_thread_sleeps() {
        let lock = leaning(BigLock::new(Cell::new(0)));
        let inside = lock.enter();
        let other = std::thread::spawn(move || lock.enter().set(7));
        lock.unlocked(|| other.join().unwrap());
        assert_eq!(inside.get(), 7);
    }

    #[test]
    fn whoever_comes_waits_until_the_owner_of_the_bias_is_out() {
        let lock = leaning(BigLock::new(Cell::new(0)));
        let inside = lock.enter();
        assert!(lock.biased.get());
        let other = std::thread::spawn(move || lock.enter().set(7));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(inside.get(), 0);
        drop(inside);
        other.join().unwrap();
        assert_eq!(lock.enter().get(), 7);
    }

    #[test]
    fn nobody_is_alone_inside_twice() {
        let lock = leaning(BigLock::new(()));
        let outer = lock.enter();
        assert!(lock.enter_alone().is_none());
        drop(outer);
        let alone = lock.enter_alone().unwrap();
        assert!(lock.enter_alone().is_none());
        let inner = lock.enter();
        assert_eq!(lock.depth.get(), 2);
        drop((inner, alone));
        assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_child_has_no_bias() {
        for holds in [true, false] {
            let lock = leaning(BigLock::new(Cell::new(0)));
            let inside = holds.then(|| lock.enter());
            lock.hold();
            // SAFETY: the child calls nothing but the lock and `_exit`, which are safe after a fork.
            let child = unsafe { libc::fork() };
            if child == 0 {
                lock.forget_others();
                drop(inside);
                lock.enter().set(7);
                let right = lock.enter().get() == 7 && lock.enter_alone().is_none();
                let leans = lock.biased.get() || lock.bias.is_to(thread_pointer());
                // SAFETY: ends the forked child without running the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!right || leans)) };
            }
            lock.let_go();
            drop(inside);
            let mut status = -1;
            // SAFETY: waits for the child made above; `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!((status, lock.enter().get()), (0, 0));
        }
    }

    #[test]
    fn a_bias_does_not_come_back() {
        let lock = leaning(BigLock::new(()));
        std::thread::spawn(move || drop(lock.enter()))
            .join()
            .unwrap();
        let inside = lock.enter();
        lock.set_threaded(true);
        drop(inside);
        assert!(lock.is_shared() && !lock.enter().lock.biased.get());
    }

    #[test]
    fn threads_differ() {
        let here = thread_pointer();
        assert_ne!(here, 0);
        assert_eq!(here, thread_pointer());
        assert_ne!(std::thread::spawn(thread_pointer).join().unwrap(), here);
    }
}
