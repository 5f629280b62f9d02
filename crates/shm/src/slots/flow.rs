//! Deliveries through a pipe, for memory that the sender can't reach: as many chunks at a time as long messages use.
//!
//! Streams of a pair follow each other. Each chunk names its slot, so the receiver can take whatever is in the pipe at any
//! time, whichever slot is looked at: a slot that nobody looks at holds up no other. A stream that doesn't fit at once is
//! announced in the ring, so that the receiver's progress drains it.
//!
//! What fits into one chunk, while no stream is under way, is told of by the landing too, and what its sender has taken: who looks for that has it without
//! a look at the chunk's header, and answers without one at what was given back.

use layout::{Data, Reader};
use mtmi::slot::{Delivery, Landed, Slot, SlotError};

use super::line::{LONGEST, Landing, Payload, Way};
use super::receive::{outcome, place};
use super::table::{Flow, Place, Receiving, Sink};
use crate::Shm;
use crate::chunking;
use crate::lane::{ChunkHeader, drain};
use crate::pipe::{choose, fill_next, publish};
use crate::ring::Hostile;
use crate::wire::Kind;

/// Chunks moved for one peer before others get their turn.
const TURN: u32 = 64;

/// What a chunk calls its slot.
fn target(name: u32, index: u32) -> u64 {
    u64::from(name) << 32 | u64::from(index)
}

impl Shm {
    /// Delivers `bytes` bytes of data through the pipe.
    pub(super) fn begin_flow(
        &mut self,
        slot: Slot,
        data: &Data,
        bytes: u64,
        immediate: u32,
    ) -> Result<Delivery, SlotError> {
        let peer = slot.peer.0;
        let pipes = self.outward_pipes(peer)?;
        if !pipes.space.is_clear() && pipes.refresh().is_err() {
            self.suspect(peer);
            return Err(SlotError::PeerFailed);
        }
        let table = self.slots.tables.get(slot.table.0 as usize);
        let table = table.and_then(Option::as_ref);
        let target = target(table.ok_or(SlotError::NoSuchSlot)?.name, slot.index);
        let landing = Landing {
            way: Way::Pipe,
            sent: data.len().min(LONGEST),
            immediate,
        };
        let (mut reader, chunk) = (data.reader(), chunking::here().chunk(bytes));
        let part = (bytes, chunk, target);
        if bytes <= chunk && self.deliver_whole(slot, landing, &mut reader, part) {
            return Ok(Delivery::Done { bytes });
        }
        let flow = Flow {
            place: place(slot),
            target,
            reader,
            bytes,
            chunk,
        };
        let link = &mut self.slots.links[peer as usize];
        link.flows.push_back(flow);
        let alone = link.flows.len() == 1;
        // Chunks may be seen as soon as they are published, so the landing has to be there; but the receiver, which looks
        // for it, should find both.
        let filled = if alone { self.fill_chunk(peer) } else { None };
        self.land(slot, landing, [0; 3]);
        if let Some(header) = filled {
            self.publish_chunk(peer, header);
            self.pump_flows(peer);
        }
        if self.slots.links[peer as usize].flows.is_empty() {
            return Ok(Delivery::Done { bytes });
        }
        self.deliver_later(slot);
        let pair = self.slots.pair(slot.table.0, peer);
        let side = pair.and_then(|p| p.sides.get(slot.index as usize));
        let generation = side.map_or(0, |s| u64::from(s.consumed.get()));
        self.control(peer, Kind::SlotStream, [target, generation, 0, 0]);
        Ok(Delivery::Pending)
    }

    /// Delivers what fits into one chunk, if there is room for it and no stream is under way. False: nothing was delivered.
    fn deliver_whole(
        &mut self,
        slot: Slot,
        landing: Landing,
        reader: &mut Reader,
        part: (u64, u64, u64),
    ) -> bool {
        let link = &mut self.slots.links[slot.peer.index()];
        let (true, Some(pipes)) = (link.flows.is_empty(), &mut link.pipes) else {
            return false;
        };
        choose(&mut pipes.space, &mut pipes.common);
        let (lane, number, consumed) = (pipes.out, pipes.space.next(), pipes.consumed);
        let ways = (&pipes.space, &mut pipes.common);
        let Some(header) = fill_next(lane, ways, reader, part) else {
            return false;
        };
        let [about, place] = header.words(number);
        debug_assert_eq!(header.len as u64, part.0, "what fits into a chunk is one");
        self.land(slot, landing, [about, place, consumed.into()]);
        if let Some(pipes) = &mut self.slots.links[slot.peer.index()].pipes {
            publish(lane, &mut pipes.space, header);
        }
        true
    }

