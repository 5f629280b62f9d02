//! Waiting: spin with `pause`, then give others the processor, then sleep on the doorbell.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mtmi::Patience;
use sys::doorbell::Doorbell;

use crate::Shm;
use crate::segment::Segment;

/// Spin time with a processor per rank: several times what a reply takes. Where the scheduler has put both
/// ranks onto one processor (a wake-up does that) each message costs this much and a switch, 12 us; but
/// a shorter spin keeps them there: with 1 us, 8 bytes took 4 us in place of 0.2 in half of all runs.
const SPIN: Duration = Duration::from_micros(5);
/// Yields after that, with a burst of polls each: about 100 microseconds. Being woken costs 25 to 30
/// microseconds on virtual machines, and two ranks that poll for less than that keep each other
/// asleep in turn (28 microseconds a message in place of 0.3, measured). Yielding meanwhile lets the
/// peer run should the scheduler have put both onto one processor.
const YIELDS: u32 = 80;
/// Spin time when ranks share processors: a message from a running peer, no more.
const SPIN_SHARED: Duration = Duration::from_nanos(500);
/// A yield costs half a microsecond if nobody else wants to run, and lets the peer run otherwise.
const YIELDS_SHARED: u32 = 8;
/// Polls after a yield.
const BURST: u32 = 32;

/// With a processor per rank.
const ALONE: Patience = Patience {
    spin: SPIN,
    yields: YIELDS,
    polls: BURST,
};
/// Where ranks share processors, and before all ranks have said where they may run.
pub(crate) const SHARED: Patience = Patience {
    spin: SPIN_SHARED,
    yields: YIELDS_SHARED,
    polls: 1,
};

/// What suits ranks that may use `together` processors. A quota on processor time that this process sees is the
/// whole job's; its own affinity is not, as ranks may be bound to one each.
fn suitable(ranks: u32, together: usize) -> Patience {
    let (quota, mine) = (sys::cpus::allowed(), sys::cpus::affinity().len());
    let limit = if quota < mine { quota } else { usize::MAX };
    match ranks as usize <= together.min(limit) {
        true => ALONE,
        false => SHARED,
    }
}

impl Shm {
    /// Whether `progress` would find something to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        (0..self.inward.len()).any(|slot| self.ring_ready(slot))
            || self.has_news()
            || (!self.busy.is_empty() && self.has_busy_work())
            || (!self.slots.busy.is_empty() && self.slots_ready())
            || !self.suspects.is_empty()
    }

    fn has_busy_work(&self) -> bool {
        self.busy.iter().any(|&peer| {
            self.queue_ready(peer) || self.stream_ready(peer) || self.chunk_ready(peer)
        })
    }

    /// Waits until there is work or the deadline passes.
    pub(crate) fn wait_for_work(&mut self, deadline: Option<Instant>) {
        let patience = self.patience();
        if patience.poll(|| self.has_work(), deadline) {
            return;
        }
        let armed = self.bell().prepare();
        if self.has_work() {
            armed.cancel();
        } else {
            armed.wait(deadline);
        }
    }

    /// How long to poll before sleeping, as things stand.
    pub fn patience(&mut self) -> Patience {
        if !self.settled
            && let Some(together) = self.segment.cpus_of_all()
        {
            self.patience = suitable(self.members.len() as u32, together);
            self.settled = true;
        }
        self.patience
    }

    /// Tells that processes beyond the segment's want the same processors, and that there are too few.
    pub fn share_processors(&mut self) {
        self.patience = SHARED;
        self.settled = true;
    }

    /// Whether processes outnumber processors, or nobody knows yet.
    #[inline]
    pub fn shares_processors(&self) -> bool {
        self.patience == SHARED
    }

    /// This process's doorbell.
    pub fn bell(&self) -> &Doorbell {
        self.segment.bell(self.local)
    }
}

/// What threads sleep on while others use the fabric.
#[derive(Clone)]
pub struct Sleeper {
    segment: Arc<Segment>,
    local: u32,
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sleeper of process {} of the node", self.local)
    }
}

impl Sleeper {
    pub(crate) fn of(shm: &Shm) -> Sleeper {
        Sleeper {
            segment: shm.segment.clone(),
            local: shm.local,
        }
    }
}

/// An announced sleep.
#[derive(Debug)]
pub struct Armed<'a>(sys::doorbell::Sleeper<'a>);

impl mtmi::Sleeper for Sleeper {
    type Armed<'a> = Armed<'a>;

    fn arm(&self) -> Armed<'_> {
        Armed(self.segment.bell(self.local).prepare())
    }

    fn sleep(armed: Armed<'_>, deadline: Option<Instant>) {
        armed.0.wait(deadline);
    }

    fn wake(&self) {
        self.segment.bell(self.local).ring();
    }
}
