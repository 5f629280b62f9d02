//! FMPL, the message-passing library that matches at the sender, without its C names.
//!
//! A receive writes where its buffer is into a slot *at the sender*; the sender finds it there and writes the data
//! home: no queue, no search, no copy. (The design is that of O. Tatebe and others, "Design and implementation
//! of FMPL"; section numbers in this crate are those of that paper.) [`fmpl_table`] says what each call means to a
//! program; this crate is how it is done, over [`mtmi::slot::Slots`] and [`mtmi::Transport`], and knows
//! nothing of MPI or of C.
//!
//! * [`Core`]: all state of a process: matching areas, communicators, what waits to be sent;
//! * [`area`]: one matching area: sends and receives by (process, index), receives from any index, the stash;
//! * [`Host`]: what the calls that wait need of whoever runs them: the core, the transport and a way to wait;
//! * [`p2p`], [`any`], [`build`], [`barrier`], [`bcast`], [`reduce`]: the calls.
//!
//! # Invariants
//! * A buffer of the program is read or written only between the call that names it and the one that says it is free
//!   again; where an operation can't end so, it ends with a code, and its buffer was asked back before.
//! * No call of the program's functions happens while the core is borrowed, so these may call FMPL and MPI.
//! * What peers wrote (lengths, indices, immediate values) is checked by the slots below or here before it is used.
//! * Whoever makes progress calls [`Core::progress`]: it alone sends what is spooled.
//!
//! Who calls it: `fmpl-entry`; tests with simulated peers.

#![forbid(unsafe_code)]

pub mod any;
pub mod area;
pub mod barrier;
pub mod bcast;
pub mod build;
mod comm;
mod core;
mod face;
pub mod finish;
mod flat;
mod host;
mod ops;
pub mod p2p;
mod pieces;
pub mod reduce;
mod stash;
mod steps;

pub use crate::comm::Comm;
pub use crate::core::{Core, LIBRARY, NAME_OF_TABLES, PROGRAM, is_ours};
pub use crate::host::{Below, Host, Waiting};
pub use crate::ops::{Func, Type};
pub use crate::stash::{Blocks, Stash};