    /// Takes a message that came as a whole, if the landing of its posted receive tells of the chunk that is next. `None`: nothing was done.
    pub(super) fn take_whole(
        &mut self,
        slot: Slot,
        landing: Landing,
        [about, place, drained]: Payload,
    ) -> Option<Landed> {
        let link = &mut self.slots.links[slot.peer.index()];
        let (None, Some(pipes)) = (&link.sink, &mut link.pipes) else {
            return None;
        };
        let table = self.slots.tables.get_mut(slot.table.0 as usize)?.as_mut()?;
        let (_, receive, side) = table.pairs[slot.peer.index()].taking(slot.index)?;
        let target = target(table.name, slot.index);
        let header = ChunkHeader::of_words([about, place], pipes.consumed, target)?;
        pipes.hear(drained as u32);
        let capacity = receive.memory.len();
        if header.len as u64 != landing.sent.min(capacity) {
            return None;
        }
        let mut to = receive.memory.writer();
        receive.end(side);
        let (common, lane) = (&mut pipes.common, pipes.inward);
        common.drain(lane, header, |bytes| drain(bytes, &mut to));
        pipes.consumed = pipes.consumed.wrapping_add(1);
        lane.set_drained(pipes.consumed);
        self.ports[slot.peer].bell.get().ring();
        Some(outcome(landing, capacity))
    }

    /// Moves streams to a peer on. Returns whether anything moved.
    pub(super) fn pump_flows(&mut self, peer: u32) -> bool {
        let mut moved = false;
        for _ in 0..TURN {
            let Some(header) = self.fill_chunk(peer) else {
                break;
            };
            self.publish_chunk(peer, header);
            moved = true;
        }
        moved
    }

    /// Copies the next bytes that go to a peer into the next chunk, if there is room for it.
    fn fill_chunk(&mut self, peer: u32) -> Option<ChunkHeader> {
        let link = &mut self.slots.links[peer as usize];
        let (Some(flow), Some(pipes)) = (link.flows.front_mut(), &mut link.pipes) else {
            return None;
        };
        choose(&mut pipes.space, &mut pipes.common);
        let part = (flow.bytes - flow.reader.position(), flow.chunk, flow.target);
        let ways = (&pipes.space, &mut pipes.common);
        let mut filled = fill_next(pipes.out, ways, &mut flow.reader, part);
        if filled.is_none() {
            if pipes.refresh().is_err() {
                self.suspect(peer);
                return None;
            }
            let ways = (&pipes.space, &mut pipes.common);
            filled = fill_next(pipes.out, ways, &mut flow.reader, part);
        }
        pipes.blocked = filled.is_none();
        filled
    }

    /// Publishes the chunk that was filled.
    fn publish_chunk(&mut self, peer: u32, header: ChunkHeader) {
        let link = &mut self.slots.links[peer as usize];
        let (Some(flow), Some(pipes)) = (link.flows.front_mut(), &mut link.pipes) else {
            return;
        };
        publish(pipes.out, &mut pipes.space, header);
        if flow.reader.position() == flow.bytes {
            let (place, bytes) = (flow.place, flow.bytes);
            link.flows.pop_front();
            self.end_delivery(peer, place, Delivery::Done { bytes });
        }
        self.ports[peer].bell.get().ring();
    }

    /// Whether a stream to or from a peer can go on.
    pub(super) fn flows_ready(&self, peer: u32) -> bool {
        let link = &self.slots.links[peer as usize];
        let Some(pipes) = &link.pipes else {
            return false;
        };
        let out = !link.flows.is_empty()
            && (!pipes.blocked || pipes.out.drained() != pipes.space.drained());
        let inward = (link.sink.is_some() || !link.announced.is_empty())
            && pipes.inward.chunk_ready(pipes.consumed);
        out || inward
    }

