//! The receiving end of streams.
//!
//! Invariant: while a stream is `Bound`, nothing but its owner is posted that accepts its messages, but for what was
//! posted after an unbinding began (and then it is `Closing`).

use layout::Data;
#[cfg(test)]
use mtmi::Endpoint;
use mtmi::slot::{Landed, Slots};
use mtmi::{Context, Cookie, Outcome, Source, Submit, TagSel, Transport};

use super::control::Word;
use super::{Bound, Event, FALLBACK, Stream, is_of, transfer};

/// Most starts that a pair waits before it offers again.
const LONGEST: u32 = 1 << 10;

/// Messages in a slot that make up for binding and unbinding.
const WORTH: u32 = 8;

/// How far the receiving end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Messages are ordinary.
    Plain,
    /// So they are, but the sender may propose.
    Offered,
    /// The owner's receives go into the slot.
    Bound { slot: u32 },
    /// Ordinary again; the sender keeps its messages until the slot is settled.
    Closing {
        slot: u32,
        /// The sender has said that it delivers no more.
        unbound: bool,
    },
}

/// The owner's receive, in the slot.
struct Posted {
    data: Data,
    cookie: Cookie,
    half: Half,
}

/// Its ordinary half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    /// There is none.
    None,
    /// It is posted.
    Posted,
    /// It is over: it was cancelled.
    Over,
    /// It will be posted when the slot has been taken back, and be the whole.
    Due,
}

/// The receiving end of a stream.
pub(super) struct Receiving {
    stream: Stream,
    state: State,
    /// The persistent receive, or the part of one, that may be bound; others of the same stream are ordinary receives.
    owner: Option<u64>,
    /// The slot knows the owner's memory.
    prepared: bool,
    posted: Option<Posted>,
    /// Starts until it offers,
    countdown: u32,
    /// and until it offers again when that came to nothing.
    pause: u32,
    /// Messages that came into the slot since it was bound.
    carried: u32,
}

/// A receive.
pub struct Incoming {
    /// From whom.
    pub from: Source,
    /// In which context.
    pub context: Context,
    /// With which tag.
    pub tag: TagSel,
    /// Into what.
    pub data: Data,
    /// Whose request it is.
    pub cookie: Cookie,
}

impl Incoming {
    /// Posts it.
    pub fn submit(self, m: &mut impl Transport) -> Submit {
        m.irecv(self.from, self.context, self.tag, self.data, self.cookie)
    }

    /// The one stream whose messages it accepts, if it is one.
    fn stream(&self) -> Option<Stream> {
        let (Source::From(peer), TagSel::Exact(tag)) = (self.from, self.tag) else {
            return None;
        };
        let context = self.context;
        Some(Stream { peer, context, tag })
    }
}

fn accepts(from: Source, context: Context, tag: TagSel, stream: Stream) -> bool {
    context == stream.context
        && (from == Source::Any || from == Source::From(stream.peer))
        && (tag == TagSel::Any || tag == TagSel::Exact(stream.tag))
}

impl Bound {
    fn receiving(&self, stream: Stream) -> Option<usize> {
        self.receives.iter().position(|r| r.stream == stream)
    }

    /// Posts a receive of whatever request.
    pub fn receive<T: Transport + Slots>(&mut self, m: &mut T, receive: Incoming) -> Submit {
        self.make_way(m, receive.from, receive.context, receive.tag);
        receive.submit(m)
    }

    /// Unbinds the streams that a receive accepts which is about to be posted, or a probe.
    pub fn make_way<T: Transport + Slots>(
        &mut self,
        m: &mut T,
        from: Source,
        context: Context,
        tag: TagSel,
    ) {
        for at in 0..self.receives.len() {
            if accepts(from, context, tag, self.receives[at].stream) {
                self.close(m, at);
            }
        }
    }

