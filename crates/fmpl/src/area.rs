//! A matching area: for every ordered pair of processes, `count` indices and a ring of receives from any index.
//!
//! # How a send finds its receive
//! The slot of its index first; if nothing is posted there, the next slot of the peer's ring of `TAG_ANY`
//! receives, which lies above the program's indices. The ring's slots are used in turn by both sides, so they
//! match in the order posted; the delivery's immediate value says which index it was.
//!
//! # What waits
//! A send without a receive becomes an [`Entry`] in the queue of its (process, index). At most the last entry of
//! a queue is the program's own buffer (an `isend`, or a send that still waits); those before it were spooled.
//! Only the first entry of a queue looks for a receive: so messages of one index stay in order.
//!
//! # When an index is free
//! For sending when the program's own entry is gone (it ended, or moved to the stash); for receiving when the
//! receive's end was told.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fmpl_table::{code, consts};
use layout::Data;
use mtmi::Endpoint;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};

use crate::stash::{Place, Stash};

/// Receives from any index that may be in flight from one process.
const ANY: u32 = consts::ANY_MAX as u32;

/// One matching area.
pub struct Area {
    table: SlotTable,
    count: u32,
    pairs: Vec<Pair>,
    /// Peers whose pair has entries.
    active: Vec<u32>,
    stash: Stash,
    patience: Option<Duration>,
    /// Entries that lie in the stash,
    spooled: u32,
    /// and those that have left it since somebody asked.
    sent: u32,
    /// Entries of all queues.
    entries: usize,
}

/// What is known of one peer.
#[derive(Default)]
struct Pair {
    /// By index; empty until a send has to wait.
    out: Vec<Out>,
    /// Indices whose queue has entries.
    busy: Vec<u32>,
    ring: Ring,
    /// Deliveries to the peer's ring.
    to_ring: u32,
    failed: bool,
}

/// Receives from any index, oldest first.
#[derive(Default)]
struct Ring {
    /// Number of the first of `taken`.
    first: u64,
    /// Whether the end of each was told.
    taken: VecDeque<bool>,
}

/// The sending side of one index.
#[derive(Default)]
struct Out {
    own: Own,
    queue: VecDeque<Entry>,
}

/// The program's own send.
#[derive(Clone, Copy, Default, PartialEq)]
enum Own {
    /// There is none.
    #[default]
    None,
    /// It is the last of the queue, since then.
    Queued(Option<Instant>),
    /// It ended so.
    Over(i32),
}

struct Entry {
    data: Data,
    /// Where in the stash, if there.
    place: Option<Place>,
    /// The slot that it is being delivered to.
    moving: Option<Slot>,
}

/// An operation's (process, index).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The process.
    pub peer: u32,
    /// The index, below the area's count.
    pub index: u32,
}

/// A receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// By its index.
    Index(At),
    /// From any index of a process: the receive of this number.
    Any {
        /// The process.
        peer: u32,
        /// Its number among those of the process.
        number: u64,
    },
}

/// How a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `SUCCESS`, `ERR_TRUNCATE` or `ERR_PEER`.
    pub code: i32,
    /// Bytes that the message had.
    pub bytes: u64,
    /// Its sender's index.
    pub index: u32,
}

/// What a send came to at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is over, with this code.
    Over(i32),
    /// It waits; see [`Area::poll_send`].
    Pending,
}

/// The code of a refused operation on a slot.
#[cold]
#[inline(never)]
pub fn refused(error: SlotError) -> i32 {
    match error {
        SlotError::Busy => code::ERR_BUSY,
        SlotError::NoSuchSlot => code::ERR_INDEX,
        SlotError::Count { .. } => code::ERR_COUNT,
        SlotError::PeerFailed => code::ERR_PEER,
        SlotError::Memory(_) => code::ERR_MEMORY,
        SlotError::NotOffered | SlotError::NotPrepared => code::ERR_NOTHING,
    }
}

/// The code of a delivery of `bytes` out of `len`.
fn sent_code(bytes: u64, len: u64) -> i32 {
    match bytes < len {
        true => code::ERR_TRUNCATE,
        false => code::SUCCESS,
    }
}

