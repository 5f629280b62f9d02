//! Into the ring: room, control messages, and what waits for room.

use std::sync::atomic::Ordering;

use layout::Data;
use mtmi::{Context, Queues};

use crate::Shm;
use crate::lane::fill;
use crate::ring::{At, RingMemory};
use crate::send::Started;
use crate::state::Queued;
use crate::wire::{Header, INLINE, Kind, WORDS, Words, encode};

impl Shm {
    /// Whether there is room for a message of `len` bytes to `to`, after a look at the credit. The peer
    /// hears of us before our first message.
    #[inline]
    pub(crate) fn room(&mut self, to: u32, len: usize) -> bool {
        let out = &self.ports[to];
        if out.fits(len) {
            return true;
        }
        let peer = &mut self.peers[to as usize];
        if peer.failed {
            return false;
        }
        if !peer.announced {
            peer.announced = true;
            out.bell.get().attach();
            let bits = self.segment.senders(peer.slot);
            bits[self.local as usize / 64].fetch_or(1 << (self.local % 64), Ordering::SeqCst);
        }
        if out.refresh().is_err() {
            self.suspect(to);
            return false;
        }
        let out = &self.ports[to];
        if self.wary {
            out.tx.keep_one();
        } else if self.peers[to as usize].queue.is_empty() {
            out.open();
        }
        out.fits(len)
    }

    /// Publishes what was written at `tx.next()` and wakes the peer.
    #[inline]
    fn publish(&mut self, to: u32) {
        let out = &self.ports[to];
        out.tx.publish(&out.lane, At::of(out.tx.next()));
        out.bell.get().ring();
    }

    /// A message with its data, for which there is room. `front` goes before the data.
    pub(crate) fn push_data(
        &mut self,
        to: u32,
        (kind, context, tag): (Kind, Context, i32),
        front: &[u8],
        data: &Data,
    ) {
        let len = front.len() + data.len() as usize;
        let (at, mut lane) = (At::of(self.ports[to].tx.next()), self.ports[to].lane);
        let span = (len > INLINE).then(|| self.ports[to].take_lines(len));
        lane.write_header(
            at,
            &Header {
                kind,
                len,
                line: span.map_or(0, |span| span.first()),
                tag,
                context: context.0,
            },
        );
        let payload = match span {
            Some(span) => {
                lane.own_payload(span);
                lane.lines_mut(span, len)
            }
            None => lane.inline_mut(at, len),
        };
        let (head, rest) = payload.split_at_mut(front.len());
        if !front.is_empty() {
            head.copy_from_slice(front);
        }
        fill(rest, &mut data.reader());
        self.publish(to);
        if len > INLINE {
            self.ports[to].own_lines(len);
        }
    }

    /// A control message, for which there is room.
    pub(crate) fn push_words(&mut self, to: u32, address: (Kind, Context, i32), words: Words) {
        self.push_words_unrung(to, address, words);
        self.ports[to].bell.get().ring();
    }

    /// The same without the bell, which something that follows at once will ring.
    pub(crate) fn push_words_unrung(
        &mut self,
        to: u32,
        (kind, context, tag): (Kind, Context, i32),
        words: Words,
    ) {
        let (at, mut lane) = (At::of(self.ports[to].tx.next()), self.ports[to].lane);
        lane.write_header(
            at,
            &Header {
                kind,
                len: WORDS,
                line: 0,
                tag,
                context: context.0,
            },
        );
        lane.inline_mut(at, WORDS).copy_from_slice(&encode(words));
        let out = &self.ports[to];
        out.tx.publish(&out.lane, at);
    }

    /// Sends a control message, now or behind what is queued.
    pub(crate) fn control(&mut self, to: u32, kind: Kind, words: Words) {
        if self.peers[to as usize].failed {
            return;
        }
        if self.peers[to as usize].queue.is_empty() && self.room(to, WORDS) {
            self.push_words(to, (kind, Context(0), 0), words);
        } else {
            self.enqueue(to, Queued::Control(kind, words));
        }
    }

    /// Puts something behind what is queued. Closes the short path, which would overtake it.
    pub(crate) fn enqueue(&mut self, to: u32, what: Queued) {
        self.ports[to].shut();
        self.peers[to as usize].queue.push_back(what);
        self.mark_busy(to);
    }

    /// Sends what is queued while there is room. Returns whether anything went out.
    pub(crate) fn pump_queue(&mut self, queues: &mut Queues, to: u32) -> bool {
        let mut moved = false;
        while let Some(first) = self.peers[to as usize].queue.front() {
            match *first {
                Queued::Control(kind, words) => {
                    if !self.room(to, WORDS) {
                        break;
                    }
                    self.push_words(to, (kind, Context(0), 0), words);
                }
                Queued::Send(id) => match self.start(id) {
                    Started::NoRoom => break,
                    Started::Pending => {}
                    Started::Complete(completion) => queues.done.push(completion),
                },
            }
            self.peers[to as usize].queue.pop_front();
            moved = true;
        }
        match self.peers[to as usize].queue.is_empty() {
            true if self.wary => {}
            true => self.ports[to].open(),
            // Room may be left that is too little for the first in the queue; nobody may overtake it.
            false => self.ports[to].shut(),
        }
        moved
    }

    /// Whether the queue to a peer may go on.
    pub(crate) fn queue_ready(&self, to: u32) -> bool {
        let out = &self.ports[to];
        !self.peers[to as usize].queue.is_empty() && out.lane.credit() != out.tx.credit_seen()
    }
}
