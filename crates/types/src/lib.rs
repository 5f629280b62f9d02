//! Words every other crate uses: handles, statuses, faults, short lists and the predefined basic types.
//!
//! Nothing here is unsafe and nothing here does anything; the crate sits at the bottom of every
//! dependency arrow. Values are those of the MPI-5.0 standard ABI, which the engine uses as its
//! neutral form; the MPICH ABI is translated at its entry points and never seen below them.

#![forbid(unsafe_code)]

pub mod basic;
#[path = "gen/consts.rs"]
pub mod consts;
mod fault;
mod list;
mod tunable;

pub use fault::{Fault, Result, fault};
pub use list::List;
pub use tunable::Tunable;

/// Added to an argument of a distribution (`MPI_Type_create_darray`) that is a number, where an ABI tells
/// that apart from `DISTRIBUTE_DFLT_DARG`: in the standard ABI the number 19 cannot be said, in the MPICH
/// ABI it can. No `int` is so large.
pub const DARG_NUMBER: i64 = 1 << 32;

/// A neutral object handle: a standard-ABI constant (below 4096) for a predefined object, the low
/// 32 bits of the object's address for one the library created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Handle(pub u32);

impl Handle {
    /// Whether this is a constant of the standard (a null handle included) rather than an object
    /// that the library created.
    #[inline(always)]
    pub const fn is_predefined(self) -> bool {
        self.0 < 4096
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The engine's status: what both ABIs' `MPI_Status` structures carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the source in the communicator, or a standard-ABI sentinel.
    pub source: i32,
    /// Tag of the message, or a standard-ABI sentinel.
    pub tag: i32,
    /// Error class of this operation.
    pub error: i32,
    /// Bytes received (packed size), or, when `Status_set_elements` was used, what was set there.
    pub bytes: i64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The status of a completed operation that has none: source `ANY_SOURCE`, tag `ANY_TAG`.
    pub const EMPTY: Status = Status {
        source: consts::ANY_SOURCE,
        tag: consts::ANY_TAG,
        error: 0,
        bytes: 0,
        cancelled: false,
    };
    /// The status of a receive from `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status {
        source: consts::PROC_NULL,
        ..Status::EMPTY
    };
}

impl Default for Status {
    fn default() -> Status {
        Status::EMPTY
    }
}
