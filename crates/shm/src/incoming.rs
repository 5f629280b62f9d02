//! Out of the ring: messages from other processes, to their receives or to the unexpected queue.

use mtmi::{Completion, Context, Endpoint, Outcome};

use crate::Shm;
use crate::lane::{Lane, WINDOW, drain};
use crate::ring::Hostile;
use crate::state::{Announced, Body, Message, Receive, Sending, Sink};
use crate::wire::{Header, INLINE, Kind, cells, decode};

/// Messages taken from one ring before the next gets its turn.
const TURN: u32 = 64;
/// Bytes of a synchronous send's name, in front of its data.
const NAME: usize = 8;

impl Shm {
    /// Takes what is in the ring of sender number `slot`. Returns whether there was anything.
    #[inline]
    pub(crate) fn drain_ring(&mut self, slot: usize) -> bool {
        if !self.ring_ready(slot) {
            return false;
        }
        let (lane, peer) = (self.inward[slot].lane, self.inward[slot].peer);
        for _ in 0..TURN {
            let number = self.inward[slot].rx.next();
            let len = match self.take_message(peer, lane, number) {
                Ok(len) => len,
                Err(Hostile) => {
                    self.suspect(peer);
                    break;
                }
            };
            if self.inward[slot].rx.consume(&lane, cells(len)) {
                self.outward[peer as usize].bell.get().ring();
            }
            if !self.ring_ready(slot) {
                break;
            }
        }
        true
    }

    /// Whether a message is in the ring of sender number `slot`.
    #[inline(always)]
    pub(crate) fn ring_ready(&self, slot: usize) -> bool {
        let inward = &self.inward[slot];
        inward.rx.ready(&inward.lane)
    }

    /// Takes one message; returns the length of its payload.
    #[inline]
    fn take_message(&mut self, peer: u32, lane: Lane, number: u32) -> Result<usize, Hostile> {
        let header = lane.read_header(number)?;
        if header.kind == Kind::Eager {
            self.take_eager(peer, lane, number, &header);
        } else {
            self.take_other(peer, lane, number, &header)?;
        }
        Ok(header.len)
    }

    #[inline]
    fn take_eager(&mut self, peer: u32, lane: Lane, number: u32, header: &Header) {
        let (source, context) = (Endpoint(peer), Context(header.context));
        let Some(receive) = self.posted.take(source, context, header.tag) else {
            let body = self.body(lane.payload(number, header.len), 0);
            let message = Message::Whole {
                body,
                synchronous: None,
            };
            self.unexpected.arrive(source, context, header.tag, message);
            return;
        };
        let capacity = receive.data.len();
        if header.len <= INLINE
            && let Some((buf, _)) = receive.data.contiguous()
        {
            lane.read_inline(number, buf, header.len.min(capacity as usize));
        } else {
            let mut writer = receive.data.writer();
            for part in lane.payload(number, header.len) {
                drain(part, &mut writer);
            }
        }
        self.done
            .push(completion(&receive, source, header.tag, header.len as u64));
    }

    fn take_other(
        &mut self,
        peer: u32,
        lane: Lane,
        number: u32,
        header: &Header,
    ) -> Result<(), Hostile> {
        let payload = lane.payload(number, header.len);
        if header.kind == Kind::Synchronous {
            return self.take_synchronous(peer, payload, header);
        }
        // Control messages fit a cell, so they never go round.
        let words = decode(payload[0])?;
        match header.kind {
            Kind::Announce => self.take_announcement(peer, header, words),
            Kind::Clear => self.take_clear(peer, words[0], words[1], words[2]),
            Kind::Matched => self.take_reply(peer, words[0], Outcome::Done),
            Kind::Cancelled => self.take_reply(peer, words[0], Outcome::Cancelled),
            Kind::Kept => Ok(()),
            Kind::Cancel => {
                self.take_cancel(peer, words[0]);
                Ok(())
            }
            Kind::Eager | Kind::Synchronous => Err(Hostile),
        }
    }

    fn take_synchronous(
        &mut self,
        peer: u32,
        [head, tail]: [&[u8]; 2],
        header: &Header,
    ) -> Result<(), Hostile> {
        let (name, data) = head.split_first_chunk::<NAME>().ok_or(Hostile)?;
        let name = u64::from_ne_bytes(*name);
        let (source, context) = (Endpoint(peer), Context(header.context));
        match self.posted.take(source, context, header.tag) {
            Some(receive) => {
                let mut writer = receive.data.writer();
                drain(data, &mut writer);
                drain(tail, &mut writer);
                let len = (data.len() + tail.len()) as u64;
                self.done
                    .push(completion(&receive, source, header.tag, len));
                self.control(peer, Kind::Matched, [name, 0, 0, 0]);
            }
            None => {
                let message = Message::Whole {
                    body: self.body([head, tail], NAME),
                    synchronous: Some(name),
                };
                self.unexpected.arrive(source, context, header.tag, message);
            }
        }
        Ok(())
    }

