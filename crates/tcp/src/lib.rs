//! The TCP fabric: processes of a job over connections that prove to know the job's secret.
//!
//! # Two layers
//! * Without I/O: `frame` (headers), `protocol` with `outgoing`, `incoming` and `endings` (what goes to a peer next,
//!   what came from it), `handshake`. Tests and fuzzers drive them with bytes.
//! * With it: listening ([`Tcp::listen`]) and joining (`state`), calling a peer (`dial`), answering callers (`accept`),
//!   established connections (`stream`), what watches them all (`reactor`: epoll or io_uring; `unwatched` has the one
//!   that is read without being told),
//!   whom to call because nothing comes from him (`senders`), and what is done when a connection finds no descriptor (`room`).
//!
//! # How a message travels
//! Short ones leave with one system call, header and data together, from where they lie. Longer ones bring along as much as the
//! peer's credit covers; the rest follows when a receive has matched, read from the socket straight into its memory, in
//! fragments between which other messages pass. See `protocol`.
//!
//! Deliveries to slots go to the posted receive without queue or question: see `slots`.
//!
//! # Invariants
//! One connection per pair, made when it is first needed; a lost one is not replaced, its peer has failed. Nothing
//! that came over a connection is believed before its handshake, and everything is bounded after it. A peer's host that
//! confirms nothing for ten seconds though asked counts as gone; a peer that is stopped does not.
//!
//! Called by the engine through [`mtmi::Matched`], which makes a matching transport of it.

mod accept;
mod address;
mod callers;
mod config;
mod dial;
mod endings;
mod epoll;
mod fabric;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
#[cfg(test)]
mod hostile_tests;
mod incoming;
mod interfaces;
pub mod meeting;
mod memory;
mod outgoing;
mod protocol;
#[cfg(test)]
mod protocol_tests;
mod reactor;
mod room;
mod senders;
#[cfg(test)]
mod senders_tests;
mod slots;
mod socket;
mod state;
mod stream;
mod timers;
mod tunables;
mod unwatched;
#[cfg(test)]
mod unwatched_tests;
mod uring;
mod waiting;

pub use config::{Config, Error, ReactorKind};
pub use reactor::is_allowed_here;
pub use state::{Listening, Tcp};
pub use tunables::TUNABLES;
pub use waiting::{Armed, Sleeper};
