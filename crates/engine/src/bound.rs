//! Persistent point-to-point on slots: streams of messages whose two ends are bound to each other.
//!
//! A *stream* is all messages of one process to another in one context with one tag. While it is bound, its messages are
//! not matched: the persistent receive is posted into a slot at the sender, and the sender delivers the next message of the
//! stream there. What a program sees is what it would see without.
//!
//! # Binding
//! Offer → Propose → Accept, in slot 0 between the two processes, which is for control:
//! 1. The receiver *offers* when it starts a persistent receive (from one source, with one tag) that has matched an
//!    ordinary message before. This commits nobody.
//! 2. The sender *proposes* when it starts a persistent send on a stream that was offered, and the last message it sent there
//!    was a persistent one that is over. As it was longer than anything that ends unmatched
//!    ([`Limits::unmatched_bytes`](mtmi::Limits::unmatched_bytes)) it has matched, and so, by MPI's order, has everything before
//!    it: both ends stand at the same place of the stream. From here until Refuse or Open **the sender sends nothing on this
//!    stream in the ordinary way**; it keeps the messages in order.
//! 3. The receiver looks at what would match the next message. Nothing: it *accepts*, and the persistent receive goes into the
//!    slot from its next start on. The persistent receive itself, which has been started meanwhile: it accepts, and says that
//!    one *plain* (ordinary) message goes before. Anything else: it *refuses*.
//!
//! # Unbinding
//! The receiver, before it posts any other receive that accepts the stream (wildcards, a duplicate), probes for it, cancels or
//! frees its request: the started receive is taken back from the slot **and** posted as an ordinary one, before
//! the other. No ordinary message of the stream can come yet, so the order of receives is exact, no call waits, and messages of
//! others match as always. The sender, before a message that is short enough to end unmatched: a program may rely on that. Then
//! Unbind → Unbound → Open, the first only if it begins at the receiver: the sender hears of it and says that it
//! delivers no more; the receiver waits until the slot is settled (taken back, or the sender was faster; then the ordinary
//! receive is cancelled) and opens; the sender sends what it kept in the ordinary way, in order.
//!
//! # What follows
//! * Only messages longer than [`Limits::unmatched_bytes`](mtmi::Limits::unmatched_bytes) are bound: what waits at
//!   the sender for its receive would wait without us too. A shorter one leaves at once without any receive, and costs less than
//!   a slot: counted by callgrind in shared memory, `MPI_Start` and `MPI_Wait` take 966 instructions to send 4 bytes in the ordinary way and
//!   827 to receive them; through a slot 2127 and 946, without those that copy (300 000 bytes).
//! * Any long message of a bound stream is delivered in the slot, also of another request: the n-th goes to the n-th receive.
//! * A message of any length that follows, to the same process in the same context, one that is kept for its receive leaves when the
//!   receiver has made progress and not at once: a receive with any tag has to get them in order.
//! * A receive that is taken back needs the sender's progress to end, as its cancelling does.
//! * A pair that is unbound again and again, without having carried much, waits longer each time before it offers.
//!
//! # Collectives
//! The long messages of persistent collectives are bound too ([`crate::coll`]'s `streams` says which and why no others). Their streams are *exact*: in
//! the context of collectives there are no wildcards and no probes, so what waits in one stream holds up no other, and a
//! receive that is taken back from its slot is posted as an ordinary one when the slot is settled, which no other receive can tell.
//!
//! Distrust: a control message that no correct peer sends is dropped; it can keep only its own streams from moving.
//!
//! Who calls it: `beside.rs`, with the transport in hand. It knows cookies and data, and nothing of requests; what
//! it has to tell is in [`Event`]s. `bound/sender.rs` and `bound/receiver.rs` are the two ends, `bound/control.rs` the words between them.

mod control;
#[cfg(test)]
mod exact_tests;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use mtmi::slot::{Slot, SlotTable, Slots};
use mtmi::{Completion, Context, Cookie, Endpoint, Outcome, Transport};

use crate::comm::is_of_collectives;

pub use receiver::Incoming;
pub use sender::Outgoing;

use control::{Peer, Word};
use receiver::Receiving;
use sender::{Late, Sending};

/// Name of the slot table, once in a job.
const NAME: u32 = u32::from_be_bytes(*b"PERS");
/// Slots with each peer: one for control, the others for streams, which the receiver gives out.
const SLOTS: u32 = 32;
/// Index of the slot for control.
const CONTROL: u32 = 0;

/// Most words that are taken from a peer before others are looked at.
const WORDS: u32 = 64;

/// Set in the cookie of a receive's ordinary half, while its slot is taken back. No request has so many parts.
pub const FALLBACK: u64 = 1 << 62;

/// Messages of one process to another in one context with one tag; the peer is the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The other end.
    pub peer: Endpoint,
    /// The context.
    pub context: Context,
    /// The tag.
    pub tag: i32,
}

/// What became of a transfer.
#[derive(Debug)]
pub enum Event {
    /// The receive has two parts from here on: the one in the slot, and one with [`FALLBACK`] in its cookie.
    Split(Cookie),
    /// A part of the receive is over and says nothing of its outcome.
    PartOver(Cookie),
    /// A transfer ended.
    Completed(Completion),
}

