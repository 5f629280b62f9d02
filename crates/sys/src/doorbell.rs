//! The doorbell: what a waiting process sleeps on, and its peers ring.
//!
//! It lies in memory shared between processes. A peer first publishes something (a message in a
//! ring), then calls [`Doorbell::ring`], which costs one load while the owner is awake. The owner,
//! having found nothing for a while, calls [`Doorbell::prepare`], looks once more, and either drops
//! the result or [`Sleeper::wait`]s. Several threads of the owner may sleep at the same time; a
//! ring wakes all of them.
//!
//! # Why no wake-up is lost
//! Ringer: *publish*, then *load the number of sleepers*. Sleeper: *add itself to the number*, then
//! *look for work*. One of the two must see the other, which takes a full barrier between the two
//! steps on both sides. The sleeper has time, so it pays for both: `membarrier` with
//! `GLOBAL_EXPEDITED` makes every running thread of every registered process execute one. A peer
//! registers when it attaches. Where it cannot, it sets the bell's fence bit, and executes a fence
//! of its own before it trusts the number; so does everybody if the owner cannot call `membarrier`.
//! Nobody else has to be asked: the owner decides before a peer sees the bell, and a peer's own
//! change of the word is always visible to itself.
//!
//! The number and the fence bit share a word, so the ringer's usual case is a load and a test. A
//! ring bumps `turn`, which is the word the futex watches, so a ring between the sleeper's last
//! look and its system call makes the call return at once.
//!
//! The word is in shared memory: a hostile peer can cause useless wake-ups or a sleep that ends
//! with its deadline, nothing else.
//!
//! # Sleeping on sockets too
//! A process that has sockets as well needs one sleep for both. It calls [`Doorbell::listen`] once, and
//! from then on ringers that find it asleep write to a socket ([`crate::knock`]) in place of the
//! futex call; what ringers do in the usual case is the same. The owner then sleeps in `poll` on
//! that socket and its others, between [`Doorbell::prepare`] and dropping what that returned.
//! (An `io_uring` futex wait would do without the second socket, but needs Linux 6.7 and a ring that
//! one thread at a time may submit to, and does not help where `io_uring` is refused.)

use std::time::Instant;

#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, fence};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use park::{barrier, can_barrier, settle, wake, watch};

/// Set in `word` when a ringer has to execute a fence; the rest counts sleepers.
const FENCE: u32 = 1 << 31;

/// What a waiting process sleeps on. All-zero bytes are a valid doorbell that nobody sleeps on,
/// but [`Doorbell::open`] has to be called before it is shared.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Doorbell {
    word: AtomicU32,
    turn: AtomicU32,
    /// The name of the socket to knock at; zero: the owner watches `turn`.
    #[cfg(not(all(test, loom)))]
    socket: [AtomicU64; 2],
    #[cfg(all(test, loom))]
    futex: park::Futex,
}

#[cfg(not(all(test, loom)))]
const _: () = assert!(size_of::<Doorbell>() == 64);

// SAFETY: atomic words of which every value is valid, and padding that is never read.
#[cfg(not(all(test, loom)))]
unsafe impl crate::memfd::Shared for Doorbell {}

impl Doorbell {
    /// A doorbell that nobody sleeps on; still to be opened.
    pub fn new() -> Doorbell {
        Doorbell {
            word: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            #[cfg(not(all(test, loom)))]
            socket: [const { AtomicU64::new(0) }; 2],
            #[cfg(all(test, loom))]
            futex: park::Futex::default(),
        }
    }

    /// Called once by the owner before any peer sees the bell. The first time in a process that
    /// already has several threads, registering may wait for all processors to be scheduled.
    pub fn open(&self) {
        self.attach();
    }

    /// Has ringers write to a socket when they find the owner asleep. Called once by the owner,
    /// before it sleeps for the first time.
    #[cfg(not(all(test, loom)))]
    pub fn listen(&self) -> std::io::Result<crate::knock::Knocks> {
        let (knocks, name) = crate::knock::Knocks::listen()?;
        self.socket[1].store(name[1], Relaxed);
        self.socket[0].store(name[0], Release);
        Ok(knocks)
    }

    /// Called by each process before it rings the bell for the first time. Cheap after the first
    /// bell of a process.
    pub fn attach(&self) {
        if !can_barrier() {
            self.word.fetch_or(FENCE, SeqCst);
        }
    }

    /// Whether a ringer has to execute a fence, since some process cannot use `membarrier`.
    pub fn fence_needed(&self) -> bool {
        self.word.load(Relaxed) & FENCE != 0
    }

    /// Wakes the owner if it sleeps. To be called after what it should see was published.
    #[inline(always)]
    pub fn ring(&self) {
        // Keeps the compiler from moving the load before the publishing store; the sleeper's
        // barrier keeps the processor from it.
        std::sync::atomic::compiler_fence(SeqCst);
        if self.word.load(Relaxed) != 0 {
            self.ring_slowly();
        }
    }