    /// Starts a persistent receive. `settled`: its last start matched a message.
    pub fn start_receive<T: Transport + Slots>(
        &mut self,
        m: &mut T,
        receive: Incoming,
        settled: bool,
    ) -> Submit {
        let stream = receive.stream();
        let stream = stream.filter(|s| self.may_bind(m, s.peer, receive.data.len()));
        let Some(at) = stream.and_then(|s| self.end_of(s)) else {
            return self.receive(m, receive);
        };
        let me = transfer(receive.cookie);
        let end = &mut self.receives[at];
        if *end.owner.get_or_insert(me) != me {
            return self.receive(m, receive);
        }
        match end.state {
            State::Plain | State::Offered if settled => self.count(m, at),
            State::Bound { slot } if end.posted.is_none() => {
                let slot = self.slot(self.receives[at].stream.peer, slot);
                // The buffer of a persistent receive stays: from the second time on one word tells the sender.
                let end = &mut self.receives[at];
                end.prepared = end.prepared || m.prepare(slot, &receive.data).is_ok();
                if end.prepared && m.start(slot).is_ok() {
                    let Incoming { data, cookie, .. } = receive;
                    let half = Half::None;
                    end.posted = Some(Posted { data, cookie, half });
                    return Submit::Pending;
                }
                self.close(m, at);
            }
            _ => {}
        }
        receive.submit(m)
    }

    /// The receiving end of a stream, which is made if there is none and memory for its peer.
    fn end_of(&mut self, stream: Stream) -> Option<usize> {
        if let Some(at) = self.receiving(stream) {
            return Some(at);
        }
        self.peer(stream.peer)?;
        self.receives.push(Receiving {
            stream,
            state: State::Plain,
            owner: None,
            prepared: false,
            posted: None,
            countdown: 0,
            pause: 1,
            carried: 0,
        });
        Some(self.receives.len() - 1)
    }

    /// Counts a start of a plain stream's owner; now and then it offers. The sender may have had no persistent send so far.
    fn count<T: Transport + Slots>(&mut self, m: &mut T, at: usize) {
        let end = &mut self.receives[at];
        if end.countdown > 0 {
            end.countdown -= 1;
            return;
        }
        let stream = end.stream;
        if !self.may_say(stream.peer) {
            return;
        }
        match self.receives[at].state {
            State::Offered => self.rest(at),
            _ => self.receives[at].countdown = self.receives[at].pause,
        }
        self.receives[at].state = State::Offered;
        self.say(stream, Word::Offer);
        if let Some(peer) = self.peer(stream.peer) {
            self.speak(m, peer);
        }
    }

    /// A binding came to nothing, or is over.
    fn rest(&mut self, at: usize) {
        let end = &mut self.receives[at];
        end.state = State::Plain;
        end.pause = match end.carried >= WORTH {
            true => 1,
            false => (end.pause * 2).min(LONGEST),
        };
        end.carried = 0;
        end.countdown = end.pause;
    }

    /// Unbinds a stream, if it is bound: its started receive becomes an ordinary one as well.
    fn close<T: Transport + Slots>(&mut self, m: &mut T, at: usize) {
        let State::Bound { slot } = self.receives[at].state else {
            return;
        };
        let stream = self.receives[at].stream;
        self.say(stream, Word::Unbind);
        self.leave(m, at, slot, false);
    }

    fn leave<T: Transport + Slots>(&mut self, m: &mut T, at: usize, slot: u32, unbound: bool) {
        let stream = self.receives[at].stream;
        self.receives[at].state = State::Closing { slot, unbound };
        self.counts.unbound += 1;
        if self.take_back(m, at, slot) {
            self.split(m, at);
        }
        if let Some(peer) = self.peer(stream.peer) {
            self.speak(m, peer);
        }
    }

    /// Asks for the memory of the receive in the slot, if there is one. Where that is refused it has ended, which
    /// `look` finds.
    fn take_back<T: Transport + Slots>(&mut self, m: &mut T, at: usize, slot: u32) -> bool {
        let slot = self.slot(self.receives[at].stream.peer, slot);
        self.receives[at].posted.is_some() && m.withdraw(slot).is_ok()
    }