impl Area {
    /// An area of `count` indices with each of `peers` processes.
    pub fn open(
        below: &mut impl Slots,
        name: u32,
        count: u32,
        peers: u32,
    ) -> Result<Area, SlotError> {
        Ok(Area {
            table: below.open_slots(name, count + ANY)?,
            count,
            pairs: (0..peers).map(|_| Pair::default()).collect(),
            active: Vec::new(),
            stash: Stash::none(),
            patience: None,
            spooled: 0,
            sent: 0,
            entries: 0,
        })
    }

    /// Indices per ordered pair.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The table below.
    pub fn table(&self) -> SlotTable {
        self.table
    }

    fn slot(&self, at: At) -> Slot {
        Slot {
            table: self.table,
            peer: Endpoint(at.peer),
            index: at.index,
        }
    }

    fn ring_slot(&self, peer: u32, number: u64) -> Slot {
        Slot {
            table: self.table,
            peer: Endpoint(peer),
            index: self.count + (number % u64::from(ANY)) as u32,
        }
    }

    // --- Sending.

    /// Delivers `data` if a receive is posted for it.
    #[inline(always)]
    fn attempt(
        &mut self,
        below: &mut impl Slots,
        at: At,
        data: &Data,
    ) -> Option<Result<(Slot, Delivery), SlotError>> {
        let slot = self.slot(at);
        if self.pairs[at.peer as usize].failed {
            return Some(Err(SlotError::PeerFailed));
        }
        match below.deliver(slot, data, at.index) {
            Ok(delivery) => Some(Ok((slot, delivery))),
            Err(why) => self.attempt_otherwise(below, at, data, why),
        }
    }

    /// The same when the slot of the index refused: only where a receive is posted there, that is the outcome.
    #[inline(never)]
    fn attempt_otherwise(
        &mut self,
        below: &mut impl Slots,
        at: At,
        data: &Data,
        why: SlotError,
    ) -> Option<Result<(Slot, Delivery), SlotError>> {
        let mut slot = self.slot(at);
        let pair = &mut self.pairs[at.peer as usize];
        let ring = below.offered(slot).is_none();
        if ring {
            slot.index = self.count + pair.to_ring % ANY;
            below.offered(slot)?;
        }
        let delivered = match why {
            // Posted since, or in the ring.
            _ if ring || why == SlotError::NotOffered => below.deliver(slot, data, at.index),
            _ => Err(why),
        };
        let delivered = match delivered {
            // The last delivery there has not been seen to end.
            Err(SlotError::Busy) => return None,
            other => other,
        };
        pair.to_ring = pair.to_ring.wrapping_add(u32::from(ring));
        Some(delivered.map(|d| (slot, d)))
    }

    /// Begins a send if that needs no waiting for its receive: `None` if there is none, and nothing was done. With `keep`
    /// (an `isend`) the end is kept for a wait.
    #[inline(always)]
    pub fn try_send(
        &mut self,
        below: &mut impl Slots,
        at: At,
        data: &Data,
        keep: bool,
    ) -> Option<Begun> {
        match self.pairs[at.peer as usize].out.get(at.index as usize) {
            None => {}
            Some(out) if out.own != Own::None => return Some(Begun::Over(code::ERR_BUSY)),
            // What was spooled before goes first.
            Some(out) if !out.queue.is_empty() => return None,
            Some(_) => {}
        }
        let over = match self.attempt(below, at, data)? {
            Ok((_, Delivery::Done { bytes })) => sent_code(bytes, data.len()),
            Ok((slot, Delivery::Pending)) => {
                return Some(self.queue(below, at, data.clone(), Some(slot)));
            }
            Ok((_, Delivery::PeerFailed | Delivery::Idle)) => code::ERR_PEER,
            Err(error) => refused(error),
        };
        if keep {
            self.out(at).own = Own::Over(over);
        }
        below.set_clear(self.slot(at), !keep);
        Some(Begun::Over(over))
    }

    /// Begins a send; without a receive it is queued.
    pub fn send(&mut self, below: &mut impl Slots, at: At, data: Data, keep: bool) -> Begun {
        match self.try_send(below, at, &data, keep) {
            Some(begun) => begun,
            None => self.queue(below, at, data, None),
        }
    }

