//! What is to be done at a certain time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// What to look at. A timer that is no longer needed rings all the same and finds nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// The next step of the dial to a peer.
    Dial(u32),
    /// Callers that have proved nothing for too long.
    Strangers,
    /// Taking connections again, after there was no room for one.
    Accept,
    /// Whether there is still no room for one.
    Room,
    /// Connections that do not confirm what was sent.
    Pulse,
    /// Peers that are waited for and have never called; always set.
    Senders,
}

/// The timers that were set.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Timer)>>,
}

impl Timers {
    /// Rings for `timer` after `time`; returns when that is.
    pub fn set(&mut self, time: Duration, timer: Timer) -> Instant {
        let at = Instant::now() + time;
        self.set_at(at, timer);
        at
    }

    /// Rings for `timer` then.
    pub fn set_at(&mut self, at: Instant, timer: Timer) {
        self.heap.push(Reverse((at, timer)));
    }

    /// When the first of them rings.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next timer that has rung by `now`.
    pub fn rung(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, timer))| timer)
    }
}

/// Says now and then that something is due that costs more than asking here.
pub(crate) struct Rarely {
    last: u64,
    /// In cycles of the processor's clock.
    pause: u64,
}

impl Rarely {
    /// Some microseconds, which no timer here minds.
    pub const CLOCK: Rarely = Rarely::every(20_000);

    /// About a millisecond, which nobody minds who looks that rarely, and in which a look costs nothing.
    pub const NEWS: Rarely = Rarely::every(2_000_000);

    const fn every(pause: u64) -> Rarely {
        Rarely { last: 0, pause }
    }

    /// Whether some time has passed since it last said so.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        let now = sys::clock::cycles();
        let due = now.wrapping_sub(self.last) > self.pause;
        if due {
            self.last = now;
        }
        due
    }
}
