//! How a process learns which rank it is: the client of the launcher's PMI-1 wire protocol.
//!
//! [`Job::join`] is called once, by the engine's initialisation. It finds the launcher's socket
//! (`PMI_FD`), proves that the socket really belongs to a launcher of this process, and otherwise
//! answers with a job of one. The key-value space (`put`, `barrier`, `get`) then carries whatever
//! ranks must know of each other before they can communicate: addresses, and the job's secret.
//!
//! Invariants: nothing that comes over the socket is trusted (lines, keys, values and numbers are
//! bounded before use); every wait has a deadline until the launcher has answered once; the socket
//! is close-on-exec as soon as the job is joined, so that a program this rank starts is a job of
//! its own. The parts without I/O ([`wire`], [`mapping`]) are also used by the launcher.

#![deny(unsafe_code)]

mod error;
mod inherited;
mod job;
mod link;
pub mod mapping;
pub mod wire;

pub use error::Error;
pub use inherited::{expected_rank, expected_size};
pub use job::Job;

/// Environment variable in which this project's own launcher writes the identity (inode number) of
/// the socket named by `PMI_FD`, so that a stale `PMI_FD` is recognised with certainty.
pub const SOCKET_IDENTITY_VARIABLE: &str = "YAMABIKO_PMI_SOCKET";

/// Environment variable in which the launcher writes how many ranks run a rank's program: `maxprocs` of `MPI_INFO_ENV`.
pub const MAXPROCS_VARIABLE: &str = "YAMABIKO_MAXPROCS";

/// Environment variable with which the launcher asks rank 0 to say what carries messages between which
/// ranks. Empty, it asks nothing.
pub const REPORT_FABRICS_VARIABLE: &str = "YAMABIKO_REPORT_FABRICS";

/// Key under which the launcher publishes the job's secret (64 hexadecimal digits).
pub const SECRET_KEY: &str = "yamabiko_secret";
