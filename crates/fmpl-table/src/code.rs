//! Error codes: what `ier` holds and every C function returns.
//!
//! A code never means that memory was overwritten: what is refused has not begun.

/// All went well.
pub const SUCCESS: i32 = 0;
/// FMPL is not initialised: `fmpl_init` has not been called.
pub const ERR_NOT_INITIALISED: i32 = 1;
/// FMPL is initialised already.
pub const ERR_INITIALISED: i32 = 2;
/// FMPL or MPI was finalized, and can't be used any more.
pub const ERR_FINALIZED: i32 = 3;
/// MPI could not be started, or no MPI library was found; a sentence on standard error says why.
pub const ERR_START: i32 = 4;
/// The buffer is NULL though its size is not 0, or overlaps the memory to work in, or a result's address is NULL.
pub const ERR_BUFFER: i32 = 5;
/// The size or count is negative or beyond what can be.
pub const ERR_SIZE: i32 = 6;
/// No process of the communicator has that rank.
pub const ERR_RANK: i32 = 7;
/// The index is outside the matching area, or `FMPL_TAG_ANY` where an index is needed.
pub const ERR_INDEX: i32 = 8;
/// There is no such communicator in this process.
pub const ERR_COMM: i32 = 9;
/// An operation with that process and index is in flight already: wait for it first.
pub const ERR_BUSY: i32 = 10;
/// The message was longer than the receive's buffer, which holds its beginning; nothing was written beyond.
pub const ERR_TRUNCATE: i32 = 11;
/// A wait or test names no operation that is in flight.
pub const ERR_NOTHING: i32 = 12;
/// The stash can't be changed while sends lie in it.
pub const ERR_STASH: i32 = 13;
/// The reduction function is NULL, or unknown since `fmpl_func_set` did not name it, or one of FMPL's own that was named to that.
pub const ERR_FUNCTION: i32 = 14;
/// The processes do not agree on the count of the matching area.
pub const ERR_COUNT: i32 = 15;
/// The other process, or one that a collective needs, is gone.
pub const ERR_PEER: i32 = 16;
/// No memory, or none of its kind, is left.
pub const ERR_MEMORY: i32 = 17;
/// An argument has a value that means nothing.
pub const ERR_ARGUMENT: i32 = 18;
/// Another call of this process is inside the same operation (a reduction function or another thread).
pub const ERR_REENTERED: i32 = 19;

/// What a code says, in words for a person.
pub fn text(code: i32) -> &'static std::ffi::CStr {
    match code {
        SUCCESS => c"no error",
        ERR_NOT_INITIALISED => c"FMPL is not initialised; call fmpl_init first",
        ERR_INITIALISED => c"FMPL is initialised already",
        ERR_FINALIZED => c"FMPL or MPI was finalized and can't be used any more",
        ERR_START => c"MPI could not be started, or no library of Yamabiko's was found",
        ERR_BUFFER => c"a buffer or an address for a result is NULL, or the memory to work in overlaps the buffer",
        ERR_SIZE => c"the size or count is negative or too large",
        ERR_RANK => c"no process of the communicator has that rank",
        ERR_INDEX => c"the index is outside the matching area",
        ERR_COMM => c"there is no such communicator",
        ERR_BUSY => c"that index is in flight with that process already; wait for it first",
        ERR_TRUNCATE => c"the message was longer than the receive's buffer",
        ERR_NOTHING => c"no such operation is in flight",
        ERR_STASH => c"the stash can't be changed while sends lie in it; call fmpl_sendbuf_check",
        ERR_FUNCTION => c"the reduction function is NULL or was not named to fmpl_func_set, or one of FMPL's own was",
        ERR_COUNT => c"the processes called fmpl_init with different counts",
        ERR_PEER => c"the other process, or one that is needed, is gone",
        ERR_MEMORY => c"no memory, or no communicator, is left",
        ERR_ARGUMENT => c"an argument has a value that means nothing",
        ERR_REENTERED => c"another call is inside the same collective operation",
        _ => c"unknown error code",
    }
}
