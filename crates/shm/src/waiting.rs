//! Waiting: spin with `pause`, then give others the processor, then sleep on the doorbell.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mtmi::Patience;
use sys::doorbell::Doorbell;

use crate::Shm;
use crate::places::Mover;
use crate::segment::Segment;

/// Spin time with a processor per rank before looking whether a peer is kept from running: several times what a reply
/// takes.
const SPIN: Duration = Duration::from_micros(5);
/// How long to look after that. Being woken costs 25 to 30 microseconds on virtual machines, and two ranks that poll for less than that keep
/// each other asleep in turn (28 microseconds a message in place of 0.3, measured).
const LONGEST: Duration = Duration::from_micros(100);
/// Most looks, with a burst of polls each: a burst takes a microsecond or more.
const LOOKS: u32 = 100;
/// Polls after a look.
const BURST: u32 = 32;
/// Looks for a message that is received at once, with a pause before each: some microseconds, a few times what a reply takes. More is for
/// the patient way, which serves other peers meanwhile.
const LOOKS_AT_ONCE: u32 = 150;
/// Spin time when ranks share processors: a peer that runs is heard of by the look after a yield, and one that doesn't needs the processor.
const SPIN_SHARED: Duration = Duration::ZERO;
/// A yield costs half a microsecond if nobody else wants to run, and lets the peer run otherwise; a sleep and being woken cost more than many
/// of them. Four and eight ranks on two processors that exchange messages around a ring take 1.3 to 2 and 3.6 to 9 us a step with 32, 1.7 to 7.6 and
/// 4.7 to 8.2 with 8, and 2.3 and 3 to 4.3 with 100.
const YIELDS_SHARED: u32 = 32;
/// How long to go on with yields at least: where nobody else wants to run, 32 are over after 16 microseconds. To sleep and to be woken takes the waker two to five
/// microseconds, and an idle processor ten times as long to be back. A wait of 25 milliseconds loses 2 % of them so. On a Xeon of the fifth generation 4 KiB to 64 KiB from a rank that
/// shares its processor with a second one, which has waited for 300 microseconds, take 10 to 25 % less.
pub(crate) const LINGER_SHARED: Duration = Duration::from_micros(500);

/// With a processor per rank.
const ALONE: Patience = Patience {
    spin: SPIN,
    rounds: LOOKS,
    polls: BURST,
    longest: LONGEST,
    least: Duration::ZERO,
};
/// Where ranks share processors, and before all ranks have said where they may run.
pub(crate) const SHARED: Patience = Patience {
    spin: SPIN_SHARED,
    rounds: YIELDS_SHARED,
    polls: 1,
    // A yield takes as long as the others want to run.
    longest: Duration::MAX,
    least: LINGER_SHARED,
};

/// Whether there is a processor for each of the ranks, which may use `together` processors. A quota on processor time that this process sees is the
/// whole job's; its own affinity is not, as ranks may be bound to one each.
fn one_each(ranks: u32, together: usize) -> bool {
    let (quota, mine) = (sys::cpus::allowed(), sys::cpus::affinity().len());
    let limit = if quota < mine { quota } else { usize::MAX };
    ranks as usize <= together.min(limit)
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
            self.queue_ready(peer)
                || self.stream_ready(peer)
                || self.chunk_ready(peer)
                || self.copy_ready(peer)
        })
    }

    /// Waits until there is work or the deadline passes.
    pub(crate) fn wait_for_work(&mut self, deadline: Option<Instant>) {
        let patience = self.patience();
        if patience.poll(self, |s| s.has_work(), Shm::give_way, deadline) {
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
            if one_each(self.members.len() as u32, together) {
                self.patience = ALONE;
                self.mover = Some(Mover::new(self.local));
                self.ports.set_looks(LOOKS_AT_ONCE);
            }
            self.settled = true;
        }
        self.patience
    }

    /// Lets a peer run that needs this processor: where there is a processor per rank, only one that is on this; else whoever is.
    pub fn give_way(&mut self) {
        match &mut self.mover {
            Some(mover) => mover.give_way(self.segment.places()),
            None => self.spread.give_way(self.segment.places()),
        }
    }

    /// Tells that processes beyond the segment's want the same processors, and that there are too few.
    pub fn share_processors(&mut self) {
        self.patience = SHARED;
        self.settled = true;
    }

    /// Whether processes outnumber processors, or nobody knows yet.
    #[inline]
    pub fn shares_processors(&self) -> bool {
        self.mover.is_none()
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
