//! Shared memory as a fabric.

use std::time::Instant;

use boundary::UserBuf;
use layout::Data;
use mtmi::{Context, Cookie, Endpoint, Fabric, Limits, Outgoing, Queues, Receive, Submit, TagSel};

use crate::Shm;
use crate::lane::WINDOW;
use crate::waiting::Sleeper;
use crate::wire::{INLINE, Kind};

impl Fabric for Shm {
    type Sleeper = Sleeper;

    fn endpoint(&self) -> Endpoint {
        Endpoint(self.me)
    }

    fn limits(&self) -> Limits {
        Limits {
            tag_bits: 32,
            context_bits: 32,
            inline_bytes: INLINE,
            eager_bytes: WINDOW,
            unmatched_bytes: WINDOW,
            endpoints: self.peers.len() as u32,
        }
    }

    fn connect(&mut self, to: Endpoint) {
        // While messages wait for room the peer knows of us, and a look at the credit would let others overtake them.
        let waits = self
            .peers
            .get(to.index())
            .is_some_and(|p| !p.queue.is_empty());
        if !self.failed(to) && to.0 != self.me && !waits {
            self.room(to.0, INLINE);
        }
    }

    #[inline]
    fn failed(&self, peer: Endpoint) -> bool {
        self.peers.get(peer.index()).is_none_or(|p| p.failed)
    }

    #[inline]
    fn send(&mut self, _queues: &mut Queues, message: Outgoing) -> Submit {
        self.start_send(message)
    }

    #[inline]
    fn send_at_once(&mut self, _queues: &mut Queues, message: &Outgoing) -> bool {
        self.send_whole(message)
    }

    #[inline]
    fn send_to_all(
        &mut self,
        _queues: &mut Queues,
        to: impl Iterator<Item = Endpoint> + Clone,
        address: (Context, i32),
        data: &Data,
    ) -> bool {
        self.share(to, address, data)
    }

    #[inline]
    fn receive_coming(
        &mut self,
        from: Endpoint,
        wanted: (Context, TagSel),
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        self.take_coming(from.0, wanted, to)
    }

    fn cancel_send(&mut self, queues: &mut Queues, cookie: Cookie) -> bool {
        self.cancel_sent(queues, cookie)
    }

    fn partial_bytes(&mut self, _source: Endpoint, name: u64) -> Option<u64> {
        self.announced.get(name).map(|m| m.total)
    }

    fn claim(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        name: u64,
        receive: Receive,
    ) -> Submit {
        self.satisfy_announced(queues, source, tag, name, receive)
    }

    #[inline]
    fn matched(
        &mut self,
        _queues: &mut Queues,
        source: Endpoint,
        _bytes: u64,
        synchronous: Option<u64>,
    ) {
        if let Some(name) = synchronous {
            self.control(source.0, Kind::Matched, [name, 0, 0, 0]);
        }
    }

    #[inline]
    fn progress(&mut self, queues: &mut Queues) -> bool {
        self.absence.looks(sys::clock::cycles);
        let mut moved = self.has_news() && self.find_senders();
        for slot in 0..self.inward.len() {
            moved |= self.drain_ring(queues, slot);
        }
        // Read before they are served: if that was the last of them, `leave` has to note that nothing is under way any more.
        let looked = !self.busy.is_empty();
        if looked {
            moved |= self.serve_busy(queues);
        }
        if !self.slots.busy.is_empty() {
            moved |= self.serve_slots();
        }
        if !self.suspects.is_empty() {
            moved |= self.fail_suspects(queues);
        }
        if looked {
            self.leave();
        }
        moved
    }

    fn ready(&self) -> bool {
        self.has_work()
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        self.wait_for_work(deadline);
        if !self.busy.is_empty() {
            self.leave();
        }
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper::of(self)
    }

    fn peer_failed(&mut self, queues: &mut Queues, peer: Endpoint) {
        if self.failed(peer) || peer.0 == self.me {
            return;
        }
        // What it sent before it failed counts.
        self.find_senders();
        while let Some(slot) = self.inward.iter().position(|&i| i == peer.0)
            && self.suspects.is_empty()
            && (self.drain_ring(queues, slot) || self.chunk_ready(peer.0))
        {
            if self.drain_pipe(queues, peer.0).is_err() {
                break;
            }
        }
        self.end_split_of_gone(queues, peer.0);
        self.fail(queues, peer.0);
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        self.failures.pop_front()
    }

    fn flushed(&self) -> bool {
        let idle = |&p: &u32| {
            let peer = &self.peers[p as usize];
            peer.queue.is_empty() && peer.streams.is_empty()
        };
        self.sends.is_empty() && self.slots.pending == 0 && self.busy.iter().all(idle)
    }

    /// What was sent lies in memory that the receiver maps: nothing has to be told.
    fn close(&mut self) {}
}

impl Shm {
    /// The processes of the segment, in order.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// A look for messages ends, or a wait for them; what the caller does next may take long.
    fn leave(&mut self) {
        let under_way = !self.busy.is_empty();
        self.absence.leaves(sys::clock::cycles(), under_way);
    }

    /// Serves the peers for which more than the ring matters.
    fn serve_busy(&mut self, queues: &mut Queues) -> bool {
        let mut moved = false;
        let mut i = 0;
        while let Some(&peer) = self.busy.get(i) {
            if self.queue_ready(peer) {
                moved |= self.pump_queue(queues, peer);
            }
            if self.stream_ready(peer) {
                moved |= self.pump_streams(queues, peer);
            }
            match self.drain_pipe(queues, peer) {
                Ok(some) => moved |= some,
                Err(_) => self.suspect(peer),
            }
            match self.copy_mapped(queues, peer) {
                Ok(some) => moved |= some,
                Err(_) => self.suspect(peer),
            }
            let entry = &mut self.peers[peer as usize];
            let idle = entry.queue.is_empty() && entry.streams.is_empty() && entry.due == 0;
            if idle && entry.copies.is_empty() {
                entry.busy = false;
                self.busy.swap_remove(i);
            } else {
                i += 1;
            }
        }
        moved
    }
}
