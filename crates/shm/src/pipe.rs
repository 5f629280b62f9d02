//! Through the pipe: long messages, chunk by chunk, out and in. Either through the direction's own or through one of both ([`common`](crate::common)).
//!
//! How the next chunk is chosen, filled and published stands here for the streams of slots as well, which have pipes of their own.

use layout::Reader;
use mtmi::{Outcome, Queues};

use crate::Shm;
use crate::chunking;
use crate::common::Common;
use crate::lane::{CHUNK, ChunkHeader, Lane, drain};
use crate::port::Port;
use crate::ring::Hostile;
use crate::space::{Space, length};
use crate::state::{Sending, Sink};

/// The target of chunks that come with an announcement.
pub(crate) const EARLY: u64 = u64::MAX;
/// Chunks moved for one peer before the next peer gets its turn.
const TURN: u32 = 16;
/// Looks for the next chunk of a message whose sender is copying it: about what it takes to copy one.
const LOOKS: u32 = 32;

/// Copies the next of the `left` bytes of `reader` into the next chunk: where, and how many. `None`: there is no room for it now.
#[inline]
fn fill<const ROOM: usize>(
    mut lane: Lane<ROOM>,
    space: &Space,
    reader: &mut Reader,
    left: u64,
    chunk: u64,
) -> Option<(usize, usize)> {
    let place = lane.place(reader);
    let len = length(left, chunk, place.unwrap_or(0));
    let start = space.find(place, len)?;
    // Also what was asked for ahead: the consumer's cache may have read on into it since.
    lane.own_chunk(space.next(), start, chunking::here().own(len));
    lane.fill_chunk(start, len, reader);
    Some((start, len))
}

/// Copies the next bytes of `reader` into the next chunk. `left` are to be sent with this target, in chunks of `chunk` bytes. `None`: there is no room
/// for it now. What is returned is to be [published](publish) before anything else is filled.
#[inline]
pub(crate) fn fill_next(
    lane: Lane,
    (space, common): (&Space, &mut Common),
    reader: &mut Reader,
    (left, chunk, target): (u64, u64, u64),
) -> Option<ChunkHeader> {
    let (start, len) = match space.area() {
        None => fill(lane, space, reader, left, chunk)?,
        Some(area) => fill(common.out(area), space, reader, left, chunk)?,
    };
    Some(ChunkHeader {
        start,
        len,
        target,
        whose: common.place(len as u64 == left),
    })
}

/// Publishes a chunk that was filled, without the bell.
#[inline]
pub(crate) fn publish(lane: Lane, space: &mut Space, header: ChunkHeader) {
    lane.publish_chunk(space.next(), header);
    space.take(header.start, header.len);
}

/// Copies the next bytes of `reader` into the next chunk and publishes it: how many.
#[inline]
fn push(
    port: &Port,
    (space, common): (&mut Space, &mut Common),
    reader: &mut Reader,
    part: (u64, u64, u64),
) -> Option<u64> {
    let header = fill_next(port.lane, (space, common), reader, part)?;
    publish(port.lane, space, header);
    Some(header.len as u64)
}

/// Bytes of a chunk of a message of `total` bytes that begins now.
#[inline]
pub(crate) fn chunk_of(space: &Space, total: u64) -> u64 {
    match space.is_clear() {
        true => chunking::here().chunk(total),
        false => chunking::here().behind(total),
    }
}

/// Chooses the pipe for the next chunks of a message.
#[inline]
pub(crate) fn choose(space: &mut Space, common: &mut Common) {
    if common.is_open() {
        return;
    }
    let begun = match chunking::here().common {
        true => common.begin(),
        false => None,
    };
    match begun {
        Some((area, start)) => space.go(Some(area), start),
        None => space.go(None, None),
    }
}

impl Shm {
    /// Takes up what a peer gave back of the pipe to it. Returns whether it is one that keeps to the protocol.
    fn refresh_space(&mut self, to: u32) -> bool {
        let drained = self.ports[to].lane.drained();
        let known = self.peers[to as usize].space.refresh(drained);
        if known.is_err() {
            self.suspect(to);
        }
        known.is_ok()
    }

    /// Chooses where the first `early` bytes of a message go, before a receive is known. False: there is no room for all of them at once, or others wait for it.
    pub(crate) fn begin_early(&mut self, to: u32, early: u64) -> bool {
        let drained = self.ports[to].lane.drained();
        let peer = &mut self.peers[to as usize];
        // Who says anything impossible is found out by what has to wait for it.
        if !peer.streams.is_empty() || peer.space.refresh(drained).is_err() {
            return false;
        }
        choose(&mut peer.space, &mut peer.common);
        peer.space.begin(early as usize)
    }