    /// The same, as the last thing that a function does which returns 0: a bell that has to be rung is jumped to then, and that
    /// function needs no frame for a call.
    #[inline(always)]
    pub fn ring_last(&self) -> i32 {
        std::sync::atomic::compiler_fence(SeqCst);
        let word = self.word.load(Relaxed);
        // The 0 that is there then: another one would take an instruction.
        let same = crate::copy::opaque_word(word);
        if word != 0 {
            return self.ring_slowly_last();
        }
        same as i32
    }

    #[cold]
    #[inline(never)]
    fn ring_slowly_last(&self) -> i32 {
        self.ring_slowly();
        // The compiler must not know it, or this becomes a call again that returns nothing.
        std::hint::black_box(0)
    }

    #[cold]
    #[inline(never)]
    fn ring_slowly(&self) {
        // It may have changed since: who fell asleep meanwhile saw what was published before, and who awoke needs no ring.
        let mut word = self.word.load(Relaxed);
        if word & FENCE != 0 {
            fence(SeqCst);
            word = self.word.load(Relaxed);
        }
        if word & !FENCE != 0 {
            // Release: a sleeper that sees the new turn sees what was published before it.
            self.turn.fetch_add(1, Release);
            wake(self);
        }
    }

    /// Announces that the caller is about to sleep. It must look for work once more after this,
    /// and either drop the result (there is some) or wait.
    pub fn prepare(&self) -> Sleeper<'_> {
        // Acquire: work published before an earlier ring is seen by the look that follows.
        let turn = self.turn.load(Acquire);
        self.word.fetch_add(1, SeqCst);
        fence(SeqCst);
        if !barrier() && self.word.fetch_or(FENCE, SeqCst) & FENCE == 0 {
            // Who comes to ring from now on executes a fence; who came before has published by then.
            settle();
        }
        Sleeper { bell: self, turn }
    }
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}

/// A thread that announced its sleep; dropping it takes that back.
#[must_use = "dropping it cancels the sleep"]
#[derive(Debug)]
pub struct Sleeper<'a> {
    bell: &'a Doorbell,
    turn: u32,
}

impl Sleeper<'_> {
    /// Sleeps until the bell rings (`true`), or did since `prepare`, or `deadline` passes
    /// (`false`).
    pub fn wait(self, deadline: Option<Instant>) -> bool {
        loop {
            if self.bell.turn.load(Acquire) != self.turn {
                return true;
            }
            if !watch(self.bell, self.turn, deadline) {
                return self.bell.turn.load(Acquire) != self.turn;
            }
        }
    }

    /// Takes the announcement back: there was work after all.
    pub fn cancel(self) {}
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.bell.word.fetch_sub(1, Relaxed);
    }
}

/// The system calls.
#[cfg(not(all(test, loom)))]
mod park {
    use std::time::Instant;

    use super::{Acquire, Doorbell, Relaxed, fence};
    use rustix::thread::futex;

    pub use crate::barrier::can as can_barrier;

    pub use crate::barrier::everywhere as barrier;

    /// Until what others have stored is seen.
    #[cold]
    pub fn settle() {
        std::thread::sleep(crate::barrier::SEEN_BY_THEN);
    }

    /// Sleeps while the bell's turn is `value`; `false` when `deadline` has passed. May return
    /// early.
    pub fn watch(bell: &Doorbell, value: u32, deadline: Option<Instant>) -> bool {
        let left = crate::clock::timespec_left(deadline);
        if left.is_some_and(|t| t.tv_sec == 0 && t.tv_nsec == 0) {
            return false;
        }
        // Not private: the ringer is another process.
        let _ = futex::wait(&bell.turn, futex::Flags::empty(), value, left.as_ref());
        true
    }

