//! The sending end of streams.
//!
//! Invariants: while a stream is not `Plain`, its messages are in `held`, in order, except for the one that is being
//! delivered and the plain one that the receiver asked for. No ordinary message leaves while one that was sent before it
//! to the same process in the same context is held: a receive with any tag would get the wrong one. It is in `late` meanwhile, in the order
//! of sending, and the streams that hold earlier ones are unbound.

use std::collections::VecDeque;

use layout::Data;
use mtmi::slot::{Delivery, Slots};
use mtmi::{Cookie, Endpoint, Outcome, SendMode, Submit, Transport};

use super::control::Word;
use super::{Bound, Event, Stream, is_of};

/// How far the sending end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Messages are ordinary.
    Plain,
    /// The receiver has been asked.
    Proposed,
    /// Messages go into the slot.
    Bound {
        slot: u32,
        /// but one ordinary one before.
        plain: bool,
    },
    /// No more is delivered; the receiver will open.
    Closing,
}

/// A message that waits.
struct Held {
    /// Grows with each send of this process.
    number: u64,
    mode: SendMode,
    data: Data,
    cookie: Cookie,
}

/// An ordinary message that waits for others to leave.
pub(super) struct Late {
    stream: Stream,
    held: Held,
}

/// Whether a receive may exist that accepts messages of both streams.
fn in_one_line(a: Stream, b: Stream) -> bool {
    (a.peer, a.context) == (b.peer, b.context) && (a.tag == b.tag || !a.is_exact())
}

/// The sending end of a stream.
pub(super) struct Sending {
    stream: Stream,
    state: State,
    /// The receiver has offered, since the stream is plain.
    offered: bool,
    /// The last message, if it was that of a persistent request which may be bound.
    last: Option<Cookie>,
    held: VecDeque<Held>,
    /// What is being delivered, and in which slot.
    under_way: Option<(u32, Held)>,
}

impl Sending {
    /// Whether nothing is kept.
    pub fn is_flushed(&self) -> bool {
        self.held.is_empty() && self.under_way.is_none()
    }
}

/// A message to be sent.
pub struct Outgoing {
    /// Where to.
    pub stream: Stream,
    /// When it is complete.
    pub mode: SendMode,
    /// What.
    pub data: Data,
    /// Whose request it is.
    pub cookie: Cookie,
}

impl Outgoing {
    /// Sends it.
    pub fn submit(self, m: &mut impl Transport) -> Submit {
        let Stream { peer, context, tag } = self.stream;
        m.isend(peer, context, tag, self.mode, self.data, self.cookie)
    }
}

impl Bound {
    fn sending(&self, stream: Stream) -> Option<usize> {
        self.sends.iter().position(|s| s.stream == stream)
    }

    /// The request of the last message of a stream, if it is a persistent one: to be asked before it is started again.
    pub fn last_sent(&self, stream: Stream) -> Option<Cookie> {
        let at = self.sending(stream)?;
        self.sends[at].last
    }

    /// Sends a message of whatever request.
    pub fn send<T: Transport + Slots>(&mut self, m: &mut T, out: Outgoing) -> Submit {
        let at = self.sending(out.stream);
        let long = self.may_bind(m, out.stream.peer, out.data.len());
        self.send_on(m, at, out, long)
    }

    /// Starts a persistent send. `settled`: the request that [`last_sent`](Bound::last_sent) named is over, as it should be.
    pub fn start_send<T: Transport + Slots>(
        &mut self,
        m: &mut T,
        out: Outgoing,
        settled: bool,
    ) -> Submit {
        let (stream, cookie) = (out.stream, out.cookie);
        if !self.may_bind(m, stream.peer, out.data.len()) {
            return self.send(m, out);
        }
        let at = match self.sending(stream) {
            Some(at) => at,
            None if self.peer(stream.peer).is_none() => return self.send_on(m, None, out, true),
            None => {
                self.sends.push(Sending {
                    stream,
                    state: State::Plain,
                    offered: false,
                    last: None,
                    held: VecDeque::new(),
                    under_way: None,
                });
                self.sends.len() - 1
            }
        };
        let send = &mut self.sends[at];
        let proposes = send.state == State::Plain && send.offered && settled && send.last.is_some();
        if proposes && self.may_say(stream.peer) {
            self.sends[at].state = State::Proposed;
            self.say(stream, Word::Propose);
        }
        let submit = self.send_on(m, Some(at), out, true);
        self.sends[at].last = Some(cookie);
        submit
    }

