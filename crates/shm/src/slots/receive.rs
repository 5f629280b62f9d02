//! The receiving side: posting receives, and finding what became of them.

use layout::Data;
use mtmi::slot::{Landed, Slot, SlotError};

use super::line::{ARENA, Header, INLINE, Landing, NOWHERE, OWN, Payload, Way};
use super::table::{Lines, Pair, Place, Receiving};
use crate::Shm;
use crate::direct::{self, Choice};
use crate::ring::Hostile;

/// What a receive of `capacity` bytes is told of a message.
#[inline(always)]
pub(super) fn outcome(landing: Landing, capacity: u64) -> Landed {
    let (sent, immediate) = (landing.sent, landing.immediate);
    match sent > capacity {
        true => Landed::Truncated { sent, immediate },
        false => Landed::Done {
            bytes: sent,
            immediate,
        },
    }
}

pub(super) fn place(slot: Slot) -> Place {
    Place {
        table: slot.table.0,
        index: slot.index,
    }
}

/// Writes what came to memory in several pieces.
#[inline(never)]
fn scatter(memory: &Data, bytes: &[u8]) {
    memory.writer().write(bytes);
}

impl Shm {
    /// Makes a pair of a table usable, as far as it can be now: our lines, and the peer's if it has opened the table.
    #[cold]
    pub(super) fn join_slots(&mut self, slot: Slot) -> Result<&mut Pair, SlotError> {
        const NONE: SlotError = SlotError::NoSuchSlot;
        let peer = slot.peer.index();
        let known = self.peers.get(peer).ok_or(NONE)?;
        let (their_slot, failed) = (known.slot, known.failed);
        let table = self.slots.tables.get_mut(slot.table.0 as usize);
        let table = table.and_then(Option::as_mut).ok_or(NONE)?;
        if slot.index >= table.entry.count || slot.peer.0 == self.me {
            return Err(NONE);
        }
        if failed {
            return Err(SlotError::PeerFailed);
        }
        if table.pairs.get(peer).is_some_and(|p| p.mine.is_none()) {
            // Address space for what may come has to be there before a receive is posted.
            self.open_pipes(slot.peer.0)?;
        }
        let table = self.slots.tables.get_mut(slot.table.0 as usize);
        let table = table.and_then(Option::as_mut).ok_or(NONE)?;
        let pair = table.pairs.get_mut(peer).ok_or(NONE)?;
        if pair.mine.is_none() {
            let area = self
                .slots
                .area
                .as_ref()
                .map_err(|&n| SlotError::Memory(n))?;
            let lines = area.lines(self.local, their_slot, table.entry);
            let lines = lines.map_err(|e| SlotError::Memory(super::table::number(&e)))?;
            let count = table.entry.count as usize;
            pair.use_lines(Lines::new(lines, table.entry.count), count);
            if let Some(ports) = &table.ports {
                ports.show(slot.peer.0, pair);
            }
            self.ports[slot.peer].bell.get().attach();
        }
        self.find_theirs(slot.table.0, slot.peer.0);
        let pair = self.slots.pair(slot.table.0, slot.peer.0).ok_or(NONE)?;
        match pair.trouble {
            Some(trouble) => Err(trouble),
            None => Ok(pair),
        }
    }

