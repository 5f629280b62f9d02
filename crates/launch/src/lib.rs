//! The launcher: starts the ranks of a job, speaks PMI with them, joins their output and sees to it
//! that nothing is left when the job ends, however it ends.
//!
//! ```text
//!  mpiexec   event loop (job): PMI server, output, signals, verdict
//!     │  │
//!     │  └── frames over a launcher command (ssh) ── daemon on another host ── further daemons
//!     │                                                │ node: as below
//!  node       the ranks of one host: their sockets and pipes
//!     │  sequenced packets (message)
//!  keeper    small process: starts the ranks, is their parent and the reaper of what they leave;
//!     │      kills everything when mpiexec (or the daemon) is gone
//!  ranks     one process group each, perhaps a wrapper (`bash -c`) around the MPI program
//! ```
//!
//! mpiexec's own ranks and those of other hosts are one mechanism: what they say and are told are the
//! messages of `protocol`, handed over directly or framed (`frame`, `channel`, `branches`, `daemon`). A
//! link is a launcher command's standard input and output, so nothing listens on a port and ssh
//! protects it. The daemons form a tree (`tree`); PMI's key-value space and barrier stay with mpiexec,
//! which costs a round trip through the tree for each request and one message for each rank of a barrier.
//!
//! Decisions are made by parts without I/O, which tests drive directly: [`options`] (command line),
//! `spread` (which rank on which host), `pmi` (the PMI-1 server), `output` (lines), `course` (what is
//! done when at the end) and `verdict` (exit code and reason). The binaries `mpiexec` and `yamabiko`
//! are thin.

#![deny(unsafe_code)]

mod branches;
mod channel;
mod course;
pub mod daemon;
mod environment;
mod family;
mod frame;
pub mod hang;
pub mod info;
pub mod job;
pub mod kaccd;
mod keeper;
mod limits;
mod message;
mod node;
pub mod options;
mod os;
mod output;
mod placement;
mod pmi;
mod protocol;
pub mod show;
mod spread;
pub mod steer;
mod tree;
pub mod variables;
mod verdict;
mod watch;
