//! Peers that this process waits for and that have never called.
//!
//! Who waits has nothing to send, and so no connection that could break: a peer that is gone or out of reach, or has given this process up,
//! does not call. So after a while it is called. A timer drives that and not a wait, so a program that only polls finds out as well.
//!
//! Called by `fabric` when [`Timer::Senders`] rings.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mtmi::{Endpoint, Queues};

use crate::state::{Route, Tcp};
use crate::timers::Timer;

/// Between two looks at who is waited for. Who is waited for in two of them, so for five to ten seconds, is called.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// What the last look found.
#[derive(Default)]
pub(crate) struct Senders {
    awaited: BTreeSet<Endpoint>,
}

impl Senders {
    /// Takes note of who is waited for at this look: those who were at the last one too.
    fn look(&mut self, awaited: BTreeSet<Endpoint>) -> Vec<Endpoint> {
        let both = self.awaited.intersection(&awaited).copied().collect();
        self.awaited = awaited;
        both
    }
}

impl Tcp {
    /// Calls those who have been waited for for long and never called.
    pub(crate) fn senders_timer(&mut self, queues: &mut Queues, now: Instant) {
        self.timers.set_at(now + LOOK, Timer::Senders);
        let mut awaited = queues.take_awaited();
        awaited.retain(|peer| self.is_strange(*peer));
        for peer in self.senders.look(awaited) {
            self.call(peer.0);
        }
    }

    /// Whether this peer is reached by this fabric, if at all, and nothing is known of it.
    fn is_strange(&self, peer: Endpoint) -> bool {
        let unmet = |route: &Route| route.address.is_some() && route.stream.is_none();
        self.routes.get(peer.index()).is_some_and(unmet) && !self.protocol.is_gone(peer)
    }
}
