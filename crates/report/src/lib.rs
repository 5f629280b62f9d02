//! The page in which every rank notes what it waits for, so that a hang can be explained.
//!
//! The launcher makes a sealed memfd with one record per rank and lets every rank inherit it
//! ([`Book`]); a rank's engine maps it ([`ReportPage::join`]) and writes its own record when a call
//! *starts to wait*. Nothing is added to calls that do not wait, and no signal and no cooperation of
//! the rank is needed to read it: a rank that is stuck, stopped or dead has already said where.
//! The other way round the launcher tells the ranks in it which of them are gone, and who of these in order. A job on several
//! hosts has a page on each; the launcher's own holds copies of the other hosts' records.
//!
//! Invariants: the file's size is sealed, so no other holder can make a mapping fault; a record has
//! one writer at a time; a reader believes nothing (any bit pattern is a valid record to read, text
//! is bounded and filtered), because every rank can write to the whole file.

#![deny(unsafe_code)]

mod map;
mod record;

pub use map::Book;
pub use record::{NONE, Phase, Record, ReportPage, now_ns};

/// Environment variable with the number of the inherited file descriptor.
pub const FD_VARIABLE: &str = "YAMABIKO_REPORT_FD";

/// Environment variable that the launcher sets to 1 when the death of a rank does not end the job, so
/// that the others look for it ([`ReportPage::deaths`]).
pub const KEEPS_RUNNING_VARIABLE: &str = "YAMABIKO_DISABLE_AUTO_CLEANUP";

/// Whether the launcher said so. An empty variable is as good as none.
pub fn keeps_running() -> bool {
    std::env::var_os(KEEPS_RUNNING_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Name of the memfd, as `/proc/<pid>/fd` shows it: how a running job's page is found from outside.
pub const FILE_NAME: &str = "yamabiko-report";
