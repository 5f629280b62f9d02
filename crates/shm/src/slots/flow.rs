//! Deliveries through a pipe, for memory that the sender can't reach: as many chunks at a time as long messages use.
//!
//! Streams of a pair follow each other. Each chunk names its slot, so the receiver can take whatever is in the pipe at any
//! time, whichever slot is looked at: a slot that nobody looks at holds up no other. A stream that doesn't fit at once is
//! announced in the ring, so that the receiver's progress drains it.
//!
//! What fits into one chunk, while no stream is under way, is told of by the landing too, and what its sender has taken: who looks for that has it without
//! a look at the chunk's header, and answers without one at what was given back.

use layout::{Data, Reader};
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable};
use mtmi::{Endpoint, SendMode};

use super::line::{LONGEST, Landing, Payload, Way};
use super::receive::{outcome, place};
use super::table::{Flow, Place, Receiving, Sink};
use crate::Shm;
use crate::chunking;
use crate::direct;
use crate::lane::{ChunkHeader, drain};
use crate::pipe::{choose, chunk_of, fill_next, publish};
use crate::ring::Hostile;
use crate::trial;
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
        let chunk = chunk_of(&pipes.space, bytes);
        let table = self.slots.tables.get(slot.table.0 as usize);
        let table = table.and_then(Option::as_ref);
        let target = target(table.ok_or(SlotError::NoSuchSlot)?.name, slot.index);
        let landing = Landing {
            way: Way::Pipe,
            sent: data.len().min(LONGEST),
            immediate,
        };
        // Only what might be lent as well is measured, and only where nothing else is under way.
        let since = match self.is_alone(peer) && data.contiguous().is_some() {
            true => self.begins(bytes),
            false => 0,
        };
        self.introduce(peer, bytes);
        self.count_sent(peer, bytes, SendMode::Standard);
        let mut reader = data.reader();
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
        self.land(slot, landing, [0, 0, since]);
        if let Some(header) = filled {
            self.publish_chunk(peer, header);
            self.pump_flows(peer);
        }
        if self.slots.links[peer as usize].flows.is_empty() {
            return Ok(Delivery::Done { bytes });
        }
        self.deliver_later(slot);
        self.announce_stream(peer, place(slot), target);
        Ok(Delivery::Pending)
    }

    /// Whether nothing else is under way to a peer.
    fn is_alone(&self, peer: u32) -> bool {
        let link = &self.slots.links[peer as usize];
        link.flows.is_empty() && link.split.is_none()
    }

    /// Has a peer look at a slot of its own accord: what comes there is not over.
    pub(super) fn announce_stream(&mut self, peer: u32, place: Place, target: u64) {
        let generation = self.consumed(peer, place);
        self.control(peer, Kind::SlotStream, [target, generation, 0, 0]);
    }

    /// The generation of the receive that a slot's last delivery went to.
    fn consumed(&mut self, peer: u32, place: Place) -> u64 {
        let pair = self.slots.pair(place.table, peer);
        let side = pair.and_then(|p| p.sides.get(place.index as usize));
        side.map_or(0, |s| s.consumed.get().into())
    }

    /// What a peer calls a slot.
    pub(super) fn target_of(&self, place: Place) -> Option<u64> {
        let table = self.slots.tables.get(place.table as usize)?.as_ref()?;
        Some(target(table.name, place.index))
    }

    /// The receiver of data that were lent asks for them as a stream: the system has refused a copy to it, or to this process.
    pub(crate) fn take_slot_again(
        &mut self,
        peer: u32,
        target: u64,
        generation: u64,
    ) -> Result<(), Hostile> {
        let link = self.slots.links.get(peer as usize).ok_or(Hostile)?;
        let split = link.split.as_ref().ok_or(Hostile)?;
        let (place, bytes) = (split.place, split.cut.bytes);
        let data = split.lent.clone().ok_or(Hostile)?;
        if self.target_of(place) != Some(target) || self.consumed(peer, place) != generation {
            return Err(Hostile);
        }
        // The copy's words are in front of the pipe, so that is there.
        let link = &mut self.slots.links[peer as usize];
        link.split = None;
        link.flows.push_back(Flow {
            place,
            target,
            reader: data.reader(),
            bytes,
            chunk: chunking::here().chunk(bytes),
        });
        self.slots.mark_busy(peer);
        self.announce_stream(peer, place, target);
        Ok(())
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
        let capacity = receive.memory.len();
        if header.len as u64 != landing.sent.min(capacity) {
            return None;
        }
        pipes.hear(drained as u32);
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
        if !line.has_landed(side.generation.get()) {
            return Err(Hostile);
        }
        let landing = line.landing()?;
        match (receive.state, landing.way) {
            (Receiving::Posted, Way::Pipe) | (Receiving::Again, Way::Lent) => {}
            _ => return Err(Hostile),
        }
        let capacity = receive.memory.len();
        let bytes = landing.sent.min(capacity);
        if bytes == 0 {
            return Err(Hostile);
        }
        // Of one that is a chunk the landing says something else.
        let tells = landing.way == Way::Pipe && bytes >= direct::SHORTEST && receive.awaited;
        let since = if tells { line.payload()[2] } else { 0 };
        receive.state = Receiving::Streams;
        let sink = Sink {
            place: Place { table, index },
            target,
            writer: receive.memory.writer(),
            bytes,
            arrived: 0,
            landed: outcome(landing, capacity),
            since,
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
            let (bytes, since) = (sink.bytes, sink.since);
            link.sink = None;
            link.announced.retain(|a| *a != place);
            self.measured(peer, bytes, trial::Way::Pipe, since);
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
        let open = matches!(
            receive.state,
            Receiving::Posted | Receiving::Streams | Receiving::Splits | Receiving::Again
        );
        if !open || u64::from(side.generation.get()) != generation {
            return;
        }
        let announced = &mut self.slots.links[peer as usize].announced;
        if !announced.contains(&place) {
            announced.push(place);
        }
        self.slots.mark_busy(peer);
        // Data that were lent may have to be asked for.
        self.settle(Slot {
            table: SlotTable(table),
            peer: Endpoint(peer),
            index,
        });
    }
}
