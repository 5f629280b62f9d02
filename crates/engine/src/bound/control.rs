//! What the two ends of a stream tell each other, and the slots in which they do.

use std::collections::VecDeque;

use boundary::AlignedBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slots};
use mtmi::{Context, Endpoint};

use super::{Bound, CONTROL, SLOTS, Stream};

/// Bytes of a control message: five little-endian words.
const BYTES: usize = 20;
/// Messages for a peer beyond which nothing that could be left out is said to it,
const MANY: usize = 32;
/// and beyond which it is not listened to until it listens itself.
const TOO_MANY: usize = 1024;

/// What is told about a stream. Offer, Accept, Refuse, Unbind and Open are the receiver's words, the others the sender's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// A persistent receive matched a message of this stream.
    Offer,
    /// So did a persistent send, and nothing is under way.
    Propose,
    /// Bound.
    Accept {
        /// The slot into which the receiver posts.
        slot: u32,
        /// Whether one ordinary message goes before.
        plain: bool,
    },
    /// Not bound.
    Refuse,
    /// Deliver no more.
    Unbind,
    /// No more is delivered.
    Unbound,
    /// Send in the ordinary way again.
    Open,
}

impl Word {
    fn encode(self, stream: Stream) -> [u8; BYTES] {
        let (kind, slot, plain) = match self {
            Word::Offer => (0, 0, false),
            Word::Propose => (1, 0, false),
            Word::Accept { slot, plain } => (2, slot, plain),
            Word::Refuse => (3, 0, false),
            Word::Unbind => (4, 0, false),
            Word::Unbound => (5, 0, false),
            Word::Open => (6, 0, false),
        };
        let mut bytes = [0; BYTES];
        let words = [
            kind,
            stream.context.0,
            stream.tag as u32,
            slot,
            u32::from(plain),
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None`: no correct process says this.
    fn decode(peer: Endpoint, bytes: &[u8; BYTES]) -> Option<(Stream, Word)> {
        let mut words = [0; 5];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(place.try_into().ok()?);
        }
        let [kind, context, tag, slot, plain] = words;
        let stream = Stream {
            peer,
            context: Context(context),
            tag: tag as i32,
        };
        let word = match kind {
            0 => Word::Offer,
            1 => Word::Propose,
            2 if slot > CONTROL && slot < SLOTS && plain <= 1 => Word::Accept {
                slot,
                plain: plain == 1,
            },
            3 => Word::Refuse,
            4 => Word::Unbind,
            5 => Word::Unbound,
            6 => Word::Open,
            _ => return None,
        };
        Some((stream, word))
    }
}

/// A process with which streams are or may be bound.
pub(super) struct Peer {
    pub endpoint: Endpoint,
    /// Slots of this peer's streams that this process has given out, a bit each.
    pub given: u32,
    inbox: AlignedBuf,
    outbox: AlignedBuf,
    /// A receive is posted into the inbox.
    listening: bool,
    /// The outbox is still read.
    leaving: bool,
    failed: bool,
    waiting: VecDeque<[u8; BYTES]>,
}

impl Peer {
    /// It is gone: nothing more is said to it.
    pub fn fail(&mut self) {
        self.failed = true;
        self.waiting.clear();
    }
}

impl Bound {
    /// The peer's number, if there is memory for it.
    pub(super) fn peer(&mut self, endpoint: Endpoint) -> Option<usize> {
        if let Some(at) = self.peers.iter().position(|p| p.endpoint == endpoint) {
            return Some(at);
        }
        self.peers.push(Peer {
            endpoint,
            given: 1 << CONTROL,
            inbox: AlignedBuf::new(BYTES)?,
            outbox: AlignedBuf::new(BYTES)?,
            listening: false,
            leaving: false,
            failed: false,
            waiting: VecDeque::new(),
        });
        Some(self.peers.len() - 1)
    }

    /// Says something about a stream; it leaves when the peer listens.
    pub(super) fn say(&mut self, stream: Stream, word: Word) {
        if let Some(at) = self.peer(stream.peer)
            && !self.peers[at].failed
        {
            self.peers[at].waiting.push_back(word.encode(stream));
        }
    }

    /// Whether a word that may be left out should be said.
    pub(super) fn may_say(&mut self, peer: Endpoint) -> bool {
        let peer = self.peer(peer).map(|at| &self.peers[at]);
        peer.is_some_and(|p| p.waiting.len() < MANY && !p.failed)
    }

    /// What the peer says next.
    pub(super) fn hear(&mut self, m: &mut impl Slots, at: usize) -> Option<(Stream, Word)> {
        let slot = self.slot(self.peers[at].endpoint, CONTROL);
        let peer = &mut self.peers[at];
        if peer.failed {
            return None;
        }
        if !peer.listening {
            if peer.waiting.len() > TOO_MANY {
                return None;
            }
            let inbox = Data::bytes(peer.inbox.buf(), BYTES as u64);
            peer.listening = m.post(slot, &inbox).is_ok();
        }
        let bytes = match m.landed(slot) {
            Landed::NotYet | Landed::Idle => return None,
            Landed::Done { bytes, .. } => bytes,
            Landed::Truncated { .. } | Landed::Withdrawn | Landed::PeerFailed => {
                peer.fail();
                return None;
            }
        };
        let mut message = [0; BYTES];
        peer.inbox.buf().read(&mut message);
        let inbox = Data::bytes(peer.inbox.buf(), BYTES as u64);
        peer.listening = m.post(slot, &inbox).is_ok();
        match bytes == BYTES as u64 {
            true => Word::decode(peer.endpoint, &message),
            false => None,
        }
    }

    /// Says what waits, if the peer listens.
    pub(super) fn speak(&mut self, m: &mut impl Slots, at: usize) -> bool {
        let slot = self.slot(self.peers[at].endpoint, CONTROL);
        let peer = &mut self.peers[at];
        let mut moved = false;
        loop {
            if peer.leaving {
                match m.delivered(slot) {
                    Delivery::Pending => return moved,
                    Delivery::PeerFailed => peer.fail(),
                    Delivery::Done { .. } | Delivery::Idle => {}
                }
                peer.leaving = false;
                moved = true;
            }
            let Some(message) = peer.waiting.front() else {
                return moved;
            };
            peer.outbox.buf().write(message);
            let outbox = Data::bytes(peer.outbox.buf(), BYTES as u64);
            match m.deliver(slot, &outbox, 0) {
                Ok(delivery) => peer.leaving = delivery == Delivery::Pending,
                Err(_) => return moved,
            }
            peer.waiting.pop_front();
            moved = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_and_others_do_not() {
        let stream = Stream {
            peer: Endpoint(3),
            context: Context(0x8000_0007),
            tag: -2,
        };
        let accept = Word::Accept {
            slot: 15,
            plain: true,
        };
        for word in [
            Word::Offer,
            Word::Propose,
            accept,
            Word::Refuse,
            Word::Unbind,
            Word::Unbound,
            Word::Open,
        ] {
            let bytes = word.encode(stream);
            assert_eq!(Word::decode(Endpoint(3), &bytes), Some((stream, word)));
        }
        for (place, value) in [(0, 7), (12, 0), (12, SLOTS as u8), (16, 2)] {
            let mut bytes = accept.encode(stream);
            bytes[place] = value;
            assert_eq!(Word::decode(Endpoint(3), &bytes), None, "{place} {value}");
        }
    }
}
