//! The delivering side: data to where the header says.

use layout::Data;
use mtmi::slot::{Delivery, Slot, SlotError};

use super::line::{ARENA, Header, INLINE, LONGEST, Landing, NOWHERE, OWN, Payload, Way};
use super::receive::place;
use super::table::{Lines, Pair};
use crate::Shm;
use crate::split::SPLIT;

impl Shm {
    /// The length of the receive that the next delivery would go to.
    #[inline]
    pub(super) fn slot_offered(&mut self, slot: Slot) -> Option<u64> {
        let pair = self.slots.pair(slot.table.0, slot.peer.0)?;
        let side = pair.sides.get(slot.index as usize);
        let (Some(side), Some(theirs)) = (side, &pair.theirs) else {
            return self.offered_at_first(slot);
        };
        let line = theirs.line(slot.index);
        let next = side.consumed.get().wrapping_add(1);
        line.is_offered(next).then(|| line.header().length)
    }

    /// The same, before the peer's lines are known.
    #[cold]
    fn offered_at_first(&mut self, slot: Slot) -> Option<u64> {
        let pair = self.join_slots(slot).ok()?;
        let line = pair.theirs.as_ref()?.line(slot.index);
        let side = pair.sides.get(slot.index as usize)?;
        let next = side.consumed.get().wrapping_add(1);
        line.is_offered(next).then(|| line.header().length)
    }

    /// Delivers data to the receive that is offered.
    #[inline(always)]
    pub(super) fn slot_deliver(
        &mut self,
        slot: Slot,
        data: &Data,
        immediate: u32,
    ) -> Result<Delivery, SlotError> {
        let index = slot.index as usize;
        let used = self.slots.pair(slot.table.0, slot.peer.0).map(|p| &*p);
        let Some((pair, mine, theirs)) = used.and_then(|p| usable(p, index)) else {
            return self.deliver_at_first(slot, data, immediate);
        };
        if pair.deliveries[index].busy {
            return Err(SlotError::Busy);
        }
        if let Some(trouble) = pair.trouble {
            return Err(trouble);
        }
        let side = &pair.sides[index];
        let generation = side.consumed.get().wrapping_add(1);
        let line = theirs.line(slot.index);
        if !line.is_offered(generation) {
            return Err(SlotError::NotOffered);
        }
        let header = line.header();
        let sent = data.len().min(LONGEST);
        let bytes = sent.min(header.length);
        if bytes > INLINE as u64 {
            return self.deliver_long(slot, data, immediate, header);
        }
        let landing = Landing {
            way: Way::Inline,
            sent,
            immediate,
        };
        let payload = payload_of(data, bytes as usize);
        mine.line(slot.index).land(generation, landing, payload);
        side.consumed.set(generation);
        self.ports[slot.peer].bell.get().ring();
        Ok(Delivery::Done { bytes })
    }

    /// The same, before the peer's lines are known.
    #[cold]
    fn deliver_at_first(
        &mut self,
        slot: Slot,
        data: &Data,
        immediate: u32,
    ) -> Result<Delivery, SlotError> {
        let pair = self.join_slots(slot)?;
        match usable(pair, slot.index as usize) {
            Some(_) => self.slot_deliver(slot, data, immediate),
            None => Err(SlotError::NotOffered),
        }
    }

    /// Delivers more than rides in a landing.
    #[inline(never)]
    fn deliver_long(
        &mut self,
        slot: Slot,
        data: &Data,
        immediate: u32,
        header: Header,
    ) -> Result<Delivery, SlotError> {
        let sent = data.len().min(LONGEST);
        let bytes = sent.min(header.length);
        let Some(to) = self.mapped_target(slot.peer.0, header, bytes)? else {
            return match self.lend(slot, data, (header, bytes), immediate) {
                Some(delivery) => Ok(delivery),
                None => self.begin_flow(slot, data, bytes, immediate),
            };
        };
        if bytes >= SPLIT
            && let Some((from, _)) = data.contiguous()
            && let Some(offset) = self.slots.arena.find(from, bytes)
            && let Some(delivery) =
                self.share_mapped(slot, (from, to), (bytes, offset), (sent, immediate))
        {
            return Ok(delivery);
        }
        match data.contiguous() {
            // SAFETY: the target is a window of `bytes` bytes into the peer's arena, which the peer gave to this delivery
            // by its header; the source's maker vouched for it. Nobody's buffer lies in a window.
            Some((from, _)) => unsafe { sys::copy::copy(to, from.as_mut_ptr(), bytes as usize) },
            None => {
                // SAFETY: as above; nobody else in this process refers to the window.
                let to = unsafe { std::slice::from_raw_parts_mut(to, bytes as usize) };
                data.reader().read(to);
            }
        }
        let landing = Landing {
            way: Way::Direct,
            sent,
            immediate,
        };
        self.land(slot, landing, [0; 3]);
        Ok(Delivery::Done { bytes })
    }

