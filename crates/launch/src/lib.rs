//! The launcher: starts the ranks of a job, speaks PMI with them, joins their output and sees to it
//! that nothing is left when the job ends, however it ends.
//!
//! ```text
//!  mpiexec   event loop (job): PMI server, output, signals, verdict
//!     │  sequenced packets (message)
//!  keeper    small process: starts the ranks, is their parent and the reaper of what they leave;
//!     │      kills everything when mpiexec is gone
//!  ranks     one process group each, perhaps a wrapper (`bash -c`) around the MPI program
//! ```
//!
//! Decisions are made by parts without I/O, which tests drive directly: [`options`] (command line),
//! `pmi` (the PMI-1 server), `output` (lines), `course` (what is done when at the end) and
//! `verdict` (exit code and reason). The binaries `mpiexec` and `yamabiko` are thin.

#![deny(unsafe_code)]

mod course;
mod environment;
mod family;
pub mod hang;
pub mod info;
pub mod job;
mod keeper;
mod message;
pub mod options;
mod os;
mod output;
mod placement;
mod pmi;
mod verdict;