    /// Whether a send waits for its receive at all.
    #[inline]
    pub fn is_patient(&self) -> bool {
        self.patience != Some(Duration::ZERO)
    }

    /// Bytes that the receive has room for which the next send would meet; `None`: there is none, or others go first.
    pub fn offered(&self, below: &mut impl Slots, at: At) -> Option<u64> {
        let pair = &self.pairs[at.peer as usize];
        let out = pair.out.get(at.index as usize);
        if pair.failed || out.is_some_and(|out| !out.queue.is_empty()) {
            return None;
        }
        let ring = self.ring_slot(at.peer, u64::from(pair.to_ring));
        below.offered(self.slot(at)).or_else(|| below.offered(ring))
    }

    fn out(&mut self, at: At) -> &mut Out {
        let count = self.count as usize;
        let out = &mut self.pairs[at.peer as usize].out;
        if out.is_empty() {
            out.resize_with(count, Out::default);
        }
        &mut out[at.index as usize]
    }

    fn queue(&mut self, below: &mut impl Slots, at: At, data: Data, moving: Option<Slot>) -> Begun {
        below.set_clear(self.slot(at), false);
        // The time is looked at only where a wait may be cut short.
        let since = self.patience.map(|_| Instant::now());
        let out = self.out(at);
        let first = out.queue.is_empty();
        out.own = Own::Queued(since);
        out.queue.push_back(Entry {
            data,
            place: None,
            moving,
        });
        self.entries += 1;
        if first {
            let pair = &mut self.pairs[at.peer as usize];
            if pair.busy.is_empty() {
                self.active.push(at.peer);
            }
            pair.busy.push(at.index);
        }
        Begun::Pending
    }

    /// Moves what can move of one index. Says whether anything did.
    fn pump(&mut self, below: &mut impl Slots, at: At) -> bool {
        let mut moved = false;
        loop {
            let out = &mut self.pairs[at.peer as usize].out[at.index as usize];
            let Some(entry) = out.queue.front() else {
                return moved;
            };
            let len = entry.data.len();
            let over = match entry.moving {
                Some(slot) => match below.delivered(slot) {
                    Delivery::Pending => return moved,
                    Delivery::Done { bytes } => sent_code(bytes, len),
                    Delivery::PeerFailed | Delivery::Idle => code::ERR_PEER,
                },
                None => {
                    let data = entry.data.clone();
                    match self.attempt(below, at, &data) {
                        None => return moved,
                        Some(Ok((slot, Delivery::Pending))) => {
                            self.out(at).queue[0].moving = Some(slot);
                            return true;
                        }
                        Some(Ok((_, Delivery::Done { bytes }))) => sent_code(bytes, len),
                        Some(Ok((_, Delivery::PeerFailed | Delivery::Idle))) => code::ERR_PEER,
                        Some(Err(error)) => refused(error),
                    }
                }
            };
            self.pop(at, over);
            moved = true;
        }
    }

    /// The first entry of a queue is over.
    fn pop(&mut self, at: At, over: i32) {
        let pair = &mut self.pairs[at.peer as usize];
        let out = &mut pair.out[at.index as usize];
        let Some(entry) = out.queue.pop_front() else {
            return;
        };
        self.entries -= 1;
        if out.queue.is_empty() {
            pair.busy.retain(|&i| i != at.index);
            if pair.busy.is_empty() {
                self.active.retain(|&p| p != at.peer);
            }
        }
        match entry.place {
            None => out.own = Own::Over(over),
            Some(place) => {
                self.stash.drop(place);
                self.spooled -= 1;
                self.sent = self.sent.saturating_add(1);
            }
        }
    }

    /// The end of the program's own send with that index, told once.
    #[inline]
    pub fn poll_send(&mut self, below: &mut impl Slots, at: At) -> Option<i32> {
        if self.pairs[at.peer as usize].out.is_empty() {
            return None;
        }
        self.pump(below, at);
        let own = &mut self.pairs[at.peer as usize].out[at.index as usize].own;
        let Own::Over(over) = *own else { return None };
        *own = Own::None;
        Some(over)
    }

    /// Whether the program's own send with that index is in flight, or its end not told.
    pub fn is_sending(&self, at: At) -> bool {
        let out = self.pairs[at.peer as usize].out.get(at.index as usize);
        out.is_some_and(|out| out.own != Own::None)
    }

