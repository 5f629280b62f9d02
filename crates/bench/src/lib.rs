//! `yamabiko bench`: what Yamabiko costs, beside other MPI libraries on the same machine in the same minutes.
//!
//! ```text
//!  command        what is asked, and what is done then
//!    ├─ experiment, experiments   what can be measured, as data; each has a kernel, a C program in `kernels`
//!    ├─ implementation            how kernels are compiled and started;  peers   finding and installing others
//!    ├─ runner      in which order, and which rounds count; knows nothing of kernels
//!    │    └─ calibrate            the machine itself, before, between and after runs
//!    ├─ kernels     kernels compiled and run;  process   one bounded run;  lines   what a kernel prints
//!    └─ report      what was measured;  statistics   medians and ratios;  table, plot   text and drawing
//! ```
//!
//! A machine may change its own speed between two runs (virtual processors move), so no figure stands alone:
//! implementations take turns, figures are compared within a round, and rounds during which the machine changed
//! are run again.
//!
//! Called by the command `yamabiko`.

#![forbid(unsafe_code)]

mod busy;
mod calibrate;
pub mod command;
mod experiment;
mod experiments;
mod implementation;
mod kernels;
mod lines;
mod peers;
mod plot;
mod process;
mod report;
mod runner;
mod statistics;
mod table;

/// Result of this crate: the error is a sentence for the person at the terminal.
pub type Result<T> = std::result::Result<T, String>;