    fn send_on<T: Transport + Slots>(
        &mut self,
        m: &mut T,
        at: Option<usize>,
        out: Outgoing,
        long: bool,
    ) -> Submit {
        let stream = out.stream;
        if let Some(at) = at {
            self.sends[at].last = None;
        }
        let at = at.filter(|&at| self.sends[at].state != State::Plain);
        if at.is_none() && !self.is_behind(stream, u64::MAX) {
            return out.submit(m);
        }
        self.number += 1;
        let held = Held {
            number: self.number,
            mode: out.mode,
            data: out.data,
            cookie: out.cookie,
        };
        match at {
            None => {
                self.late.push(Late { stream, held });
                self.release(m);
            }
            Some(at) => {
                self.sends[at].held.push_back(held);
                if !long {
                    self.stop(at);
                }
                self.pump(m, at);
                self.release(m);
            }
        }
        if let Some(peer) = self.peer(stream.peer) {
            self.speak(m, peer);
        }
        Submit::Pending
    }

    /// Whether a message of the stream with that number has to wait for an earlier one.
    fn is_behind(&self, stream: Stream, number: u64) -> bool {
        let earlier = |h: &Held| h.number < number;
        let mut sends = self.sends.iter();
        sends.any(|s| in_one_line(s.stream, stream) && s.held.front().is_some_and(earlier))
            || self
                .late
                .iter()
                .any(|l| in_one_line(l.stream, stream) && earlier(&l.held))
    }