    /// Looks for the peer's lines of a table, if they are not known yet.
    #[cold]
    pub(super) fn find_theirs(&mut self, table: u32, peer: u32) {
        let their_slot = self.peers[peer as usize].slot;
        let local = self.local;
        let Ok(area) = &self.slots.area else {
            return;
        };
        let Some(table) = self
            .slots
            .tables
            .get_mut(table as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let link = &mut self.slots.links[peer as usize];
        if link.directory.is_none() {
            link.directory = area.directory(their_slot).ok();
        }
        let Some(directory) = &link.directory else {
            return;
        };
        let pair = &mut table.pairs[peer as usize];
        let used = directory.used();
        if pair.theirs.is_some() || pair.seen == used {
            return;
        }
        pair.seen = used;
        // Closed already, it may still hold what became of our receives.
        let Some(entry) = directory.find(table.name) else {
            return;
        };
        if entry.count != table.entry.count {
            pair.trouble = Some(SlotError::Count {
                theirs: entry.count,
            });
            return;
        }
        match area.lines(their_slot, local, entry) {
            Ok(lines) => {
                pair.theirs = Lines::new(lines, entry.count);
                if let Some(ports) = &table.ports {
                    ports.show(peer, pair);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => self.suspect(peer),
            // Looked for again, as memory may be free then.
            Err(_) => pair.seen = u64::MAX,
        }
    }

    /// Binds memory to a slot's receives. `post`: for one receive, which is offered at once.
    #[inline(always)]
    pub(super) fn bind_slot(
        &mut self,
        slot: Slot,
        memory: &Data,
        post: bool,
    ) -> Result<(), SlotError> {
        let length = memory.len();
        let (segment, offset) = match length > INLINE as u64 {
            true => self.lies_at(memory),
            false => (NOWHERE, 0),
        };
        let header = Header {
            segment,
            offset,
            length,
        };
        let used = self.slots.pair(slot.table.0, slot.peer.0);
        let pair = match used.filter(|p| (slot.index as usize) < p.sides.len()) {
            Some(pair) => pair,
            None => self.join_slots(slot)?,
        };
        if let Some(trouble) = pair.trouble {
            return Err(trouble);
        }
        let Some((mine, receive, side)) = pair.posting(slot.index) else {
            return Err(SlotError::NoSuchSlot);
        };
        if receive.state != Receiving::Idle {
            return Err(SlotError::Busy);
        }
        receive.memory = memory.clone();
        receive.prepared = !post;
        receive.segment = header.segment;
        let line = mine.line(slot.index);
        line.set_header(header);
        if post {
            line.offer(receive.post(side));
            self.ports[slot.peer].bell.get().ring();
        }
        Ok(())
    }

    /// Segment and offset of memory for a header.
    #[inline(never)]
    fn lies_at(&self, memory: &Data) -> (u32, u64) {
        let Some((buf, len)) = memory.contiguous() else {
            return (NOWHERE, 0);
        };
        match self.slots.arena.find(buf, len) {
            Some(offset) => (ARENA, offset),
            None if len >= direct::SHORTEST && self.choice != Choice::Pipe => {
                (OWN, buf.addr() as u64)
            }
            None => (NOWHERE, 0),
        }
    }

    /// Offers the receive that was prepared in a slot.
    #[inline]
    pub(super) fn start_slot(&mut self, slot: Slot) -> Result<(), SlotError> {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return Err(SlotError::NoSuchSlot);
        };
        let trouble = pair.trouble;
        let Some((mine, receive, side)) = pair.posting(slot.index) else {
            return Err(SlotError::NotPrepared);
        };
        if receive.state != Receiving::Idle {
            return Err(SlotError::Busy);
        }
        if !receive.prepared {
            return Err(SlotError::NotPrepared);
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        mine.line(slot.index).offer(receive.post(side));
        self.ports[slot.peer].bell.get().ring();
        Ok(())
    }

    /// What became of a receive.
    #[inline(always)]
    pub(super) fn slot_landed(&mut self, slot: Slot) -> Landed {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return Landed::Idle;
        };
        let trouble = pair.trouble;
        let Some((theirs, receive, side)) = pair.taking(slot.index) else {
            return Landed::Idle;
        };
        let Some(theirs) = theirs.filter(|_| receive.state == Receiving::Posted) else {
            return self.landed_otherwise(slot);
        };
        let line = theirs.line(slot.index);
        if !line.has_landed(side.generation.get()) {
            receive.awaited = true;
            return match trouble {
                None => Landed::NotYet,
                Some(_) => self.landed_otherwise(slot),
            };
        }
        let capacity = receive.memory.len();
        match line.landing() {
            Ok(landing)
                if landing.way == Way::Inline && landing.sent.min(capacity) <= INLINE as u64 =>
            {
                let n = landing.sent.min(capacity) as usize;
                let words = line.payload();
                match receive.memory.contiguous() {
                    // SAFETY: `n` bytes of the payload, which is ours, into the memory of a posted receive, for
                    // which its maker vouched; the two don't overlap.
                    Some((to, _)) => unsafe {
                        sys::copy::copy(to.as_mut_ptr(), words.as_ptr().cast(), n);
                    },
                    None => scatter(&receive.memory, &bytes_of(words)[..n]),
                }
                receive.end(side);
                outcome(landing, capacity)
            }
            Ok(landing) if landing.way == Way::Direct && receive.segment == ARENA => {
                receive.end(side);
                outcome(landing, capacity)
            }
            Ok(landing) if landing.way == Way::Pipe => {
                let payload = line.payload();
                self.landed_in_pipe(slot, landing, payload)
            }
            _ => self.landed_otherwise(slot),
        }
    }

    /// What became of a receive whose message comes through the pipe.
    #[inline(never)]
    fn landed_in_pipe(&mut self, slot: Slot, landing: Landing, payload: Payload) -> Landed {
        match self.take_whole(slot, landing, payload) {
            Some(landed) => landed,
            None => self.landed_otherwise(slot),
        }
    }

    /// Looks at a posted receive's line until something has landed, or so many times: nothing else lies between two looks, so that
    /// what comes is seen some nanoseconds sooner than by asking for [`slot_landed`](Shm::slot_landed) again and again.
    #[inline(always)]
    pub(super) fn slot_await(&mut self, slot: Slot, looks: u32) {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return;
        };
        let Some((theirs, awaited, side)) = pair.awaiting(slot.index) else {
            return;
        };
        let (line, generation) = (theirs.line(slot.index), side.generation.get());
        if !line.has_landed(generation) {
            *awaited = true;
            line.await_landing(generation, looks);
        }
    }

    /// Whether anything became of a receive.
    #[inline]
    pub(super) fn slot_has_landed(&mut self, slot: Slot) -> bool {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return true;
        };
        let trouble = pair.trouble;
        let Some((theirs, receive, side)) = pair.taking(slot.index) else {
            return true;
        };
        if receive.state == Receiving::Posted
            && trouble.is_none()
            && let Some(theirs) = theirs
            && !theirs.line(slot.index).has_landed(side.generation.get())
        {
            receive.awaited = true;
            return false;
        }
        self.settle(slot);
        let failed = self.peers[slot.peer.index()].failed;
        let (place, peer) = (place(slot), slot.peer.0);
        self.slots
            .receive(place, peer)
            .is_none_or(|(r, _)| match r.state {
                Receiving::Posted | Receiving::Streams | Receiving::Splits | Receiving::Again => {
                    failed
                }
                Receiving::Idle | Receiving::Ended | Receiving::Returned => true,
            })
    }