    /// Whether a stream to a peer can go on.
    #[inline]
    pub(crate) fn stream_ready(&self, to: u32) -> bool {
        let peer = &self.peers[to as usize];
        !peer.streams.is_empty()
            && (!peer.blocked || self.ports[to].lane.drained() != peer.space.drained())
    }

    /// Whether a chunk from a peer has come.
    #[inline]
    pub(crate) fn chunk_ready(&self, from: u32) -> bool {
        let peer = &self.peers[from as usize];
        peer.due > 0 && peer.inward.chunk_ready(peer.consumed)
    }

    /// Copies the next bytes of a send, up to byte `until`, into the next chunk and publishes it. False: there is no room for it now.
    fn push_chunk(&mut self, id: u64, to: u32, target: u64, until: u64) -> bool {
        let (Some(send), Some(peer)) = (self.sends.get(id), self.peers.get_mut(to as usize)) else {
            return false;
        };
        let (space, common, left) = (&mut peer.space, &mut peer.common, until - send.sent);
        choose(space, common);
        let reader = send.reader.get_or_insert_with(|| send.data.reader());
        if send.chunk == 0 {
            send.chunk = chunk_of(space, send.total);
        }
        let part = (left, send.chunk, target);
        let pushed = push(&self.ports[to], (space, common), reader, part);
        send.sent += pushed.unwrap_or(0);
        if pushed.is_some() {
            self.ports[to].bell.get().ring();
        }
        pushed.is_some()
    }

    /// Sends the first `early` bytes of a message of `total`, those that are next in `reader`, through the pipe, in which their place was
    /// [begun](Shm::begin_early) if there are any, and rings for them and for their announcement.
    pub(crate) fn push_early(&mut self, to: u32, reader: &mut Reader, early: u64, total: u64) {
        // Where processes share processors the peer may need this one, and what it would do first is wait for what is copied here: with 4 ranks on 2
        // processors 4 KiB take 2.7 us in place of 3.4 so, 16 KiB 3.4 in place of 4.7.
        let quiet = match self.shares_processors() {
            true => early.min(CHUNK as u64),
            false => 0,
        };
        let (port, peer) = (&self.ports[to], &mut self.peers[to as usize]);
        let (space, common) = (&mut peer.space, &mut peer.common);
        let chunk = chunk_of(space, total);
        if quiet == 0 {
            port.bell.get().ring();
        }
        let mut sent = 0;
        while sent < early
            && let Some(pushed) = push(
                port,
                (&mut *space, &mut *common),
                reader,
                (early - sent, chunk, EARLY),
            )
        {
            sent += pushed;
            if sent >= quiet {
                port.bell.get().ring();
            }
        }
        if sent < quiet {
            port.bell.get().ring();
        }
        if early == total {
            self.has_copied(to, total);
        }
    }

    /// Asks for what a message like the one before, of `total` bytes, would have first of the pipe.
    pub(crate) fn own_ahead(&mut self, to: u32, total: u64) {
        let space = &self.peers[to as usize].space;
        let len = chunking::here().own_ahead(total);
        if len > 0
            && let Some(start) = space.own_ahead(total as usize, len)
        {
            self.ports[to].lane.own_chunk(space.next(), start, len);
        }
    }

    /// Moves the streams to a peer on. Returns whether anything moved.
    pub(crate) fn pump_streams(&mut self, queues: &mut Queues, to: u32) -> bool {
        let mut moved = false;
        for _ in 0..TURN {
            let Some(&id) = self.peers[to as usize].streams.front() else {
                break;
            };
            if !self.refresh_space(to) {
                break;
            }
            if let Some(send) = self.sends.get(id)
                && let Sending::Streams { target, until } = send.state
                && send.sent < until
            {
                let pushed = self.push_chunk(id, to, target, until);
                self.peers[to as usize].blocked = !pushed;
                if !pushed {
                    break;
                }
                moved = true;
                if self.sends.get(id).is_some_and(|s| s.sent < until) {
                    continue;
                }
            }
            moved = true;
            self.peers[to as usize].streams.pop_front();
            self.end_send(queues, id, Outcome::Done);
        }
        moved
    }

    /// Ends a send: its completion comes with the next `progress`.
    pub(crate) fn end_send(&mut self, queues: &mut Queues, id: u64, outcome: Outcome) {
        if let Some(send) = self.sends.remove(id) {
            queues.done.push(send.completion(outcome));
        }
    }