    pub fn wake(bell: &Doorbell) {
        // Pairs with the sleeper's announcement, before which it named its socket.
        fence(Acquire);
        let name = bell.socket.each_ref().map(|word| word.load(Relaxed));
        if name[0] != 0 {
            crate::knock::knock(name);
            return;
        }
        let _ = futex::wake(&bell.turn, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// The same for the model: a futex made of a mutex and a condition variable, as the kernel's is of
/// a locked queue, and a membarrier that is nothing, since the model has every ringer execute its
/// fence.
#[cfg(all(test, loom))]
mod park {
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use loom::sync::{Condvar, Mutex};

    use super::Doorbell;

    #[derive(Debug, Default)]
    pub struct Futex {
        queue: Mutex<()>,
        woken: Condvar,
    }

    pub fn can_barrier() -> bool {
        false
    }

    pub fn barrier() -> bool {
        true
    }

    pub fn settle() {}

    pub fn watch(bell: &Doorbell, value: u32, _: Option<Instant>) -> bool {
        let queue = bell.futex.queue.lock().unwrap();
        if bell.turn.load(Relaxed) == value {
            drop(bell.futex.woken.wait(queue).unwrap());
        }
        true
    }

    pub fn wake(bell: &Doorbell) {
        let _queue = bell.futex.queue.lock().unwrap();
        bell.futex.woken.notify_all();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Shared {
        bell: Doorbell,
        work: AtomicU32,
    }

    /// Explores every execution with at most three preemptions where there are three threads:
    /// all of them would take hours.
    fn bounded(f: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(f);
    }

    fn shared() -> Arc<Shared> {
        let s = Shared {
            bell: Doorbell::new(),
            work: AtomicU32::new(0),
        };
        s.bell.open();
        Arc::new(s)
    }

    /// Sleeps until `n` pieces of work were published: a lost wake-up is an endless sleep, which
    /// loom reports.
    fn await_work(s: &Shared, n: u32) {
        loop {
            if s.work.load(Acquire) >= n {
                return;
            }
            let sleeper = s.bell.prepare();
            if s.work.load(Acquire) >= n {
                sleeper.cancel();
                return;
            }
            assert!(sleeper.wait(None));
        }
    }

    fn publish(s: &Shared) {
        s.bell.attach();
        s.work.fetch_add(1, Release);
        s.bell.ring();
    }

    #[test]
    fn loom_no_wakeup_is_lost() {
        loom::model(|| {
            let s = shared();
            let ringer = {
                let s = s.clone();
                thread::spawn(move || publish(&s))
            };
            await_work(&s, 1);
            ringer.join().unwrap();
            assert_eq!(s.bell.word.load(Relaxed), FENCE);
        });
    }

    #[test]
    fn loom_two_ringers() {
        bounded(|| {
            let s = shared();
            let ringers = [s.clone(), s.clone()].map(|s| thread::spawn(move || publish(&s)));
            await_work(&s, 2);
            for r in ringers {
                r.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_two_sleepers() {
        bounded(|| {
            let s = shared();
            let other = {
                let s = s.clone();
                thread::spawn(move || await_work(&s, 1))
            };
            let ringer = {
                let s = s.clone();
                thread::spawn(move || publish(&s))
            };
            await_work(&s, 1);
            other.join().unwrap();
            ringer.join().unwrap();
            assert_eq!(s.bell.word.load(Relaxed), FENCE);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;

    /// Sleeps in `poll` until somebody knocks.
    fn sleep_on(knocks: &crate::knock::Knocks, sleeper: Sleeper<'_>) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let minute = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let knocked = poll(&mut [PollFd::new(knocks, PollFlags::IN)], Some(&minute)) == Ok(1);
        drop(sleeper);
        knocks.drain();
        knocked
    }

    /// Two processes wake each other in turn, by futex or by knocking.
    fn play(knocking: bool) {
        let (_fd, map) = crate::memfd::create_sealed("doorbell-test", 4096).unwrap();
        let ping: &Doorbell = map.get(0).unwrap();
        let pong: &Doorbell = map.get(64).unwrap();
        let count: &AtomicU64 = map.get(128).unwrap();
        ping.open();
        pong.open();
        const ROUNDS: u64 = 2_000;
        let deadline = crate::clock::after(Duration::from_secs(60));
        let play = |mine: &Doorbell, theirs: &Doorbell, first: u64| {
            let knocks = knocking.then(|| mine.listen().unwrap());
            theirs.attach();
            let mut turn = first;
            while turn < ROUNDS {
                while count.load(Acquire) != turn {
                    let sleeper = mine.prepare();
                    if count.load(Acquire) == turn {
                        sleeper.cancel();
                        continue;
                    }
                    let woken = match &knocks {
                        Some(knocks) => sleep_on(knocks, sleeper),
                        None => sleeper.wait(deadline),
                    };
                    if !woken {
                        return false;
                    }
                }
                count.store(turn + 1, Release);
                theirs.ring();
                turn += 2;
            }
            true
        };
        // SAFETY: the child only uses atomics in shared memory and direct system calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ok = play(ping, pong, 1);
            // SAFETY: ends the forked child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!ok)) };
        }
        let ok = play(pong, ping, 0);
        let mut status = -1;
        // SAFETY: waits for the child made above; `status` outlives the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(ok && status == 0);
        assert_eq!(ping.word.load(Relaxed) & !FENCE, 0);
    }

    #[test]
    fn rings_between_processes() {
        play(false);
    }

    #[test]
    fn knocks_between_processes() {
        play(true);
    }

    #[test]
    fn fences_where_membarrier_is_missing() {
        let bell = Doorbell::new();
        bell.word.store(FENCE, Relaxed);
        assert!(bell.fence_needed());
        bell.ring();
        assert_eq!(bell.turn.load(Relaxed), 0);
        std::thread::scope(|s| {
            s.spawn(|| {
                while bell.turn.load(Relaxed) == 0 {
                    bell.ring();
                    std::thread::yield_now();
                }
            });
            assert!(
                bell.prepare()
                    .wait(crate::clock::after(Duration::from_secs(60)))
            );
        });
        assert_eq!(bell.word.load(Relaxed), FENCE);
    }

    #[test]
    fn deadline_ends_the_sleep() {
        let bell = Doorbell::new();
        bell.open();
        let start = Instant::now();
        assert!(
            !bell
                .prepare()
                .wait(crate::clock::after(Duration::from_millis(20)))
        );
        assert!(start.elapsed() >= Duration::from_millis(20));
        let sleeper = bell.prepare();
        bell.ring();
        assert!(sleeper.wait(None));
    }
}