    /// Where the first `bytes` bytes of the memory that a header names are mapped here. `None`: they aren't, or can't be.
    fn mapped_target(
        &mut self,
        peer: u32,
        header: Header,
        bytes: u64,
    ) -> Result<Option<*mut u8>, SlotError> {
        let Ok(area) = &self.slots.area else {
            return Ok(None);
        };
        let end = header.offset.checked_add(header.length);
        match header.segment {
            NOWHERE | OWN => Ok(None),
            ARENA if end.is_some_and(|end| end <= area.arena_bytes()) => {
                let rank = self.peers[peer as usize].slot;
                let windows = &mut self.slots.links[peer as usize].windows;
                Ok(windows.find(area, rank, header.offset, bytes))
            }
            _ => {
                self.suspect(peer);
                Err(SlotError::PeerFailed)
            }
        }
    }

    /// Says what became of the receive that is offered in a slot.
    pub(super) fn land(&mut self, slot: Slot, landing: Landing, payload: Payload) {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return;
        };
        let (Some(mine), Some(side)) = (&pair.mine, pair.sides.get(slot.index as usize)) else {
            return;
        };
        let generation = side.consumed.get().wrapping_add(1);
        side.consumed.set(generation);
        mine.line(slot.index).land(generation, landing, payload);
        self.ports[slot.peer].bell.get().ring();
    }

    /// A delivery is not over at once.
    pub(super) fn deliver_later(&mut self, slot: Slot) {
        let link = &mut self.slots.links[slot.peer.index()];
        link.deliveries.push((place(slot), Delivery::Pending));
        self.slots.pending += 1;
        self.slots.mark_busy(slot.peer.0);
        if let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0)
            && let Some(deliver) = pair.deliveries.get_mut(slot.index as usize)
        {
            deliver.busy = true;
        }
    }

    /// A delivery that was not over at once is now.
    pub(super) fn end_delivery(&mut self, peer: u32, place: super::table::Place, end: Delivery) {
        let deliveries = &mut self.slots.links[peer as usize].deliveries;
        let found = deliveries.iter_mut().find(|d| d.0 == place);
        if let Some(found) = found.filter(|d| d.1 == Delivery::Pending) {
            found.1 = end;
            self.slots.pending -= 1;
        }
    }

    /// How far a delivery is.
    pub(super) fn slot_delivered(&mut self, slot: Slot) -> Delivery {
        let peer = slot.peer.0;
        let busy = self.slots.pair(slot.table.0, peer).is_some_and(|p| {
            p.deliveries
                .get(slot.index as usize)
                .is_some_and(|d| d.busy)
        });
        if !busy {
            return Delivery::Idle;
        }
        self.serve_slots_of(peer);
        let deliveries = &mut self.slots.links[peer as usize].deliveries;
        let Some(i) = deliveries.iter().position(|d| d.0 == place(slot)) else {
            return Delivery::Idle;
        };
        if deliveries[i].1 == Delivery::Pending {
            return Delivery::Pending;
        }
        let end = deliveries.swap_remove(i).1;
        if let Some(pair) = self.slots.pair(slot.table.0, peer)
            && let Some(deliver) = pair.deliveries.get_mut(slot.index as usize)
        {
            deliver.busy = false;
        }
        end
    }
}

/// A pair whose lines are known, with both sides', if it has such a slot.
#[inline(always)]
fn usable(pair: &Pair, index: usize) -> Option<(&Pair, &Lines, &Lines)> {
    let (mine, theirs) = (pair.mine.as_ref()?, pair.theirs.as_ref()?);
    (index < pair.deliveries.len() && index < pair.sides.len()).then_some((pair, mine, theirs))
}

/// The first `n` bytes of data as words of a landing.
#[inline(always)]
fn payload_of(data: &Data, n: usize) -> Payload {
    assert!(n <= INLINE);
    let mut words: Payload = [0; INLINE / 8];
    match data.contiguous() {
        // SAFETY: the words have room for `n` bytes; the maker of the source vouched for it. The two don't overlap.
        Some((from, _)) => unsafe {
            sys::copy::copy(words.as_mut_ptr().cast(), from.as_mut_ptr(), n);
        },
        None => words = gathered(data, n),
    }
    words
}

/// The same, from data in several pieces.
#[inline(never)]
fn gathered(data: &Data, n: usize) -> Payload {
    let mut words: Payload = [0; INLINE / 8];
    let mut bytes = [0; INLINE];
    data.reader().read(&mut bytes[..n]);
    for (to, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *to = u64::from_ne_bytes(*from);
    }
    words
}
