//! Through the pipe: long messages, chunk by chunk, out and in.

use mtmi::{Outcome, Queues};

use crate::Shm;
use crate::lane::{CHUNK, CHUNKS, ChunkHeader, drain};
use crate::ring::Hostile;
use crate::state::{Sending, Sink};

/// The target of chunks that come with an announcement.
const EARLY: u64 = u64::MAX;
/// Smallest chunk. Messages that fit into a pipe go in as many chunks as that has, so that both sides copy at once.
pub(crate) const CHUNK_MIN: u64 = 4 << 10;
/// Chunks moved for one peer before the next peer gets its turn.
const TURN: u32 = 16;

/// Bytes of a chunk of a message of `total` bytes.
pub(crate) fn chunk(total: u64) -> u64 {
    let part = total.div_ceil(CHUNKS.into()).next_multiple_of(64);
    part.clamp(CHUNK_MIN, CHUNK as u64)
}

impl Shm {
    /// Free chunks of the pipe to a peer.
    #[inline]
    fn free_chunks(&self, to: u32) -> Result<u32, Hostile> {
        let used = self.peers[to as usize]
            .produced
            .wrapping_sub(self.ports[to].lane.drained());
        CHUNKS.checked_sub(used).ok_or(Hostile)
    }

    /// Whether nothing is in the pipe to a peer, and nothing waits for it.
    pub(crate) fn pipe_idle(&self, to: u32) -> bool {
        self.peers[to as usize].streams.is_empty() && self.free_chunks(to) == Ok(CHUNKS)
    }

    /// Whether a stream to a peer can go on.
    #[inline]
    pub(crate) fn stream_ready(&self, to: u32) -> bool {
        !self.peers[to as usize].streams.is_empty() && self.free_chunks(to) != Ok(0)
    }

    /// Whether a chunk from a peer has come.
    #[inline]
    pub(crate) fn chunk_ready(&self, from: u32) -> bool {
        let peer = &self.peers[from as usize];
        peer.due > 0 && peer.inward.chunk_ready(peer.consumed)
    }

    /// Copies the next bytes of a send into the next chunk and publishes it.
    fn push_chunk(&mut self, id: u64, to: u32, target: u64, until: u64) {
        let (Some(send), Some(peer)) = (self.sends.get(id), self.peers.get_mut(to as usize)) else {
            return;
        };
        let len = (until - send.sent).min(send.chunk) as usize;
        let reader = send.reader.get_or_insert_with(|| send.data.reader());
        let mut lane = self.ports[to].lane;
        let start = lane.fill_chunk(peer.produced, len, reader);
        send.sent += len as u64;
        let header = ChunkHeader { start, len, target };
        lane.publish_chunk(peer.produced, header);
        peer.produced = peer.produced.wrapping_add(1);
        self.ports[to].bell.get().ring();
    }

    /// Sends the first `early` bytes of a send through the idle pipe, where they fit.
    pub(crate) fn push_early(&mut self, id: u64, to: u32, early: u64) {
        while self.sends.get(id).is_some_and(|s| s.sent < early) {
            self.push_chunk(id, to, EARLY, early);
        }
    }

    /// Moves the streams to a peer on. Returns whether anything moved.
    pub(crate) fn pump_streams(&mut self, queues: &mut Queues, to: u32) -> bool {
        let mut moved = false;
        for _ in 0..TURN {
            let Some(&id) = self.peers[to as usize].streams.front() else {
                break;
            };
            match self.free_chunks(to) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Hostile) => {
                    self.suspect(to);
                    break;
                }
            }
            moved = true;
            if let Some(send) = self.sends.get(id)
                && let Sending::Streams { target, until } = send.state
                && send.sent < until
            {
                self.push_chunk(id, to, target, until);
                if self.sends.get(id).is_some_and(|s| s.sent < until) {
                    continue;
                }
            }
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

    /// Takes the chunks that a peer's pipe holds. Returns whether there were any.
    pub(crate) fn drain_pipe(&mut self, queues: &mut Queues, from: u32) -> Result<bool, Hostile> {
        let mut moved = false;
        for _ in 0..TURN {
            if !self.chunk_ready(from) {
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
        let sink = &mut message.sink;
        peer.inward
            .drain_chunk(peer.consumed, header, |bytes| match sink {
                Sink::Heap(buffer) => buffer.extend_from_slice(bytes),
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
        self.announced.remove(id);
    }
}
