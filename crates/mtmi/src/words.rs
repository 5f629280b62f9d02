//! The nouns of the interface: who, where, which message, how it ended.

use std::fmt;

/// A process of the job, counted from 0 and the same number in every process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Endpoint(pub u32);

impl Endpoint {
    /// The number as an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whose message a receive or probe accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// Anybody's.
    Any,
    /// Only this process's.
    From(Endpoint),
}

/// Which tag a receive or probe accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TagSel {
    /// Any tag.
    Any,
    /// Only this one.
    Exact(i32),
}

/// A separate space of messages: a receive never matches a message of another context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Context(pub u32);

/// The caller's name for a request. The transport hands it back and never looks inside; the caller
/// keeps it unique among the requests that are pending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cookie(pub u64);

/// When a send is complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SendMode {
    /// When its buffer may be used again.
    Standard,
    /// When, besides, a receive has matched it.
    Synchronous,
    /// As `Standard`; the caller promises that the receive is posted.
    Ready,
    /// As `Standard`; a receiver that can copy the data from where they lie does so, even if another way was measured to be faster: the sender may compute meanwhile.
    Lent,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// As asked.
    Done,
    /// The message was longer than the receive's memory; what fits was received.
    Truncated {
        /// Bytes of the whole message.
        sent: u64,
    },
    /// It was cancelled: no data moved, and none will.
    Cancelled,
    /// The other process is gone or sent what no correct process sends.
    PeerFailed,
}

/// The end of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Whose request it is.
    pub cookie: Cookie,
    /// Receives: who sent the message. Sends: who it was for.
    pub source: Endpoint,
    /// The message's tag.
    pub tag: i32,
    /// Bytes that arrived in the receive's memory, or were sent.
    pub bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What starting an operation led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Submit {
    /// It is over already; no other completion follows.
    Complete(Completion),
    /// One completion with its cookie will come out of `progress`.
    Pending,
}

/// What a probe sees of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Who sent it.
    pub source: Endpoint,
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: u64,
}

/// A message that `mprobe` took out of matching, to be received by `imrecv` once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageId(pub u64);

/// What a transport can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bits of a tag that travel; 32 means every `i32`.
    pub tag_bits: u32,
    /// Bits of a context that travel.
    pub context_bits: u32,
    /// Bytes of a contiguous message that are sent with no request at all.
    pub inline_bytes: usize,
    /// Bytes of a message that are sent without waiting for the receiver.
    pub eager_bytes: usize,
    /// A send of more bytes than this isn't complete before it has matched, to whomever it goes.
    pub unmatched_bytes: usize,
    /// Number of endpoints.
    pub endpoints: u32,
}

/// An optional capability that this transport lacks, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsupported(pub &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transport does not support {}", self.0)
    }
}

impl std::error::Error for Unsupported {}
