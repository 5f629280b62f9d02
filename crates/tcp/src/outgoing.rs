//! What goes to a peer next.

use boundary::UserBuf;
use layout::Data;
use mtmi::{Endpoint, Outcome, Outgoing, Queues, SendMode, Submit};

use crate::fabric::MEDIUM;
use crate::frame::{Announced, EARLY, FRAGMENT, Frame, HEADER, Hostile, RESERVE, WINDOW};
use crate::protocol::{Protocol, Queued, Send, Sending, Tail};
use crate::slots::SlotSend;

/// Bytes put together for one system call: as many small frames as fit, or a piece of a message whose data don't lie
/// together.
const STAGE: usize = 64 << 10;
/// Bodies up to here are copied behind their header: cheaper than another element of a gathering call.
const COPIED: u64 = 4 << 10;

/// What can be sent now: `staged`, then `tail`.
pub(crate) struct Offer<'a> {
    pub staged: &'a [u8],
    /// Bytes in the caller's memory, valid until the send they belong to completes.
    pub tail: Option<(UserBuf, usize)>,
}

impl Offer<'_> {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty() && self.tail.is_none()
    }
}

impl Protocol {
    /// Takes a message for a peer; it leaves with the next offers.
    pub fn submit(&mut self, message: Outgoing) -> Submit {
        if self.is_gone(message.to) {
            return Submit::Complete(message.completion(Outcome::PeerFailed));
        }
        let to = message.to;
        let id = self.sends.insert(Send {
            message,
            reader: None,
            framed: 0,
            state: Sending::Queued,
            leaving: false,
            cancelling: false,
            slot: None,
        });
        self.links[to.index()].queue.push_back(Queued::Send(id));
        self.mark_dirty(to.0);
        Submit::Pending
    }

    /// If nothing waits before a message and the credit covers it: its header. The caller sends that and the data
    /// at once, and puts what does not leave into [`Protocol::stage_rest`].
    #[inline]
    pub fn shortcut(&mut self, message: &Outgoing, total: u64) -> Option<[u8; HEADER]> {
        let link = self.links.get_mut(message.to.index())?;
        let synchronous = message.mode == SendMode::Synchronous;
        if synchronous || link.credit < total || !link.is_idle() || link.failed || link.bye {
            return None;
        }
        link.credit -= total;
        let header = Frame::Message(Announced {
            context: message.context.0,
            tag: message.tag,
            total,
            early: total as u32,
            name: 0,
            synchronous,
        });
        Some(header.encode())
    }

    /// Keeps bytes of a `shortcut` that could not be sent.
    #[cold]
    pub fn stage_rest(&mut self, peer: u32, rest: &[u8]) {
        let link = &mut self.links[peer as usize];
        link.staged.extend_from_slice(rest);
        self.mark_dirty(peer);
    }

    /// Puts a control frame into the queue.
    pub fn control(&mut self, peer: u32, frame: Frame) {
        let link = &mut self.links[peer as usize];
        if link.failed || link.bye {
            return;
        }
        link.queue.push_back(Queued::Control(frame));
        self.mark_dirty(peer);
    }

