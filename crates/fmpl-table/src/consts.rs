//! The constants of `fmpl.h` beside the error codes.

/// The communicator of all processes, in the program's own matching area.
pub const COMM_WORLD: i32 = 0;
/// The communicator of all processes, in the matching area of libraries built on FMPL: [`LIBRARY_SLOTS`]
/// indices and a stash of their own, so that they never meet the program's messages.
pub const COMM_LIBRARY: i32 = 1;
/// No communicator: what `fmpl_comm_create` gives a process that does not take part.
pub const COMM_NULL: i32 = -1;
/// Index of a receive that any index of its source matches.
pub const TAG_ANY: i32 = -1;
/// `ipara` of `fmpl_sendbuf_set`: a send waits for its receive for ever (the synchronous mode).
pub const INFINITE: i32 = -1;
/// Size of a stash that grows as it needs (its buffer is NULL).
pub const GROWS: i64 = -1;
/// Most indices of a matching area.
pub const COUNT_MAX: i64 = 32_768;
/// Indices of the libraries' matching area.
pub const LIBRARY_SLOTS: i32 = 1024;
/// Receives with `FMPL_TAG_ANY` that may be in flight from one process at a time.
pub const ANY_MAX: i32 = 64;

/// `collectives_set`: flags and faces in shared memory where all members share it, else messages.
pub const COLLECTIVES_AUTO: i32 = 0;
/// `collectives_set`: trees of messages always, for comparison.
pub const COLLECTIVES_SOFTWARE: i32 = 1;

/// `phase`: MPI has not been started.
pub const PHASE_BEFORE: i32 = 0;
/// `phase`: MPI runs, by whomever it was started.
pub const PHASE_RUNNING: i32 = 1;
/// `phase`: MPI was finalized.
pub const PHASE_FINALIZED: i32 = 2;