    /// Posts the receive that is in the slot as an ordinary one too: at once if others may be posted behind it.
    fn split<T: Transport + Slots>(&mut self, m: &mut T, at: usize) {
        let Receiving { stream, posted, .. } = &mut self.receives[at];
        let Some(posted) = posted else { return };
        if stream.is_exact() {
            posted.half = Half::Due;
            return;
        }
        posted.half = Half::Posted;
        self.events.push(Event::Split(posted.cookie));
        let (from, tag) = (Source::From(stream.peer), TagSel::Exact(stream.tag));
        let cookie = Cookie(posted.cookie.0 | FALLBACK);
        let submit = m.irecv(from, stream.context, tag, posted.data.clone(), cookie);
        if let Submit::Complete(done) = submit {
            self.events.push(Event::Completed(done));
        }
    }

    /// The ordinary half of a receive ended. True: it says nothing of the outcome.
    pub fn half_ended(&mut self, cookie: Cookie) -> bool {
        let this = |c: Cookie| transfer(c) == transfer(cookie);
        if let Some(place) = self.halves.iter().position(|&c| this(c)) {
            self.halves.swap_remove(place);
            return true;
        }
        let mut posted = self.receives.iter_mut().filter_map(|r| r.posted.as_mut());
        if let Some(posted) = posted.find(|p| this(p.cookie)) {
            posted.half = Half::Over;
        }
        false
    }

    /// Looks at what came into the slot.
    pub(super) fn look<T: Transport + Slots>(&mut self, m: &mut T, at: usize) -> bool {
        let (State::Bound { slot } | State::Closing { slot, .. }) = self.receives[at].state else {
            return false;
        };
        if self.receives[at].posted.is_none() {
            return false;
        }
        let stream = self.receives[at].stream;
        let landed = m.landed(self.slot(stream.peer, slot));
        if landed == Landed::NotYet {
            return false;
        }
        let Some(Posted { data, cookie, half }) = self.receives[at].posted.take() else {
            return false;
        };
        self.receives[at].carried = self.receives[at].carried.saturating_add(1);
        if matches!(landed, Landed::Done { .. } | Landed::Truncated { .. }) {
            self.counts.received += 1;
        }
        let event = match landed {
            Landed::Done { bytes, .. } => stream.end(cookie, bytes, Outcome::Done),
            Landed::Truncated { sent, .. } => {
                stream.end(cookie, data.len(), Outcome::Truncated { sent })
            }
            Landed::Withdrawn if half == Half::None => stream.end(cookie, 0, Outcome::Cancelled),
            Landed::Withdrawn if half == Half::Due => {
                let (from, tag) = (Source::From(stream.peer), TagSel::Exact(stream.tag));
                if let Submit::Complete(done) = m.irecv(from, stream.context, tag, data, cookie) {
                    self.events.push(Event::Completed(done));
                }
                self.open_if_settled(at);
                return true;
            }
            Landed::Withdrawn => Event::PartOver(cookie),
            _ => stream.end(cookie, 0, Outcome::PeerFailed),
        };
        if half == Half::Posted && landed != Landed::Withdrawn {
            m.cancel_recv(Cookie(cookie.0 | FALLBACK));
            self.halves.push(cookie);
        }
        self.events.push(event);
        self.open_if_settled(at);
        true
    }

    /// Lets the sender go on when the slot is settled.
    fn open_if_settled(&mut self, at: usize) {
        let end = &self.receives[at];
        let State::Closing {
            slot,
            unbound: true,
        } = end.state
        else {
            return;
        };
        if end.posted.is_some() {
            return;
        }
        let stream = end.stream;
        if let Some(peer) = self.peer(stream.peer) {
            self.peers[peer].given &= !(1 << slot);
        }
        self.say(stream, Word::Open);
        self.rest(at);
    }

    // --- What the sender says.

    pub(super) fn proposed<T: Transport + Slots>(&mut self, m: &mut T, stream: Stream) {
        let answer = self.answer(m, stream);
        self.say(stream, answer.unwrap_or(Word::Refuse));
        if answer.is_none()
            && let Some(at) = self.receiving(stream)
            && self.receives[at].state == State::Offered
        {
            self.rest(at);
        }
    }