    /// Whether a chunk from a peer has come, or comes within a moment, as the rest of an early message does that somebody waits for.
    fn chunk_comes(&mut self, from: u32) -> bool {
        if self.chunk_ready(from) {
            return true;
        }
        let first = self.peers[from as usize].early.front();
        let first = first.and_then(|&id| self.announced.get(id));
        let awaited = first.is_some_and(|m| matches!(m.sink, Sink::User { .. }));
        awaited
            && !self.shares_processors()
            && (0..LOOKS).any(|_| {
                sys::copy::pause();
                self.chunk_ready(from)
            })
    }

    /// Takes the chunks that a peer's pipe holds. Returns whether there were any.
    pub(crate) fn drain_pipe(&mut self, queues: &mut Queues, from: u32) -> Result<bool, Hostile> {
        let moved = self.drain_chunks(queues, from);
        // Whoever learns of what has ended does so behind this.
        self.footprint.settle();
        moved
    }

    fn drain_chunks(&mut self, queues: &mut Queues, from: u32) -> Result<bool, Hostile> {
        let mut moved = false;
        for _ in 0..TURN {
            if !self.chunk_comes(from) {
                break;
            }
            let peer = &mut self.peers[from as usize];
            let header = peer.inward.read_chunk_header(peer.consumed)?;
            let id = match header.target {
                EARLY => self.next_early(queues, from)?,
                id => id,
            };
            self.take_chunk(from, id, header)?;
            let peer = &mut self.peers[from as usize];
            peer.consumed = peer.consumed.wrapping_add(1);
            peer.inward.set_drained(peer.consumed);
            self.ports[from].bell.get().ring();
            moved = true;
            self.end_announced(queues, id);
        }
        Ok(moved)
    }

    /// The message of a chunk that comes with an announcement. That was published before, maybe
    /// after our last look at the ring.
    fn next_early(&mut self, queues: &mut Queues, from: u32) -> Result<u64, Hostile> {
        loop {
            if let Some(&id) = self.peers[from as usize].early.front() {
                return Ok(id);
            }
            let slot = self.inward.iter().position(|&i| i == from);
            if !self.drain_ring(queues, slot.ok_or(Hostile)?) || !self.suspects.is_empty() {
                return Err(Hostile);
            }
        }
    }

    /// Copies the chunk that is next to where its message goes.
    fn take_chunk(&mut self, from: u32, id: u64, header: ChunkHeader) -> Result<(), Hostile> {
        let peer = &mut self.peers[from as usize];
        let message = self.announced.get(id).ok_or(Hostile)?;
        let len = header.len as u64;
        let early = header.target == EARLY;
        let limit = if early {
            message.early
        } else {
            message.expected
        };
        let fits = len <= limit.saturating_sub(message.arrived) && len <= peer.due;
        let in_turn = early || message.arrived >= message.early;
        if message.from != from || !fits || !in_turn {
            return Err(Hostile);
        }
        let (sink, past) = (&mut message.sink, message.past);
        let footprint = &mut self.footprint;
        peer.common.drain(peer.inward, header, |bytes| match sink {
            Sink::Heap(buffer) => buffer.extend_from_slice(bytes),
            Sink::User { writer, .. } if past => footprint.drain(bytes, writer),
            Sink::User { writer, .. } => drain(bytes, writer),
            Sink::Drop => {}
        });
        message.arrived += len;
        peer.due -= len;
        if early && message.arrived == message.early {
            peer.early.pop_front();
        }
        Ok(())
    }

    /// Ends an announced message if all that is to come has come and somebody waits for it.
    pub(crate) fn end_announced(&mut self, queues: &mut Queues, id: u64) {
        let Some(message) = self.announced.get(id) else {
            return;
        };
        if message.arrived < message.expected {
            return;
        }
        match message.sink {
            Sink::Heap(_) => return,
            Sink::User {
                cookie, capacity, ..
            } => {
                let completion = message.completion(cookie, capacity);
                queues.done.push(completion);
            }
            Sink::Drop => {}
        }
        if let Some(message) = self.announced.remove(id) {
            self.learn(&message);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn behind_others_chunks_are_longer() {
        let (mut space, here) = (Space::new(), chunking::here());
        for total in [5000, 16_384, 65_536, 1 << 20] {
            assert_eq!(chunk_of(&space, total), here.chunk(total));
            assert!(space.begin(100));
            space.take(0, 100);
            assert_eq!(chunk_of(&space, total), here.behind(total));
            space.refresh(space.next()).unwrap();
        }
    }
}
