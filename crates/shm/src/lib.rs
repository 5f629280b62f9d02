//! The shared-memory fabric: all ranks of one node over one sealed segment.
//!
//! # How a message travels
//! * Up to 48 bytes: one cache line of the pair's ring, header and data together.
//! * Up to 2 KiB: a cell of the ring, and consecutive lines elsewhere for the data (`lines`).
//! * Up to 12 KiB, where that brings anything: a cell of the ring, and one of the *sheets* that both directions share (`sheets`), as long as the process has one.
//! * Above: announced in the ring; the data stream through a pipe in chunks of up to 32 KiB, with
//!   both sides copying at once: through one that both directions share, if it is free and brings anything (`common`), else through the direction's own. If there is room in it, up to
//!   128 KiB go with the announcement;
//!   the rest waits until the receiver has matched the message and asks for it. So whatever is in a
//!   pipe can be drained at once (unmatched data go to the heap, at most that much per
//!   message) and no message holds up another.
//! * From 16 KiB on, where the system lets the processes and it has been measured to take less time than the pipe: lent in the ring, and copied
//!   by the kernel from one process's own memory to the other's, which from 32 KiB on both sides have it do (`direct`).
//! * More than a pipe holds, out of mapped memory: offered in the ring, and copied where it lies: by the receiver, or by both sides
//!   if it goes to mapped memory too (`mapped`).
//!
//! For what one process tells many there are boards, and [stretches](Stretch) of common memory.
//!
//! Where the partner is known beforehand there are slots as well, without rings and queues: see `slots`.
//!
//! What finds a full ring waits in a queue per peer, in order.
//!
//! # Invariants
//! One `Shm` per process and segment; a lane is written by one process and read by one other. A
//! wake-up is never lost: whoever publishes rings the doorbell afterwards, whoever sleeps announces
//! it and looks once more. What a peer wrote is read once and bounded before use.
//!
//! It implements [`mtmi::Fabric`]; [`mtmi::Matched`] makes a transport of it, alone or together with others.

mod absence;
mod boards;
mod chunking;
mod common;
#[cfg(all(test, loom))]
mod common_loom;
mod connect;
mod direct;
#[cfg(all(test, not(loom)))]
mod direct_tests;
mod early;
mod fabric;
mod failure;
mod footprint;
mod foreign;
#[cfg(test)]
mod hostile_tests;
mod incoming;
mod lane;
mod lines;
mod mapped;
#[cfg(all(test, not(loom)))]
mod mapped_tests;
mod outgoing;
mod pipe;
mod places;
mod port;
mod receive;
mod ring;
#[cfg(all(test, loom))]
mod ring_loom;
mod segment;
mod send;
mod sheets;
#[cfg(all(test, loom))]
mod sheets_loom;
mod shelf;
mod slots;
mod space;
mod split;
#[cfg(all(test, loom))]
mod split_loom;
mod state;
mod stretch;
mod trial;
mod tunables;
mod turns;
mod waiting;
mod wire;

pub use connect::{Config, InitError, VERSION};
pub use direct::Choice;
pub use foreign::Foreign;
pub use port::{AtOnce, Port, Ports};
pub use slots::{SlotPort, SlotPorts, Taken};
pub use state::Shm;
pub use stretch::Stretch;
pub use tunables::tunables;
pub use waiting::{Armed, Sleeper};