    /// When the send may be moved to the stash; `None`: never.
    pub fn spool_time(&self, at: At) -> Option<Instant> {
        let out = self.pairs[at.peer as usize].out.get(at.index as usize)?;
        match out.own {
            Own::Queued(since) => since?.checked_add(self.patience?),
            _ => None,
        }
    }

    /// Moves the program's own send to the stash, if there is room and its data are not on their way: then the
    /// send is over for the program.
    pub fn spool(&mut self, at: At) -> Option<i32> {
        let out = self.pairs[at.peer as usize]
            .out
            .get_mut(at.index as usize)?;
        let entry = out.queue.back_mut()?;
        if !matches!(out.own, Own::Queued(_)) || entry.moving.is_some() {
            return None;
        }
        let (place, copy) = self.stash.put(&entry.data)?;
        entry.data = copy;
        entry.place = Some(place);
        out.own = Own::None;
        self.spooled += 1;
        Some(code::SUCCESS)
    }

    /// Sends what waits and can go. Says whether anything moved.
    #[inline]
    pub fn progress(&mut self, below: &mut impl Slots) -> bool {
        self.entries > 0 && self.pump_all(below)
    }

    fn pump_all(&mut self, below: &mut impl Slots) -> bool {
        let mut moved = false;
        // From the end: entries that go are taken out at or after the place looked at.
        for p in (0..self.active.len()).rev() {
            let Some(&peer) = self.active.get(p) else {
                continue;
            };
            let busy = self.pairs[peer as usize].busy.len();
            for i in (0..busy).rev() {
                if let Some(&index) = self.pairs[peer as usize].busy.get(i) {
                    moved |= self.pump(below, At { peer, index });
                }
            }
        }
        moved
    }