/// What slots were used for so far: what `YAMABIKO_SLOTS_REPORT` asks for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Messages that were delivered into a slot.
    pub sent: u64,
    /// Messages that came into a slot.
    pub received: u64,
    /// How often a stream was bound, of those to and those from other processes.
    pub bound: u64,
    /// How often one was unbound; the death of a peer is none of these.
    pub unbound: u64,
}

/// All streams of this process that persistent requests use.
#[derive(Default)]
pub struct Bound {
    table: Option<SlotTable>,
    /// Opening the table was refused: nothing is bound.
    refused: bool,
    /// Messages longer than this may be bound.
    least: u64,
    peers: Vec<Peer>,
    sends: Vec<Sending>,
    receives: Vec<Receiving>,
    /// Messages to be sent in the ordinary way, when those before them have left; in the order of sending.
    late: Vec<Late>,
    /// Messages that were kept here so far.
    number: u64,
    events: Vec<Event>,
    /// Receives that ended in their slots and whose ordinary halves are still to end.
    halves: Vec<Cookie>,
    counts: Counts,
}

/// The transfer of a cookie, whichever its half.
fn transfer(cookie: Cookie) -> u64 {
    cookie.0 & !FALLBACK
}

/// Whether a transfer is one of the request that this cookie names, whichever its part.
fn is_of(transfer: u64, request: Cookie) -> bool {
    transfer as u32 == request.0 as u32
}

impl Stream {
    /// Whether only this stream's own receives accept its messages: it is a collective's, in whose context there are no wildcards
    /// and no probes.
    fn is_exact(self) -> bool {
        is_of_collectives(self.context.0)
    }

    fn end(self, cookie: Cookie, bytes: u64, outcome: Outcome) -> Event {
        Event::Completed(Completion {
            cookie,
            source: self.peer,
            tag: self.tag,
            bytes,
            outcome,
        })
    }
}

impl Bound {
    /// Whether anything may have been bound.
    pub fn is_open(&self) -> bool {
        self.table.is_some()
    }

    /// Opens the table at the first request that may be bound. False: none will be.
    pub fn open<T: Transport + Slots>(&mut self, m: &mut T) -> bool {
        if self.table.is_some() || self.refused {
            return self.table.is_some();
        }
        match m.open_slots(NAME, SLOTS) {
            Ok(table) => self.table = Some(table),
            Err(_) => self.refused = true,
        }
        self.least = m.limits().unmatched_bytes as u64;
        self.table.is_some()
    }

    /// Whether a persistent request of so many bytes with that peer may be bound.
    fn may_bind<T: Transport>(&self, m: &T, peer: Endpoint, bytes: u64) -> bool {
        self.table.is_some() && bytes > self.least && peer != m.endpoint()
    }

    fn slot(&self, peer: Endpoint, index: u32) -> Slot {
        let table = self.table.unwrap_or(SlotTable(u32::MAX));
        Slot { table, peer, index }
    }

    /// Moves everything that can move. Says whether anything did, or waits to be told.
    pub fn progress<T: Transport + Slots>(&mut self, m: &mut T) -> bool {
        let mut moved = false;
        for at in 0..self.peers.len() {
            for _ in 0..WORDS {
                let Some((stream, word)) = self.hear(m, at) else {
                    break;
                };
                self.take(m, stream, word);
                moved = true;
            }
        }
        for at in 0..self.receives.len() {
            moved |= self.look(m, at);
        }
        for at in 0..self.sends.len() {
            moved |= self.pump(m, at);
        }
        moved |= self.release(m);
        for at in 0..self.peers.len() {
            moved |= self.speak(m, at);
        }
        moved || !self.events.is_empty()
    }

    fn take<T: Transport + Slots>(&mut self, m: &mut T, stream: Stream, word: Word) {
        match word {
            Word::Offer => self.offered(stream),
            Word::Propose => self.proposed(m, stream),
            Word::Accept { slot, plain } => self.accepted(stream, slot, plain),
            Word::Refuse => self.refused(m, stream),
            Word::Unbind => self.asked_to_unbind(stream),
            Word::Unbound => self.unbound(m, stream),
            Word::Open => self.opened(m, stream),
        }
    }

    /// What has ended since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What slots were used for so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether nothing to be sent is kept here.
    pub fn flushed(&self) -> bool {
        self.late.is_empty() && self.sends.iter().all(Sending::is_flushed)
    }

    /// A persistent request is freed, all parts of it; what is under way of it goes on.
    pub fn forget<T: Transport + Slots>(&mut self, m: &mut T, cookie: Cookie) {
        self.forget_send(cookie);
        self.forget_receive(m, cookie);
    }

    /// A process is gone.
    pub fn peer_failed<T: Transport + Slots>(&mut self, m: &mut T, peer: Endpoint) {
        if let Some(found) = self.peers.iter_mut().find(|p| p.endpoint == peer) {
            found.fail();
        }
        self.fail_sends(peer);
        for at in 0..self.receives.len() {
            self.look(m, at);
        }
    }
}
