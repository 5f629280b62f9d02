//! MTMI, the matching transport interface: what a fabric offers to those who exchange messages.
//!
//! Matching belongs to the interface. A caller says "receive from this source, in this context,
//! with this tag", and the fabric finds the message, be it in hardware, at the sender or with the
//! [`matching`] library of this crate. Nothing here knows of MPI: there are endpoints, contexts,
//! tags, descriptions of memory ([`layout::Data`]) and cookies that name requests.
//!
//! * [`Transport`]: the interface, and the rules that every fabric keeps;
//! * [`Exchange`]: how fabrics of one job find each other at start;
//! * [`slot`]: matching at the sender, for traffic whose partner is known beforehand;
//! * [`Boards`]: memory of each process that the others of its machine read;
//! * [`matching`]: posted receives and unexpected messages, for fabrics that only move bytes.
//!
//! A fabric that only moves bytes implements [`Fabric`], and [`Matched`] makes a transport of it.
//!
//! Who calls it: an engine above (or a test, or any other program) calls the trait; fabrics
//! (`shm`, later others) implement it and use the matching library inside.

#![forbid(unsafe_code)]

mod board;
mod exchange;
mod fabric;
mod matched;
pub mod matching;
mod names;
mod patience;
mod queues;
pub mod slot;
mod transport;
mod words;

pub use board::{Boards, Watched};
pub use exchange::{Exchange, ExchangeError};
pub use fabric::{Fabric, Outgoing};
pub use matched::Matched;
pub use names::Names;
pub use patience::Patience;
pub use queues::{Body, Message, Queues, Receive, SHORT};
pub use transport::{Remote, Sleeper, Transport};
pub use words::{
    Completion, Context, Cookie, Endpoint, Envelope, Limits, MessageId, Outcome, SendMode, Source,
    Submit, TagSel, Unsupported,
};