    /// Whether nothing more comes in a pair's slots.
    fn is_in_trouble(&mut self, slot: Slot) -> bool {
        let pair = self.slots.pair(slot.table.0, slot.peer.0);
        pair.is_some_and(|p| p.trouble.is_some())
    }

    /// What became of a receive that is not simply there or missing.
    #[cold]
    #[inline(never)]
    fn landed_otherwise(&mut self, slot: Slot) -> Landed {
        self.settle(slot);
        let (place, peer) = (place(slot), slot.peer.0);
        let failed = self.is_in_trouble(slot);
        let Some((receive, side)) = self.slots.receive(place, peer) else {
            return Landed::Idle;
        };
        let landed = match receive.state {
            Receiving::Idle => return Landed::Idle,
            Receiving::Returned => Landed::Withdrawn,
            Receiving::Ended => {
                receive.end(side);
                let ended = &mut self.slots.links[peer as usize].ended;
                let found = ended.iter().position(|e| e.0 == place);
                return found.map_or(Landed::PeerFailed, |i| ended.swap_remove(i).1);
            }
            _ if failed => {
                // Nothing may be written there any more.
                let split_in = &mut self.slots.links[peer as usize].split_in;
                split_in.retain(|split| split.place != place);
                Landed::PeerFailed
            }
            Receiving::Posted | Receiving::Streams | Receiving::Splits | Receiving::Again => {
                return Landed::NotYet;
            }
        };
        if let Some((receive, side)) = self.slots.receive(place, peer) {
            receive.end(side);
        }
        landed
    }

    /// Takes a receive as far as it can go now.
    pub(super) fn settle(&mut self, slot: Slot) {
        let (place, peer) = (place(slot), slot.peer.0);
        if let Err(Hostile) = self.settle_or(place, peer) {
            self.suspect(peer);
        }
    }

    fn settle_or(&mut self, place: Place, peer: u32) -> Result<(), Hostile> {
        let Some(state) = self.slots.receive(place, peer).map(|(r, _)| r.state) else {
            return Ok(());
        };
        match state {
            Receiving::Streams | Receiving::Again => self.drain_flows(peer).map(|_| ()),
            Receiving::Splits => self.help_split(place, peer),
            Receiving::Posted => {
                self.find_theirs(place.table, peer);
                self.take_landing(place, peer)
            }
            Receiving::Idle | Receiving::Ended | Receiving::Returned => Ok(()),
        }
    }

    /// Looks at the landing of a posted receive.
    fn take_landing(&mut self, place: Place, peer: u32) -> Result<(), Hostile> {
        let Some(pair) = self.slots.pair(place.table, peer) else {
            return Ok(());
        };
        let Some((Some(theirs), receive, side)) = pair.taking(place.index) else {
            return Ok(());
        };
        let line = theirs.line(place.index);
        if !line.has_landed(side.generation.get()) {
            return Ok(());
        }
        let landing = line.landing()?;
        let capacity = receive.memory.len();
        match landing.way {
            Way::Inline => {
                let n = landing.sent.min(capacity) as usize;
                let bytes = bytes_of(line.payload());
                let bytes = bytes.get(..n).ok_or(Hostile)?;
                receive.memory.writer().write(bytes);
            }
            Way::Direct if receive.segment == ARENA => {}
            Way::Pipe => return self.drain_flows(peer).map(|_| ()),
            Way::Split if receive.segment == ARENA => {
                let payload = line.payload();
                return self.join_split(place, peer, landing, payload);
            }
            Way::Lent if receive.segment == OWN => {
                let payload = line.payload();
                return self.join_split(place, peer, landing, payload);
            }
            Way::Direct | Way::Split | Way::Lent => return Err(Hostile),
        }
        self.end_receive(place, peer, outcome(landing, capacity));
        Ok(())
    }

    /// A receive is over.
    pub(super) fn end_receive(&mut self, place: Place, peer: u32, landed: Landed) {
        if let Some((receive, _)) = self.slots.receive(place, peer) {
            receive.state = Receiving::Ended;
            self.slots.links[peer as usize].ended.push((place, landed));
        }
    }
}

/// The bytes of a payload, in memory order.
#[inline]
pub(super) fn bytes_of(words: Payload) -> [u8; INLINE] {
    let mut bytes = [0; INLINE];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    bytes
}
