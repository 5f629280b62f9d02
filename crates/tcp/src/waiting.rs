//! Waiting: look for a while, then sleep on the reactor's descriptor and a bell of our own.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use mtmi::Fabric;
use sys::copy::pause;

use crate::Tcp;

/// How long to look before sleeping: some round trips of a near network. Being woken costs several of them.
const SPIN: Duration = Duration::from_micros(50);

/// How long to look without a yield, which lets others run but costs half a microsecond if there are none (0.4 of
/// 5 microseconds one way, measured): what the reply of a peer that runs takes.
const ALONE: Duration = Duration::from_micros(12);
/// Looks between two looks at the clock.
const LOOKS: u32 = 8;

/// What threads sleep on.
#[derive(Debug)]
pub(crate) struct Waker {
    events: OwnedFd,
    bell: OwnedFd,
    /// Threads that announced a sleep. Whoever is the last to end one silences the bell, so that a ring ends
    /// the sleep of all of them.
    sleepers: Mutex<u32>,
    /// When the next timer rings, in microseconds after `start`; all ones for never.
    deadline: AtomicU64,
    start: Instant,
}

const NEVER: u64 = u64::MAX;

impl Waker {
    pub fn new(events: BorrowedFd<'_>) -> io::Result<Waker> {
        Ok(Waker {
            // A descriptor of its own: threads may sleep on it while the fabric ends.
            events: events.try_clone_to_owned()?,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleepers: Mutex::new(0),
            deadline: AtomicU64::new(NEVER),
            start: Instant::now(),
        })
    }

    /// Notes when sleepers have to be awake at the latest.
    #[inline]
    pub fn note(&self, deadline: Option<Instant>) {
        let at = deadline.map_or(NEVER, |d| {
            d.saturating_duration_since(self.start).as_micros() as u64 + 1
        });
        self.deadline.store(at, Ordering::Relaxed);
    }

    fn sleepers(&self) -> MutexGuard<'_, u32> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, deadline: Option<Instant>) {
        let timer = match self.deadline.load(Ordering::Relaxed) {
            NEVER => None,
            at => Some(self.start + Duration::from_micros(at)),
        };
        let deadline = match (deadline, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let left = sys::clock::remaining(deadline).map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut fds = [
            PollFd::new(&self.events, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        // A signal ends the sleep early, as it may.
        let _ = poll(&mut fds, left.as_ref());
    }
}

/// What threads sleep on while others use the fabric.
#[derive(Clone)]
pub struct Sleeper(pub(crate) Arc<Waker>);

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleeper of the TCP fabric")
    }
}

/// An announced sleep.
#[derive(Debug)]
pub struct Armed<'a>(&'a Waker);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.0.sleepers();
        *sleepers -= 1;
        if *sleepers == 0 {
            // Fails if nobody rang.
            let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
        }
    }
}

impl mtmi::Sleeper for Sleeper {
    type Armed<'a> = Armed<'a>;

    fn arm(&self) -> Armed<'_> {
        *self.0.sleepers() += 1;
        Armed(&self.0)
    }

    fn sleep(armed: Armed<'_>, deadline: Option<Instant>) {
        armed.0.sleep(deadline);
    }

    fn wake(&self) {
        let sleepers = self.0.sleepers();
        if *sleepers > 0 {
            // Fails if the bell rings already.
            let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
        }
    }
}

impl Tcp {
    /// Waits until there is work or the deadline passes.
    pub(crate) fn wait_for_work(&mut self, deadline: Option<Instant>) {
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.ready() {
                    return;
                }
                pause();
            }
            let now = Instant::now();
            if deadline.is_some_and(|d| now >= d) {
                return;
            }
            if now - start >= SPIN {
                break;
            }
            if now - start >= ALONE {
                rustix::thread::sched_yield();
            }
        }
        let sleeper = self.sleeper();
        let armed = mtmi::Sleeper::arm(&sleeper);
        if !self.ready() {
            <Sleeper as mtmi::Sleeper>::sleep(armed, deadline);
        }
    }
}