    /// Binds a stream, if what would match its next message is nothing, or its owner.
    fn answer<T: Transport + Slots>(&mut self, m: &mut T, stream: Stream) -> Option<Word> {
        let at = self.receiving(stream)?;
        let owner = self.receives[at].owner?;
        if self.receives[at].state != State::Offered {
            return None;
        }
        let Stream { peer, context, tag } = stream;
        let (from, exactly) = (Source::From(peer), TagSel::Exact(tag));
        if m.probe(from, context, exactly).is_some() {
            return None;
        }
        let accepting = m.accepting(peer, context, tag);
        let plain = match accepting[..] {
            [] => false,
            [one] if transfer(one) == owner => true,
            _ => return None,
        };
        let peer = self.peer(peer)?;
        let given = &mut self.peers[peer].given;
        let slot = given.trailing_ones();
        if slot >= super::SLOTS {
            return None;
        }
        *given |= 1 << slot;
        self.receives[at].state = State::Bound { slot };
        self.receives[at].prepared = false;
        self.counts.bound += 1;
        Some(Word::Accept { slot, plain })
    }

    pub(super) fn unbound<T: Transport + Slots>(&mut self, m: &mut T, stream: Stream) {
        let Some(at) = self.receiving(stream) else {
            return;
        };
        match self.receives[at].state {
            State::Bound { slot } => self.leave(m, at, slot, true),
            State::Closing { slot, .. } => {
                let unbound = true;
                self.receives[at].state = State::Closing { slot, unbound };
            }
            State::Plain | State::Offered => return,
        }
        self.open_if_settled(at);
    }

    /// Whether a stream is bound.
    #[cfg(test)]
    pub(super) fn is_bound(&self, peer: Endpoint, tag: i32) -> bool {
        let mut found = self.receives.iter();
        let found = found.find(|r| r.stream.peer == peer && r.stream.tag == tag);
        found.is_some_and(|r| matches!(r.state, State::Bound { .. }))
    }

    // --- Cancelling and freeing.

    /// Cancels a receive that is in a slot, or was: `None` if it isn't.
    pub fn cancel_receive<T: Transport + Slots>(
        &mut self,
        m: &mut T,
        cookie: Cookie,
    ) -> Option<bool> {
        let mine = |owner: Option<u64>| owner == Some(transfer(cookie));
        let at = self.receives.iter().position(|r| mine(r.owner))?;
        let half = self.receives[at].posted.as_ref().map(|p| p.half);
        match (self.receives[at].state, half) {
            (State::Bound { slot }, Some(_)) => {
                let stream = self.receives[at].stream;
                self.say(stream, Word::Unbind);
                let unbound = false;
                self.receives[at].state = State::Closing { slot, unbound };
                self.counts.unbound += 1;
                Some(self.take_back(m, at, slot))
            }
            // The one that is to match the plain message.
            (State::Bound { .. }, None) => {
                self.close(m, at);
                None
            }
            (_, Some(Half::Posted)) => Some(m.cancel_recv(Cookie(cookie.0 | FALLBACK))),
            (_, Some(Half::Due)) => {
                // It is being taken back, and need not be posted again.
                if let Some(posted) = &mut self.receives[at].posted {
                    posted.half = Half::None;
                }
                Some(true)
            }
            (_, Some(_)) => Some(false),
            (_, None) => m.cancel_recv(Cookie(cookie.0 | FALLBACK)).then_some(true),
        }
    }

    pub(super) fn forget_receive<T: Transport + Slots>(&mut self, m: &mut T, cookie: Cookie) {
        for at in 0..self.receives.len() {
            if self.receives[at]
                .owner
                .is_some_and(|owner| is_of(owner, cookie))
            {
                self.close(m, at);
                self.receives[at].owner = None;
            }
        }
        let over = |r: &Receiving| r.owner.is_none() && matches!(r.state, State::Plain);
        self.receives.retain(|r| !over(r));
    }
}