    /// Keeps a payload, less its first `skip` bytes.
    fn body(&mut self, [head, tail]: [&[u8]; 2], skip: usize) -> Body {
        let head = &head[skip..];
        if tail.is_empty() && head.len() <= 48 {
            let mut bytes = [0; 48];
            bytes[..head.len()].copy_from_slice(head);
            return Body::Short {
                len: head.len() as u8,
                bytes,
            };
        }
        let mut buffer = self.buffer();
        buffer.reserve(head.len() + tail.len());
        buffer.extend_from_slice(head);
        buffer.extend_from_slice(tail);
        Body::Long(buffer)
    }

    fn take_announcement(
        &mut self,
        peer: u32,
        header: &Header,
        [send, total, early, synchronous]: [u64; 4],
    ) -> Result<(), Hostile> {
        if early > total.min(WINDOW as u64) || total > i64::MAX as u64 {
            return Err(Hostile);
        }
        let (source, context) = (Endpoint(peer), Context(header.context));
        let receive = self.posted.take(source, context, header.tag);
        let matched = receive.is_some();
        let sink = match receive {
            Some(receive) => Sink::User {
                writer: receive.data.writer(),
                capacity: receive.data.len(),
                cookie: receive.cookie,
            },
            None => {
                let mut buffer = self.buffer();
                buffer.reserve(early as usize);
                Sink::Heap(buffer)
            }
        };
        let id = self.announced.insert(Announced {
            from: peer,
            send,
            tag: header.tag,
            total,
            early,
            arrived: 0,
            expected: early,
            synchronous: synchronous != 0,
            sink,
        });
        if early > 0 {
            let entry = &mut self.peers[peer as usize];
            entry.early.push_back(id);
            entry.due = entry.due.saturating_add(early);
            self.mark_busy(peer);
        }
        if matched {
            self.accept(id);
        } else {
            self.unexpected
                .arrive(source, context, header.tag, Message::Announced(id));
        }
        Ok(())
    }

    /// An announced message was matched: asks for the rest of its data, or tells the sender, and
    /// ends it if nothing is to come.
    pub(crate) fn accept(&mut self, id: u64) {
        let Some(message) = self.announced.get(id) else {
            return;
        };
        let Sink::User { capacity, .. } = message.sink else {
            return;
        };
        let (peer, send) = (message.from, message.send);
        if message.early < message.total {
            let wanted = message.total.min(capacity);
            let more = wanted.saturating_sub(message.early);
            message.expected = message.early + more;
            let entry = &mut self.peers[peer as usize];
            entry.due = entry.due.saturating_add(more);
            self.mark_busy(peer);
            self.control(peer, Kind::Clear, [send, id, wanted, 0]);
        } else if message.synchronous {
            self.control(peer, Kind::Matched, [send, 0, 0, 0]);
        }
        self.end_announced(id);
    }

    /// The receiver of an announced message asks for its data up to byte `wanted`.
    fn take_clear(&mut self, peer: u32, id: u64, target: u64, wanted: u64) -> Result<(), Hostile> {
        let send = self.sends.get(id).ok_or(Hostile)?;
        if send.to != peer || send.state != Sending::AwaitsClear || wanted > send.total {
            return Err(Hostile);
        }
        if wanted <= send.sent {
            self.end_send(id, Outcome::Done);
            return Ok(());
        }
        send.state = Sending::Streams {
            target,
            until: wanted,
        };
        self.peers[peer as usize].streams.push_back(id);
        self.mark_busy(peer);
        self.pump_streams(peer);
        Ok(())
    }

    /// The receiver matched a synchronous send, or dropped a cancelled one.
    fn take_reply(&mut self, peer: u32, id: u64, outcome: Outcome) -> Result<(), Hostile> {
        let send = self.sends.get(id).ok_or(Hostile)?;
        let expected = match outcome {
            Outcome::Done => send.state == Sending::AwaitsMatch,
            _ => {
                send.cancelling && matches!(send.state, Sending::AwaitsMatch | Sending::AwaitsClear)
            }
        };
        if send.to != peer || !expected {
            return Err(Hostile);
        }
        self.end_send(id, outcome);
        Ok(())
    }
}

/// The completion of a receive that got a whole message of `len` bytes.
pub(crate) fn completion(receive: &Receive, source: Endpoint, tag: i32, len: u64) -> Completion {
    let capacity = receive.data.len();
    let outcome = if len > capacity {
        Outcome::Truncated { sent: len }
    } else {
        Outcome::Done
    };
    Completion {
        cookie: receive.cookie,
        source,
        tag,
        bytes: len.min(capacity),
        outcome,
    }
}
