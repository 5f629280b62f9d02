//! `yamabiko bench`: what Yamabiko costs, beside other MPI libraries on the same machine in the same minutes.
//!
//! ```text
//!  command        what is asked, and what is done then;  plan   which panels that is
//!    ├─ experiment, experiments   what can be measured, as data; each has a kernel, a C program in `kernels`
//!    ├─ implementation            how kernels are compiled and started;  peers   finding and installing others;
//!    │                            progress  each way in which they can be made to progress
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
//! # Adding an experiment
//!
//! Write a kernel (`kernels/bench.h` says what it is given and what it prints; `bench_mpi.h` has batches for MPI
//! programs) and an entry in `experiments`. Everything else follows: the command line, tables, drawings, the stage
//! `bench` of the tests.
//!
//! Kernels for another interface than MPI need three lines more: a variant of `experiment::Interface`; a function in
//! `implementation` that fills in an `Implementation` (its compiler with options, the libraries behind the source,
//! the launcher, variables), one for each way in which the interface is provided and is to be compared, such as
//! `Implementation::yamabiko("x", prefix)` with another interface, name, `libraries` and `environment`; and a line in
//! `command::implementations` that adds them to the others. A series appears wherever an experiment has a kernel
//! for its interface; an experiment with kernels for two interfaces compares them.
//!
//! Experiments that belong together have a group (`experiments::GROUPS`), whose name on the command line means all of
//! them. What a paper prints for a panel stands in `Panel::printed` and is shown below its table.
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
mod markdown;
mod peers;
mod plan;
mod plot;
mod process;
mod progress;
mod report;
mod runner;
mod statistics;
mod table;

pub use process::exit_code;

/// Result of this crate: the error is a sentence for the person at the terminal.
pub type Result<T> = std::result::Result<T, String>;