    /// Takes the chunks that a peer's pipe holds. Returns whether there were any.
    pub(super) fn drain_flows(&mut self, peer: u32) -> Result<bool, Hostile> {
        let mut moved = false;
        for _ in 0..TURN {
            // They are there since the first receive was posted.
            let Some(pipes) = &self.slots.links[peer as usize].pipes else {
                break;
            };
            if !pipes.inward.chunk_ready(pipes.consumed) {
                break;
            }
            let header = pipes.inward.read_chunk_header(pipes.consumed)?;
            let sink = self.slots.links[peer as usize].sink.as_ref();
            if sink.is_none_or(|s| s.target != header.target) {
                self.begin_sink(peer, header.target)?;
            }
            self.take_chunk_of(peer, header)?;
            moved = true;
        }
        Ok(moved)
    }

    /// The next chunk is the first of another stream.
    fn begin_sink(&mut self, peer: u32, target: u64) -> Result<(), Hostile> {
        if self.slots.links[peer as usize].sink.is_some() {
            // The stream before is not complete.
            return Err(Hostile);
        }
        let table = self.slots.named((target >> 32) as u32).ok_or(Hostile)?;
        let index = target as u32;
        self.find_theirs(table, peer);
        let pair = self.slots.pair(table, peer).ok_or(Hostile)?;
        let (theirs, receive, side) = pair.taking(index).ok_or(Hostile)?;
        let line = theirs.ok_or(Hostile)?.line(index);
        if receive.state != Receiving::Posted || !line.has_landed(side.generation.get()) {
            return Err(Hostile);
        }
        let landing = line.landing()?;
        let capacity = receive.memory.len();
        let bytes = landing.sent.min(capacity);
        if landing.way != Way::Pipe || bytes == 0 {
            return Err(Hostile);
        }
        receive.state = Receiving::Streams;
        let sink = Sink {
            place: Place { table, index },
            target,
            writer: receive.memory.writer(),
            bytes,
            arrived: 0,
            landed: outcome(landing, capacity),
        };
        self.slots.links[peer as usize].sink = Some(sink);
        self.slots.mark_busy(peer);
        Ok(())
    }

    /// Copies the next chunk to where its stream goes.
    fn take_chunk_of(&mut self, peer: u32, header: ChunkHeader) -> Result<(), Hostile> {
        let len = header.len;
        let link = &mut self.slots.links[peer as usize];
        let (Some(sink), Some(pipes)) = (&mut link.sink, &mut link.pipes) else {
            return Err(Hostile);
        };
        if len as u64 > sink.bytes - sink.arrived {
            return Err(Hostile);
        }
        let (common, lane) = (&mut pipes.common, pipes.inward);
        common.drain(lane, header, |bytes| drain(bytes, &mut sink.writer));
        sink.arrived += len as u64;
        pipes.consumed = pipes.consumed.wrapping_add(1);
        lane.set_drained(pipes.consumed);
        if sink.arrived == sink.bytes {
            let (place, landed) = (sink.place, sink.landed);
            link.sink = None;
            link.announced.retain(|a| *a != place);
            self.end_receive(place, peer, landed);
        }
        self.ports[peer].bell.get().ring();
        Ok(())
    }

    /// A peer says that a stream needs more than one turn.
    pub(crate) fn take_slot_stream(&mut self, peer: u32, target: u64, generation: u64) {
        let Some(table) = self.slots.named((target >> 32) as u32) else {
            return;
        };
        let index = target as u32;
        let place = Place { table, index };
        let Some((receive, side)) = self.slots.receive(place, peer) else {
            return;
        };
        // It may be over by now.
        let open = matches!(receive.state, Receiving::Posted | Receiving::Streams);
        if !open || u64::from(side.generation.get()) != generation {
            return;
        }
        let announced = &mut self.slots.links[peer as usize].announced;
        if !announced.contains(&place) {
            announced.push(place);
        }
        self.slots.mark_busy(peer);
    }
}