    /// What goes to `peer` now. Completions of sends whose data were copied go to `queues`.
    pub fn offer(&mut self, queues: &mut Queues, peer: u32) -> Offer<'_> {
        self.compose(queues, peer);
        let link = &self.links[peer as usize];
        let mut tail = None;
        if let Some(t) = &link.tail
            && let Some(send) = self.sends.get(t.send)
            && let Some((buf, len)) = send.reader.as_ref().and_then(|r| r.contiguous())
        {
            let len = len.min(t.left);
            tail = (len > 0).then_some((buf, len as usize));
        }
        Offer {
            staged: &link.staged[link.staged_from..],
            tail,
        }
    }

    /// Fills the stage and, where a long body comes next, the tail.
    fn compose(&mut self, queues: &mut Queues, peer: u32) {
        loop {
            let link = &mut self.links[peer as usize];
            if link.failed {
                return;
            }
            if link.tail.is_some() {
                if self.stage_tail(peer) {
                    self.end_frame(queues, peer);
                    continue;
                }
                return;
            }
            if link.staged.len() - link.staged_from >= STAGE {
                return;
            }
            let stream = !link.streams.is_empty() && (link.queue.is_empty() || link.streams_turn);
            if stream {
                if let Some(id) = link.streams.pop_front() {
                    link.streams_turn = false;
                    self.fragment(peer, id);
                }
                continue;
            }
            match link.queue.pop_front() {
                None => return,
                Some(Queued::Control(frame)) => link.staged.extend_from_slice(&frame.encode()),
                Some(Queued::Send(id)) => {
                    self.begin(peer, id);
                    self.links[peer as usize].streams_turn = true;
                }
            }
        }
    }

    /// Puts the first frame of a send on the way.
    fn begin(&mut self, peer: u32, id: u64) {
        let link = &mut self.links[peer as usize];
        let Some(send) = self.sends.get(id) else {
            return;
        };
        if let Some(slot) = send.slot {
            let len = slot.bytes.min(FRAGMENT);
            link.staged.extend_from_slice(&slot.first(len).encode());
            send.framed = len;
            send.state = match len == slot.bytes {
                true => Sending::Leaving,
                false => Sending::Streams {
                    target: 0,
                    until: slot.bytes,
                },
            };
            send.reader = Some(send.message.data.reader());
            send.leaving = true;
            link.tail = Some(Tail {
                send: id,
                left: len,
            });
            return;
        }
        let total = send.message.data.len();
        let credit = match total <= MEDIUM {
            true => link.credit,
            false => link.credit.saturating_sub(RESERVE),
        };
        let early = match total <= EARLY {
            // All or nothing: half a short message saves nobody anything.
            true if total <= credit => total,
            true => 0,
            false => credit.min(EARLY),
        };
        link.credit -= early;
        let synchronous = send.message.mode == SendMode::Synchronous;
        let header = Frame::Message(Announced {
            context: send.message.context.0,
            tag: send.message.tag,
            total,
            early: early as u32,
            name: id,
            synchronous,
        });
        link.staged.extend_from_slice(&header.encode());
        send.framed = early;
        send.state = match (early == total, synchronous) {
            (false, _) => Sending::AwaitsClear,
            (true, true) => Sending::AwaitsMatch,
            (true, false) => Sending::Leaving,
        };
        send.reader = Some(send.message.data.reader());
        send.leaving = true;
        link.tail = Some(Tail {
            send: id,
            left: early,
        });
    }

    /// Puts the next fragment of a stream on the way.
    fn fragment(&mut self, peer: u32, id: u64) {
        let link = &mut self.links[peer as usize];
        let Some(send) = self.sends.get(id) else {
            return;
        };
        let Sending::Streams { target, until } = send.state else {
            return;
        };
        let len = until.saturating_sub(send.framed).min(FRAGMENT);
        let len_of = len as u32;
        let header = match send.slot {
            None => Frame::Data {
                target,
                len: len_of,
            },
            Some(SlotSend { slot, .. }) => Frame::SlotMore { slot, len: len_of },
        };
        link.staged.extend_from_slice(&header.encode());
        send.framed += len;
        send.leaving = true;
        link.tail = Some(Tail {
            send: id,
            left: len,
        });
    }

    /// Copies the tail behind what is staged, if it is short or does not lie in one piece. Returns whether
    /// that was all of it.
    fn stage_tail(&mut self, peer: u32) -> bool {
        let link = &mut self.links[peer as usize];
        let Some(tail) = &mut link.tail else {
            return true;
        };
        let Some(send) = self.sends.get(tail.send) else {
            return true;
        };
        let reader = send
            .reader
            .get_or_insert_with(|| send.message.data.reader());
        let from = link.staged.len();
        let room = (STAGE + COPIED as usize).saturating_sub(from - link.staged_from);
        if tail.left > COPIED && reader.contiguous().is_some() || room == 0 {
            return tail.left == 0;
        }
        let n = tail.left.min(room as u64) as usize;
        link.staged.resize(from + n, 0);
        reader.read(&mut link.staged[from..]);
        tail.left -= n as u64;
        tail.left == 0
    }

    /// `n` bytes of the last offer have left.
    pub fn sent(&mut self, queues: &mut Queues, peer: u32, n: usize) {
        let n = (n - self.sent_staged(peer, n)) as u64;
        if n == 0 {
            return;
        }
        let link = &mut self.links[peer as usize];
        let Some(tail) = &mut link.tail else {
            return;
        };
        tail.left = tail.left.saturating_sub(n);
        if let Some(send) = self.sends.get(tail.send)
            && let Some(reader) = &mut send.reader
        {
            reader.seek(reader.position() + n);
        }
        if tail.left == 0 {
            self.end_frame(queues, peer);
        }
    }

    /// Up to `n` bytes of what is staged have left: returns how many.
    pub fn sent_staged(&mut self, peer: u32, n: usize) -> usize {
        let link = &mut self.links[peer as usize];
        let staged = n.min(link.staged.len() - link.staged_from);
        link.staged_from += staged;
        if link.staged_from == link.staged.len() {
            link.staged_from = 0;
            link.staged.clear();
            if link.staged.capacity() > COPIED as usize && link.queue.is_empty() {
                // A thousand peers' stages would be much memory for nothing.
                link.staged = Vec::new();
            }
        } else if link.staged_from >= STAGE {
            link.staged.drain(..link.staged_from);
            link.staged_from = 0;
        }
        staged
    }

    /// Stages a short delivery to a slot, and what waits before it, if that is nothing but control frames: returns
    /// whether it did.
    pub fn stage_delivery(&mut self, peer: u32, frame: Frame, data: &Data, bytes: usize) -> bool {
        let link = &mut self.links[peer as usize];
        let control = |q: &Queued| matches!(q, Queued::Control(_));
        if link.tail.is_some() || link.staged.len() >= STAGE || !link.queue.iter().all(control) {
            return false;
        }
        for queued in link.queue.drain(..) {
            if let Queued::Control(frame) = queued {
                link.staged.extend_from_slice(&frame.encode());
            }
        }
        link.staged.extend_from_slice(&frame.encode());
        let from = link.staged.len();
        link.staged.resize(from + bytes, 0);
        data.reader().read(&mut link.staged[from..]);
        true
    }

    /// The tail's last byte has left, or was copied.
    fn end_frame(&mut self, queues: &mut Queues, peer: u32) {
        let link = &mut self.links[peer as usize];
        let Some(Tail { send: id, .. }) = link.tail.take() else {
            return;
        };
        let Some(send) = self.sends.get(id) else {
            return;
        };
        send.leaving = false;
        match send.state {
            Sending::Leaving => self.end_send(queues, id, Outcome::Done),
            Sending::Ends(outcome) => self.end_send(queues, id, outcome),
            Sending::Streams { until, .. } if send.framed >= until => {
                self.end_send(queues, id, Outcome::Done);
            }
            Sending::Streams { .. } => link.streams.push_back(id),
            Sending::AwaitsMatch | Sending::AwaitsClear | Sending::Queued => {}
        }
    }

    /// A send is over, as soon as no frame of it is on its way.
    pub fn end_send(&mut self, queues: &mut Queues, id: u64, outcome: Outcome) {
        if let Some(send) = self.sends.get(id)
            && send.leaving
        {
            send.state = Sending::Ends(outcome);
            return;
        }
        self.end_send_now(queues, id, outcome);
    }

    /// A send is over, whatever of it is on its way.
    pub fn end_send_now(&mut self, queues: &mut Queues, id: u64, outcome: Outcome) {
        if let Some(send) = self.sends.remove(id) {
            match send.slot {
                None => queues.done.push(send.message.completion(outcome)),
                Some(slot) => self.slots.end_delivery(send.message.to.0, slot, outcome),
            }
        }
    }

    /// The receiver of a message asks for its data up to byte `wanted`.
    pub fn cleared(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        (name, target, wanted): (u64, u64, u64),
    ) -> Result<(), Hostile> {
        let send = self.sends.get(name).ok_or(STRANGE)?;
        // A delivery to a slot never awaits one.
        let about = send.message.to == Endpoint(peer) && send.state == Sending::AwaitsClear;
        if !about || wanted > send.message.data.len() {
            return Err(STRANGE);
        }
        if wanted <= send.framed {
            self.end_send(queues, name, Outcome::Done);
            return Ok(());
        }
        send.state = Sending::Streams {
            target,
            until: wanted,
        };
        if !send.leaving {
            self.links[peer as usize].streams.push_back(name);
        }
        self.mark_dirty(peer);
        Ok(())
    }

    /// The receiver matched a synchronous send, or dropped a cancelled one.
    pub fn answered(
        &mut self,
        queues: &mut Queues,
        peer: u32,
        name: u64,
        outcome: Outcome,
    ) -> Result<(), Hostile> {
        let send = self.sends.get(name).ok_or(STRANGE)?;
        let expected = match outcome {
            Outcome::Done => send.state == Sending::AwaitsMatch,
            _ => {
                send.cancelling && matches!(send.state, Sending::AwaitsMatch | Sending::AwaitsClear)
            }
        };
        if send.message.to != Endpoint(peer) || !expected {
            return Err(STRANGE);
        }
        self.end_send(queues, name, outcome);
        Ok(())
    }

    /// The peer consumed bytes that were sent unasked.
    pub fn credited(&mut self, peer: u32, bytes: u64) -> Result<(), Hostile> {
        let link = &mut self.links[peer as usize];
        let credit = link.credit.checked_add(bytes).ok_or(STRANGE)?;
        if bytes == 0 || credit > WINDOW {
            return Err(STRANGE);
        }
        link.credit = credit;
        Ok(())
    }
}

const STRANGE: Hostile = Hostile("an answer to a message that did not ask for it");
