//! The protocol with all peers, without I/O: what is under way, and what is known of each peer.
//!
//! `outgoing` decides what goes to a peer next, `incoming` takes what came from it, `endings` cancels and fails.
//! The sockets' side asks [`Protocol::offer`] for bytes and says how many left ([`Protocol::sent`]); it hands in what it read
//! ([`Protocol::feed`]), or reads to where [`Protocol::direct`] says and tells so ([`Protocol::arrived`]).
//!
//! # How a message travels
//! A `Message` frame brings along what fits the credit and [`EARLY`](crate::frame::EARLY). Is that all, the
//! sender is done with it. Otherwise the receiver asks for the rest once a receive has matched it (`Clear`), and the rest comes in
//! `Data` frames, between which other messages travel. So everything that is in a connection can be taken
//! out at once, unmatched data to the heap within the window, and no message holds up another.
//!
//! # Invariants
//! * `credit` of one side is what the other side still grants, less what is on its way.
//! * A frame is never left in the middle for another: `staged`, then `tail`, then the next frame.
//! * A name that a peer mentions is looked up and checked to be about that peer.

use std::collections::VecDeque;

use layout::{Reader, Writer};
use mtmi::{Completion, Cookie, Endpoint, Names, Outcome, Outgoing};

use crate::frame::{Frame, HEADER, WINDOW};
use crate::slots::{Place, SlotSend, SlotState};

/// What is under way with all peers.
pub(crate) struct Protocol {
    pub links: Vec<Link>,
    pub sends: Names<Send>,
    pub arriving: Names<Arriving>,
    pub slots: SlotState,
    /// Peers that were given something to send; the sockets' side empties it.
    pub dirty: Vec<u32>,
}

/// What is known of a peer.
pub(crate) struct Link {
    /// Frames that have not been begun, in order.
    pub queue: VecDeque<Queued>,
    /// Messages that were asked for, in turn.
    pub streams: VecDeque<u64>,
    /// Whether the next turn is a stream's.
    pub streams_turn: bool,
    /// Bytes ready to be sent, from `staged_from` on.
    pub staged: Vec<u8>,
    pub staged_from: usize,
    /// The body that follows them.
    pub tail: Option<Tail>,
    /// Bytes that may be sent unasked.
    pub credit: u64,

    /// A header that has come in part.
    pub header: [u8; HEADER],
    pub header_len: usize,
    /// Where the bytes of the frame that is arriving go,
    pub body: Body,
    /// and how many are missing.
    pub body_left: usize,
    /// Bytes that the peer may send unasked.
    pub granted: u64,
    /// Bytes that were consumed and not reported.
    pub owed: u64,
    /// Whether the peer said that nothing more comes.
    pub bye: bool,
    pub failed: bool,
    /// Whether it is in `Protocol::dirty`.
    pub dirty: bool,
}

/// What waits to be sent.
pub(crate) enum Queued {
    Control(Frame),
    Send(u64),
}

/// A body that is being sent: so many bytes of a send.
pub(crate) struct Tail {
    pub send: u64,
    pub left: u64,
}

/// A send under way.
pub(crate) struct Send {
    pub message: Outgoing,
    /// Made when the data begin to move; stands at the next byte.
    pub reader: Option<Reader>,
    /// Bytes that were put into frames.
    pub framed: u64,
    pub state: Sending,
    /// A frame of it is the tail.
    pub leaving: bool,
    /// The receiver was asked to drop it.
    pub cancelling: bool,
    /// Where it goes, if it is a delivery to a slot and not a message.
    pub slot: Option<SlotSend>,
}

/// How far a send is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sending {
    /// Waits to be begun.
    Queued,
    /// All of it is in a frame, and nobody has to answer.
    Leaving,
    /// All of it is in a frame; waits to be matched.
    AwaitsMatch,
    /// Waits to be asked for the rest.
    AwaitsClear,
    /// Streams up to byte `until` to the receiver's entry `target`.
    Streams { target: u64, until: u64 },
    /// It is over as soon as its frame has left.
    Ends(Outcome),
}

/// A message that did not come whole: its receiver has to ask for the rest.
pub(crate) struct Arriving {
    pub from: u32,
    /// The sender's name for it.
    pub name: u64,
    pub tag: i32,
    pub total: u64,
    /// Bytes that come without being asked for.
    pub early: u64,
    pub arrived: u64,
    /// Bytes that come in all, as things stand.
    pub expected: u64,
    pub sink: Sink,
}

/// Where the data of such a message go.
pub(crate) enum Sink {
    /// Nobody has matched it yet.
    Heap(Vec<u8>),
    /// Into a receive's memory.
    User {
        writer: Writer,
        capacity: u64,
        cookie: Cookie,
    },
}

/// Where the bytes of a frame go.
pub(crate) enum Body {
    /// There are none.
    None,
    /// A whole message, to its receive.
    Matched {
        writer: Writer,
        receive: mtmi::Receive,
        tag: i32,
        total: u64,
        synchronous: Option<u64>,
    },
    /// A whole message that nobody waits for.
    Kept {
        buffer: Vec<u8>,
        tag: i32,
        context: u32,
        synchronous: Option<u64>,
    },
    /// The next bytes of an entry of `Protocol::arriving`.
    Part(u64),
    /// The next bytes of a delivery, to the receive in a slot.
    Slot { place: Place, writer: Writer },
}

impl Protocol {
    /// With `ranks` peers, one of which is this process and stays idle.
    pub fn new(ranks: u32) -> Protocol {
        Protocol {
            links: (0..ranks).map(|_| Link::new()).collect(),
            sends: Names::new(),
            arriving: Names::new(),
            slots: SlotState::new(ranks),
            dirty: Vec::new(),
        }
    }

    /// Whether `peer` can't be talked to (any more).
    #[inline]
    pub fn is_gone(&self, peer: Endpoint) -> bool {
        self.links
            .get(peer.index())
            .is_none_or(|link| link.failed || link.bye)
    }

    /// Notes that there is something to send to `peer`.
    #[inline]
    pub fn mark_dirty(&mut self, peer: u32) {
        let link = &mut self.links[peer as usize];
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(peer);
        }
    }
}

impl Link {
    fn new() -> Link {
        Link {
            queue: VecDeque::new(),
            streams: VecDeque::new(),
            streams_turn: false,
            staged: Vec::new(),
            staged_from: 0,
            tail: None,
            credit: WINDOW,
            header: [0; HEADER],
            header_len: 0,
            body: Body::None,
            body_left: 0,
            granted: WINDOW,
            owed: 0,
            bye: false,
            failed: false,
            dirty: false,
        }
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.streams.is_empty()
            && self.staged.is_empty()
            && self.tail.is_none()
    }
}

impl Arriving {
    /// The completion of the receive that matched it.
    pub fn completion(&self, cookie: Cookie, capacity: u64) -> Completion {
        let outcome = if self.total > capacity {
            Outcome::Truncated { sent: self.total }
        } else {
            Outcome::Done
        };
        Completion {
            cookie,
            source: Endpoint(self.from),
            tag: self.tag,
            bytes: self.total.min(capacity),
            outcome,
        }
    }
}