    /// Whether anything waits to be sent.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.entries > 0
    }

    // --- Receiving.

    /// Posts a receive by its index.
    #[inline(always)]
    pub fn receive(&mut self, below: &mut impl Slots, at: At, data: &Data) -> Result<Which, i32> {
        let slot = self.slot(at);
        if self.pairs[at.peer as usize].failed {
            // One that was posted before is the caller's mistake all the same.
            return Err(match below.is_posted(slot) {
                true => code::ERR_BUSY,
                false => code::ERR_PEER,
            });
        }
        match below.post(slot, data) {
            Ok(()) => Ok(Which::Index(at)),
            Err(error) => Err(refused(error)),
        }
    }

    /// Posts a receive from any index of a process.
    #[inline(never)]
    pub fn receive_any(
        &mut self,
        below: &mut impl Slots,
        peer: u32,
        data: &Data,
    ) -> Result<Which, i32> {
        let ring = &self.pairs[peer as usize].ring;
        let number = ring.first + ring.taken.len() as u64;
        if ring.taken.len() >= ANY as usize {
            return Err(code::ERR_BUSY);
        }
        if self.pairs[peer as usize].failed {
            return Err(code::ERR_PEER);
        }
        let slot = self.ring_slot(peer, number);
        below.post(slot, data).map_err(refused)?;
        self.pairs[peer as usize].ring.taken.push_back(false);
        Ok(Which::Any { peer, number })
    }

    /// The receive in flight with that index.
    pub fn receive_in_flight(&self, below: &mut impl Slots, at: At) -> Option<Which> {
        below.is_posted(self.slot(at)).then_some(Which::Index(at))
    }

    /// The oldest receive from any index of a process whose end was not told.
    pub fn oldest_any(&self, peer: u32) -> Option<Which> {
        let ring = &self.pairs[peer as usize].ring;
        let at = ring.taken.iter().position(|&taken| !taken)?;
        let number = ring.first + at as u64;
        Some(Which::Any { peer, number })
    }

    #[inline(always)]
    fn slot_of(&self, which: Which) -> Slot {
        match which {
            Which::Index(at) => self.slot(at),
            Which::Any { peer, number } => self.ring_slot(peer, number),
        }
    }

    /// Looks so many times for a receive's end where that is a look at memory; [`poll_receive`](Area::poll_receive) tells whether it came.
    #[inline(always)]
    pub fn await_receive(&self, below: &mut impl Slots, which: Which, looks: u32) {
        below.await_landing(self.slot_of(which), looks);
    }

    /// The end of a receive, told once.
    #[inline(always)]
    pub fn poll_receive(&mut self, below: &mut impl Slots, which: Which) -> Option<Ended> {
        let slot = self.slot_of(which);
        let (over, bytes, immediate) = match below.landed(slot) {
            Landed::NotYet => return None,
            Landed::Done { bytes, immediate } => (code::SUCCESS, bytes, immediate),
            Landed::Truncated { sent, immediate } => (code::ERR_TRUNCATE, sent, immediate),
            Landed::PeerFailed => (code::ERR_PEER, 0, 0),
            Landed::Withdrawn | Landed::Idle => (code::ERR_NOTHING, 0, 0),
        };
        let index = match which {
            Which::Index(at) => at.index,
            Which::Any { peer, number } => {
                self.take(peer, number);
                // The peer wrote it: an index only where there is one.
                immediate.min(self.count.saturating_sub(1))
            }
        };
        Some(Ended {
            code: over,
            bytes,
            index,
        })
    }

    #[inline(never)]
    fn take(&mut self, peer: u32, number: u64) {
        let ring = &mut self.pairs[peer as usize].ring;
        let at = number.checked_sub(ring.first).map(|n| n as usize);
        if let Some(taken) = at.and_then(|at| ring.taken.get_mut(at)) {
            *taken = true;
        }
        while ring.taken.front() == Some(&true) {
            ring.taken.pop_front();
            ring.first += 1;
        }
    }

    /// All receives in flight.
    pub fn receives(&self, below: &mut impl Slots) -> Vec<Which> {
        let mut all = Vec::new();
        for (peer, pair) in (0..).zip(&self.pairs) {
            let by_index = (0..self.count).map(|index| At { peer, index });
            all.extend(by_index.filter_map(|at| self.receive_in_flight(below, at)));
            let ring = (pair.ring.first..).zip(&pair.ring.taken);
            let open = ring.filter(|(_, taken)| !**taken);
            all.extend(open.map(|(number, _)| Which::Any { peer, number }));
        }
        all
    }

    /// Asks for the memory of a receive in flight back; [`poll_receive`](Area::poll_receive) tells when it is.
    pub fn withdraw(&mut self, below: &mut impl Slots, which: Which) {
        let slot = self.slot_of(which);
        // Refused only where nothing is in flight, which `poll_receive` then says.
        let _ = below.withdraw(slot);
    }

    // --- The stash.

    /// Another stash, and how long a send waits first (`None`: for ever).
    pub fn set_stash(&mut self, stash: Stash, patience: Option<Duration>) -> i32 {
        if self.spooled > 0 {
            return code::ERR_STASH;
        }
        self.stash = stash;
        self.patience = patience;
        code::SUCCESS
    }

    /// Spooled sends that have gone since the last time this was asked, and those that wait.
    pub fn check(&mut self) -> (u32, u32) {
        (std::mem::take(&mut self.sent), self.spooled)
    }

    /// Messages in the stash.
    pub fn spooled(&self) -> u32 {
        self.spooled
    }

    /// Whether messages lie in the stash.
    pub fn is_spooled(&self) -> bool {
        self.spooled > 0
    }

    /// For whom one of the sends is that have not been received.
    pub fn first_waiting(&self) -> Option<At> {
        let peer = *self.active.first()?;
        let index = *self.pairs[peer as usize].busy.first()?;
        Some(At { peer, index })
    }

    /// Whether data of anybody's are being delivered now.
    pub fn is_moving(&self) -> bool {
        let moving = |pair: &Pair, &index: &u32| {
            let out = pair.out.get(index as usize);
            let first = out.and_then(|out| out.queue.front());
            first.is_some_and(|entry| entry.moving.is_some())
        };
        let mut pairs = self.active.iter().map(|&peer| &self.pairs[peer as usize]);
        pairs.any(|pair| pair.busy.iter().any(|index| moving(pair, index)))
    }

    /// A process is gone: what waits for it ends.
    pub fn peer_failed(&mut self, peer: u32) {
        let Some(pair) = self.pairs.get_mut(peer as usize) else {
            return;
        };
        pair.failed = true;
    }
}
