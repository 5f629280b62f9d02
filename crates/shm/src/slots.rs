//! Matching slots in shared memory.
//!
//! # Where things lie
//! One sealed sparse file per node, beside the segment ([`area`]): each process has an area of it, with a directory of
//! the tables that it opened, its *lines* for every peer and table, its pipes, and its arena of mapped memory. Only
//! what is used is touched or mapped. Every process keeps the descriptor, so nothing has to be passed on later.
//!
//! # How a message travels
//! A line is written by one process and read by one other ([`line`]). It holds both what its writer says as
//! a receiver (the header: where its buffer is) and what it says as a sender (the landing: what became of the other's
//! receive), so a reply with the next receive posted before it costs one cache line.
//! * Up to 24 bytes ride in the landing.
//! * Into mapped memory the sender stores directly; from 32 KiB on, if its own memory is mapped too, both sides copy
//!   (`split`).
//! * From 16 KiB on, between memory without gaps, the kernel copies where that is measured to be faster: both sides have it do so (`split`), as for messages
//!   that are [lent](crate::direct).
//! * Everything else streams through a pipe of the pair, as long messages do ([`flow`]). So it does where a mapping or a copy is refused.
//!
//! Who posts, delivers or takes up to 24 bytes may do it without the fabric ([`port`]).
//!
//! A receive is taken back by a message in the ring, which its sender answers ([`ask`]).
//!
//! # Invariants
//! * A line's generation counts the receives posted in its slot; the sender keeps how many it has consumed. A header is
//!   new if its generation is one more. Nothing is cleared, and nothing stale is ever believed.
//! * Memory in which a receive is posted is written by its owner, or by the sender between reading the header and
//!   publishing the landing of the same generation.
//! * What a peer wrote is read once, bounded and then used. What no correct peer writes makes it a suspect.

mod area;
mod arena;
mod ask;
mod deliver;
mod fabric;
mod flow;
#[cfg(all(test, not(loom)))]
mod hostile_tests;
#[cfg(all(test, not(loom)))]
mod lent_stress_tests;
#[cfg(all(test, not(loom)))]
mod lent_tests;
mod line;
#[cfg(all(test, loom))]
mod line_loom;
mod pipes;
mod port;
#[cfg(all(test, not(loom)))]
mod port_tests;
mod receive;
mod split;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use area::{Area, size};
pub(crate) use line::{INLINE, Line};
pub use port::{SlotPort, SlotPorts, Taken};
pub(crate) use table::SlotState;
