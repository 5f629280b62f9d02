//! Matching slots over connections, without I/O.
//!
//! A posted receive is a frame that the sender keeps in its slot of the table; a delivery is a frame whose body is read straight
//! into the receive's memory, in fragments where it is long, between which other messages pass. No credit is needed, since
//! nothing is ever kept for a receive to come. Everything that a peer says is checked against this process's own table: a
//! delivery counts only for the receive that is posted here, and its length is bounded by that.
//!
//! # Invariants
//! * A slot's generation counts the receives posted in it. Frames arrive in order, so a receive that is posted has exactly
//!   the generation after the last one, and the one before has ended.
//! * Once a receive was returned no frame of its delivery follows, and the other way round.

mod fabric;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use layout::Data;
use mtmi::Outcome;
use mtmi::slot::{Delivery, Landed, SlotError};

use crate::frame::{Frame, SlotRef};

/// Posted receives and questions of one peer about tables that are not open here, which this process keeps.
pub(crate) const EARLY: u32 = 1 << 18;

/// A slot of a peer, by the number of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub table: u32,
    pub index: u32,
}

/// The slots of a process.
pub(crate) struct SlotState {
    pub tables: Vec<Option<Table>>,
    /// Names of tables that were closed.
    pub closed: HashSet<u32>,
    /// What peers posted in tables that this process has not opened, by peer, name and index.
    pub early: HashMap<(u32, u32, u32), Offer>,
    /// Peers that want to know how many slots such a table has.
    pub curious: HashSet<(u32, u32)>,
    /// How much each peer has in these two.
    pub kept: Vec<u32>,
    /// Peers that said before what can't be; `progress` ends them.
    pub liars: Vec<u32>,
}

/// A table.
pub(crate) struct Table {
    pub name: u32,
    pub count: u32,
    /// By endpoint.
    pub pairs: Vec<Pair>,
}

/// A table with one peer. Empty until it is used.
#[derive(Default)]
pub(crate) struct Pair {
    pub receives: Vec<Receive>,
    pub deliveries: Vec<Deliver>,
    /// How many slots the peer's table has, if it said so.
    pub theirs: Option<u32>,
    /// Whether it was asked.
    pub asked: bool,
    /// Why nothing new can begin here.
    pub trouble: Option<SlotError>,
}

/// The receiving side of a slot.
#[derive(Clone)]
pub(crate) struct Receive {
    pub memory: Data,
    /// Of the last receive that was posted.
    pub generation: u32,
    pub state: Receiving,
    /// Whether `memory` stays bound.
    pub prepared: bool,
    /// Whether it was asked back.
    pub asked: bool,
}

/// How far a receive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receiving {
    Idle,
    Posted,
    /// So many bytes have come of those that come; then it ends so.
    Arrives {
        bytes: u64,
        of: u64,
        end: Landed,
    },
    Ended(Landed),
}

/// A receive that a peer has posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub generation: u32,
    pub count: u32,
    pub length: u64,
    /// Whether it was asked back and returned, so that only its generation counts.
    pub returned: bool,
}

/// The delivering side of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Deliver {
    /// Generation of the last receive that was posted,
    pub posted: u32,
    /// and of the last one that was served or returned.
    pub consumed: u32,
    pub length: u64,
    pub state: Delivery,
}

/// A delivery that waits in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotSend {
    pub place: Place,
    pub slot: SlotRef,
    pub immediate: u32,
    /// Bytes that there were,
    pub sent: u64,
    /// and bytes that go.
    pub bytes: u64,
}

impl SlotSend {
    /// The header of its first `len` bytes.
    pub fn first(&self, len: u64) -> Frame {
        Frame::SlotData {
            slot: self.slot,
            immediate: self.immediate,
            sent: self.sent,
            len: len as u32,
        }
    }
}

impl SlotState {
    pub fn new(ranks: u32) -> SlotState {
        SlotState {
            tables: Vec::new(),
            closed: HashSet::new(),
            early: HashMap::new(),
            curious: HashSet::new(),
            kept: vec![0; ranks as usize],
            liars: Vec::new(),
        }
    }

    /// The number of the open table of a name.
    pub fn named(&self, name: u32) -> Option<u32> {
        let named = |t: &Option<Table>| t.as_ref().is_some_and(|t| t.name == name);
        self.tables.iter().position(named).map(|i| i as u32)
    }

    /// A table with one peer.
    #[inline]
    pub fn pair(&mut self, table: u32, peer: u32) -> Option<&mut Pair> {
        let table = self.tables.get_mut(table as usize)?.as_mut()?;
        table.pairs.get_mut(peer as usize)
    }

    #[inline]
    pub fn receive(&mut self, place: Place, peer: u32) -> Option<&mut Receive> {
        let pair = self.pair(place.table, peer)?;
        pair.receives.get_mut(place.index as usize)
    }

    #[inline]
    pub fn delivery(&mut self, place: Place, peer: u32) -> Option<&mut Deliver> {
        let pair = self.pair(place.table, peer)?;
        pair.deliveries.get_mut(place.index as usize)
    }

    /// Makes room for a pair's slots, of which number `index` is to be used.
    pub fn join(&mut self, place: Place, peer: u32) -> Option<&mut Pair> {
        let table = self.tables.get_mut(place.table as usize)?.as_mut()?;
        let count = table.count as usize;
        let pair = table.pairs.get_mut(peer as usize)?;
        if place.index as usize >= count {
            return None;
        }
        if pair.receives.is_empty() {
            pair.receives = vec![Receive::NEW; count];
            pair.deliveries = vec![Deliver::NEW; count];
        }
        Some(pair)
    }

    /// A delivery is over.
    pub fn end_delivery(&mut self, peer: u32, send: SlotSend, outcome: Outcome) {
        if let Some(delivery) = self.delivery(send.place, peer) {
            delivery.state = match outcome {
                Outcome::Done => Delivery::Done { bytes: send.bytes },
                _ => Delivery::PeerFailed,
            };
        }
    }

    /// A peer is gone.
    pub fn fail(&mut self, peer: u32) {
        for table in self.tables.iter_mut().flatten() {
            table.pairs[peer as usize].trouble = Some(SlotError::PeerFailed);
        }
        self.early.retain(|key, _| key.0 != peer);
        self.curious.retain(|key| key.0 != peer);
        self.kept[peer as usize] = 0;
    }
}

impl Receive {
    const NEW: Receive = Receive {
        memory: Data::EMPTY,
        generation: 0,
        state: Receiving::Idle,
        prepared: false,
        asked: false,
    };
}

impl Deliver {
    const NEW: Deliver = Deliver {
        posted: 0,
        consumed: 0,
        length: 0,
        state: Delivery::Idle,
    };

    /// Whether a receive waits for a delivery.
    #[inline]
    pub fn is_offered(&self) -> bool {
        self.posted != self.consumed
    }
}
