//! Rulers: what Yamabiko costs, beside another MPI library on the same machine in the same minutes.
//!
//! ```text
//!  latency   the subcommand: pairs of runs (ours, theirs), each between two calibrations
//!    ├─ side      one of the two: its mpicc and mpiexec, the kernel compiled by it
//!    ├─ busy      what others do on the processors meanwhile
//!    ├─ stats     medians, quartiles, which pairs count
//!    └─ table     what is printed, and the JSON file
//! ```
//!
//! The kernels are C programs in `share/yamabiko/bench`. A machine may change its own speed between
//! two runs (virtual processors move), so no figure stands alone: a bare cache-line flag is timed
//! before and after each pair, and pairs across which it moved are counted but not used.
//!
//! Called by the command `yamabiko bench`.

#![forbid(unsafe_code)]

mod busy;
pub mod latency;
mod side;
pub mod stats;
mod table;

/// Result of this crate: the error is a sentence for the person at the terminal.
pub type Result<T> = std::result::Result<T, String>;
