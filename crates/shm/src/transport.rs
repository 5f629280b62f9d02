//! The fabric as a matching transport.

use std::time::Instant;

use layout::Data;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Envelope, Limits, MessageId, SendMode, Source, Submit,
    TagSel, Transport,
};

use crate::Shm;
use crate::lane::WINDOW;
use crate::state::Receive;
use crate::waiting::Sleeper;
use crate::wire::INLINE;

impl Transport for Shm {
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
            endpoints: self.ranks,
        }
    }

    fn connect(&mut self, to: Endpoint) {
        if to.0 < self.ranks && to.0 != self.me {
            self.room(to.0, 1);
        }
    }

    #[inline]
    fn isend(
        &mut self,
        to: Endpoint,
        context: Context,
        tag: i32,
        mode: SendMode,
        data: Data,
        cookie: Cookie,
    ) -> Submit {
        if to.0 == self.me {
            self.send_to_self(context, tag, mode, data, cookie)
        } else {
            self.send(to, context, tag, mode, data, cookie)
        }
    }

    #[inline]
    fn irecv(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
        data: Data,
        cookie: Cookie,
    ) -> Submit {
        self.receive(from, context, tag, Receive { data, cookie })
    }

    fn probe(&mut self, from: Source, context: Context, tag: TagSel) -> Option<Envelope> {
        self.look(from, context, tag)
    }

    fn mprobe(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
    ) -> Option<(MessageId, Envelope)> {
        self.look_and_take(from, context, tag)
    }

    fn imrecv(&mut self, message: MessageId, data: Data, cookie: Cookie) -> Submit {
        self.receive_probed(message, data, cookie)
    }

    fn cancel_recv(&mut self, cookie: Cookie) -> bool {
        self.cancel_posted(cookie)
    }

    fn cancel_send(&mut self, cookie: Cookie) -> bool {
        self.cancel_sent(cookie)
    }

    #[inline]
    fn progress(&mut self, done: &mut Vec<Completion>) -> bool {
        let mut moved = self.has_news() && self.find_senders();
        for slot in 0..self.inward.len() {
            moved |= self.drain_ring(slot);
        }
        if !self.busy.is_empty() {
            moved |= self.serve_busy();
        }
        if !self.suspects.is_empty() {
            moved |= self.fail_suspects();
        }
        if !self.done.is_empty() {
            done.append(&mut self.done);
            moved = true;
        }
        moved
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        self.wait_for_work(deadline);
    }

    fn ready(&self) -> bool {
        self.has_work()
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper::of(self)
    }

    fn peer_failed(&mut self, peer: Endpoint) {
        if peer.0 >= self.ranks || peer.0 == self.me || self.peers[peer.index()].failed {
            return;
        }
        // What it sent before it failed counts.
        self.find_senders();
        while let Some(slot) = self.inward.iter().position(|i| i.peer == peer.0)
            && self.suspects.is_empty()
            && (self.drain_ring(slot) || self.chunk_ready(peer.0))
        {
            if self.drain_pipe(peer.0).is_err() {
                break;
            }
        }
        self.fail(peer.0);
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        self.failures.pop_front()
    }

    fn flushed(&self) -> bool {
        let idle = |&p: &u32| {
            let peer = &self.peers[p as usize];
            peer.queue.is_empty() && peer.streams.is_empty()
        };
        self.sends.is_empty() && self.busy.iter().all(idle)
    }

    fn finalize(mut self, deadline: Option<Instant>) -> bool {
        let mut done = Vec::new();
        loop {
            while self.progress(&mut done) {
                done.clear();
            }
            if self.flushed() {
                return true;
            }
            if sys::clock::passed(deadline) {
                return false;
            }
            self.wait_for_work(deadline);
        }
    }
}

impl Shm {
    /// Serves the peers for which more than the ring matters.
    fn serve_busy(&mut self) -> bool {
        let mut moved = false;
        let mut i = 0;
        while let Some(&peer) = self.busy.get(i) {
            if self.queue_ready(peer) {
                moved |= self.pump_queue(peer);
            }
            if self.stream_ready(peer) {
                moved |= self.pump_streams(peer);
            }
            match self.drain_pipe(peer) {
                Ok(some) => moved |= some,
                Err(_) => self.suspect(peer),
            }
            let entry = &mut self.peers[peer as usize];
            if entry.queue.is_empty() && entry.streams.is_empty() && entry.due == 0 {
                entry.busy = false;
                self.busy.swap_remove(i);
            } else {
                i += 1;
            }
        }
        moved
    }
}
