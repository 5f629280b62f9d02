//! CAD as a library of its own: descriptors that a program makes node by node, what an executor of
//! them is, and the one that runs them inside the program's calls. Knows nothing of MPI: the processes are those that an MTMI
//! transport joins.
//!
//! # The three layers
//!
//! * [`Descriptor`] (CAD interface): nodes with addresses, bytes and process numbers, and edges between
//!   them, as the KACC paper has them: `MakeSendNode`, `MakeRecvNode`, `MakeCalcNode`, `ConnectNode`.
//!   [`Descriptor::plan`] turns them into a verified [`Plan`], which may be issued any number of times.
//! * [`Executor`] (progress engine): issues plans, advances them whenever something completes, and
//!   writes each one's word at its END. [`Inline`] does that in the program's calls; crate `cad-ring`
//!   has one that leaves it to the kernel. [`Choice`] is what the environment asks for.
//! * [`mtmi::Transport`] (point-to-point): moves the messages and says what completed.
//!
//! # Which message is meant
//!
//! Nodes have no tags. A descriptor belongs to a *channel*, a number on which the processes agree. The n-th
//! issue on a channel in one process belongs to the n-th in another, and there the k-th send node made
//! for a process to the k-th receive node that this made for the first. So descriptors of one
//! channel are issued in the same order everywhere (as collectives on a communicator are), those of
//! different channels in any.
//!
//! # The word
//!
//! [`Issued::query`] is one load of a word that END writes, whoever executes: no lock, no system
//! call. With [`Inline`] a program that only queries sees no progress; it calls [`Executor::progress`]
//! (or waits), which is what running inline means. Where an issue begins in a later call only, its word is [`UNBEGUN`] till then, so that
//! whoever looks at words knows when to call.
//!
//! # Failure and cancellation
//!
//! When a message fails, or one of its members is gone, or it is cancelled, a plan starts nothing more,
//! takes back what is under way, and END writes why as soon as no buffer is in use any more. Cancelling is
//! local with [`Inline`]: the others then wait for what does not come, so all cancel or none.
//!
//! # Buffers
//!
//! Nodes have [`UserBuf`]s: whoever makes one promises that its memory is valid while a plan with it
//! is under way.

#![forbid(unsafe_code)]

mod descriptor;
mod executor;
mod inline;

pub use boundary::UserBuf;
pub use descriptor::{Calc, Descriptor, END, Known, Plan, Refused, START, barrier};
pub use executor::{Callback, Choice, Counts, Executor, Issued, NotIssued, State, UNBEGUN};
pub use inline::Inline;