    /// Sends what needs to wait no longer, and unbinds what the rest waits for.
    pub(super) fn release<T: Transport>(&mut self, m: &mut T) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.late.len() {
            let Late { stream, ref held } = self.late[at];
            let number = held.number;
            if self.is_behind(stream, number) {
                self.stop_before(stream, number);
                at += 1;
                continue;
            }
            let Late { stream, held } = self.late.remove(at);
            let Held {
                mode, data, cookie, ..
            } = held;
            let out = Outgoing {
                stream,
                mode,
                data,
                cookie,
            };
            if let Submit::Complete(done) = out.submit(m) {
                self.events.push(Event::Completed(done));
            }
            moved = true;
        }
        moved
    }

    /// Unbinds the streams that hold messages which have to leave before that one.
    fn stop_before(&mut self, stream: Stream, number: u64) {
        for at in 0..self.sends.len() {
            let send = &self.sends[at];
            let earlier = send.held.front().is_some_and(|h| h.number < number);
            if earlier && in_one_line(send.stream, stream) {
                self.stop(at);
            }
        }
    }

    /// Puts a message among those that leave in the ordinary way.
    fn make_late(&mut self, stream: Stream, held: Held) {
        let behind = self.late.iter().position(|l| l.held.number > held.number);
        let place = behind.unwrap_or(self.late.len());
        self.late.insert(place, Late { stream, held });
    }

    /// Delivers no more, if it is bound.
    fn stop(&mut self, at: usize) {
        let send = &mut self.sends[at];
        if let State::Bound { .. } = send.state {
            send.state = State::Closing;
            let stream = send.stream;
            self.counts.unbound += 1;
            self.say(stream, Word::Unbound);
        }
    }

    /// Delivers what can be delivered.
    pub(super) fn pump<T: Transport + Slots>(&mut self, m: &mut T, at: usize) -> bool {
        let mut moved = self.see_delivered(m, at);
        let peer = self.sends[at].stream.peer;
        let State::Bound { slot: index, plain } = self.sends[at].state else {
            return moved;
        };
        if plain && let Some(held) = self.sends[at].held.pop_front() {
            let slot = index;
            self.sends[at].state = State::Bound { slot, plain: false };
            self.make_late(self.sends[at].stream, held);
            moved = true;
        }
        let slot = self.slot(peer, index);
        while self.sends[at].under_way.is_none()
            && let Some(first) = self.sends[at].held.front()
            && let Ok(delivery) = m.deliver(slot, &first.data, 0)
            && let Some(held) = self.sends[at].held.pop_front()
        {
            moved = true;
            match delivery {
                Delivery::Pending => self.sends[at].under_way = Some((index, held)),
                ended => self.delivered(at, &held, ended),
            }
        }
        moved
    }

    fn see_delivered<T: Transport + Slots>(&mut self, m: &mut T, at: usize) -> bool {
        let Some((index, _)) = self.sends[at].under_way else {
            return false;
        };
        let ended = m.delivered(self.slot(self.sends[at].stream.peer, index));
        if ended == Delivery::Pending {
            return false;
        }
        if let Some((_, held)) = self.sends[at].under_way.take() {
            self.delivered(at, &held, ended);
        }
        true
    }

    fn delivered(&mut self, at: usize, held: &Held, ended: Delivery) {
        let event = match ended {
            Delivery::Done { .. } => {
                let bytes = held.data.len();
                self.counts.sent += 1;
                self.sends[at].stream.end(held.cookie, bytes, Outcome::Done)
            }
            _ => self.sends[at]
                .stream
                .end(held.cookie, 0, Outcome::PeerFailed),
        };
        self.events.push(event);
    }

    // --- What the receiver says.

    pub(super) fn offered(&mut self, stream: Stream) {
        if let Some(at) = self.sending(stream) {
            self.sends[at].offered |= self.sends[at].state == State::Plain;
        }
    }

    pub(super) fn accepted(&mut self, stream: Stream, slot: u32, plain: bool) {
        let Some(at) = self.sending(stream) else {
            return;
        };
        if self.sends[at].state != State::Proposed {
            return;
        }
        self.sends[at].state = State::Bound { slot, plain };
        self.counts.bound += 1;
        let least = self.least;
        if self.sends[at].held.iter().any(|h| h.data.len() <= least) {
            self.stop(at);
        }
    }

    pub(super) fn refused<T: Transport>(&mut self, m: &mut T, stream: Stream) {
        if let Some(at) = self.sending(stream)
            && self.sends[at].state == State::Proposed
        {
            self.flush(m, at);
        }
    }

    pub(super) fn asked_to_unbind(&mut self, stream: Stream) {
        if let Some(at) = self.sending(stream) {
            self.stop(at);
        }
    }

    pub(super) fn opened<T: Transport>(&mut self, m: &mut T, stream: Stream) {
        if let Some(at) = self.sending(stream)
            && self.sends[at].state == State::Closing
        {
            self.flush(m, at);
        }
    }

    /// The stream is plain again.
    fn flush<T: Transport>(&mut self, m: &mut T, at: usize) {
        let send = &mut self.sends[at];
        send.state = State::Plain;
        send.offered = false;
        let stream = send.stream;
        let held = std::mem::take(&mut send.held);
        held.into_iter().for_each(|h| self.make_late(stream, h));
        self.release(m);
    }

    // --- Cancelling, freeing, failing.

    /// Cancels a send that is kept here: `None` if it isn't.
    pub fn cancel_send(&mut self, cookie: Cookie) -> Option<bool> {
        for send in &mut self.sends {
            if let Some(place) = send.held.iter().position(|h| h.cookie == cookie) {
                send.held.remove(place);
                self.events
                    .push(send.stream.end(cookie, 0, Outcome::Cancelled));
                return Some(true);
            }
            if let Some((_, held)) = &send.under_way
                && held.cookie == cookie
            {
                return Some(false);
            }
        }
        let late = self.late.iter().position(|l| l.held.cookie == cookie)?;
        let Late { stream, .. } = self.late.remove(late);
        self.events.push(stream.end(cookie, 0, Outcome::Cancelled));
        Some(true)
    }

    pub(super) fn forget_send(&mut self, cookie: Cookie) {
        for at in 0..self.sends.len() {
            if self.sends[at]
                .last
                .is_some_and(|last| is_of(last.0, cookie))
            {
                self.sends[at].last = None;
                self.stop(at);
            }
        }
        let over = |s: &Sending| s.state == State::Plain && s.last.is_none() && s.is_flushed();
        self.sends.retain(|s| !over(s));
    }

    pub(super) fn fail_sends(&mut self, peer: Endpoint) {
        for send in self.sends.iter_mut().filter(|s| s.stream.peer == peer) {
            let under_way = send.under_way.take().map(|(_, held)| held);
            let ended = under_way.into_iter().chain(send.held.drain(..));
            let ended = ended.map(|h| send.stream.end(h.cookie, 0, Outcome::PeerFailed));
            self.events.extend(ended);
        }
        self.sends.retain(|s| s.stream.peer != peer);
        for late in self.late.extract_if(.., |l| l.stream.peer == peer) {
            let event = late.stream.end(late.held.cookie, 0, Outcome::PeerFailed);
            self.events.push(event);
        }
    }
}
