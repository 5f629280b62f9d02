//! The C names. `fmpl.h` says what each does, and the table's documentation in full.

use std::ffi::{c_char, c_void};

use fmpl_table::{Func, UserFunction, code};

use crate::{call, func, put, table};

/// A size as the table has it; one that no object has becomes negative, which is refused.
fn size_in(size: usize) -> i64 {
    size as i64
}

/// Names of C: each passes its arguments on and leaves the code in `ier`.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) |$t:ident| $body:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As `fmpl.h` says: addresses are NULL or valid for what the function reads and writes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty,)* ier: *mut i32) -> i32 {
            // What has to save registers is a function of its own.
            #[inline(never)]
            unsafe extern "C" fn otherwise($($arg: $ty,)* ier: *mut i32) -> i32 {
                // SAFETY: the caller keeps the contract of `fmpl.h`, which is that of the table's function.
                unsafe { call(ier, |$t| $body) }
            }
            match fmpl_table::known() {
                // With nothing to be done afterwards this is a jump.
                // SAFETY: as above.
                Some($t) if ier.is_null() => unsafe { $body },
                // SAFETY: as above.
                _ => unsafe { otherwise($($arg,)* ier) },
            }
        }
    )* };
}

/// A reduction function as the table has it, or the code.
fn with_func(function: Option<UserFunction>, f: impl FnOnce(&Func) -> i32) -> i32 {
    match func::find(function) {
        Ok(found) => f(&found),
        Err(code) => code,
    }
}

names! {
    /// Starts FMPL.
    fmpl_init(ma: *mut c_void, fa: *mut c_void, count: i32) |t| (t.init)(ma, fa, count.into());
    /// Ends FMPL.
    fmpl_finalize() |t| (t.finalize)();
    /// Sends.
    fmpl_send(buf: *const c_void, size: usize, dst: i32, mai: i32, comm: i32)
        |t| (t.send)(buf, size_in(size), dst, mai, comm);
    /// Receives.
    fmpl_recv(buf: *mut c_void, size: usize, src: i32, mai: i32, comm: i32)
        |t| (t.recv)(buf, size_in(size), src, mai, comm);
    /// Begins to send.
    fmpl_isend(buf: *const c_void, size: usize, dst: i32, mai: i32, comm: i32)
        |t| (t.isend)(buf, size_in(size), dst, mai, comm);
    /// Begins to receive.
    fmpl_irecv(buf: *mut c_void, size: usize, src: i32, mai: i32, comm: i32)
        |t| (t.irecv)(buf, size_in(size), src, mai, comm);
    /// Waits for a send.
    fmpl_isend_wait(dst: i32, mai: i32, comm: i32) |t| (t.isend_wait)(dst, mai, comm);
    /// Waits for a receive.
    fmpl_irecv_wait(src: i32, mai: i32, comm: i32) |t| (t.irecv_wait)(src, mai, comm);
    /// Waits for a receive and tells what came.
    fmpl_irecv_wait_status(src: i32, mai: i32, comm: i32, size: *mut usize, index: *mut i32)
        // A length is not negative, so the same bits mean it.
        |t| (t.irecv_wait_status)(src, mai, comm, size.cast(), index);
    /// Asks whether a send is over.
    fmpl_isend_test(dst: i32, mai: i32, comm: i32, flag: *mut i32)
        |t| (t.isend_test)(dst, mai, comm, flag);
    /// Asks whether a receive is over.
    fmpl_irecv_test(src: i32, mai: i32, comm: i32, flag: *mut i32)
        |t| (t.irecv_test)(src, mai, comm, flag);
    /// Sends to a receive from anybody.
    fmpl_send_any(buf: *const c_void, size: usize, dst: i32, mai: i32, comm: i32)
        |t| (t.send_any)(buf, size_in(size), dst, mai, comm);
    /// Receives from anybody.
    fmpl_recv_any(buf: *mut c_void, size: usize, mai: i32, comm: i32)
        |t| (t.recv_any)(buf, size_in(size), mai, comm);
    /// Receives from anybody and tells what came.
    fmpl_recv_any_from(buf: *mut c_void, size: usize, mai: i32, comm: i32,
                       src: *mut i32, bytes: *mut usize, index: *mut i32)
        |t| (t.recv_any_from)(buf, size_in(size), mai, comm, src, bytes.cast(), index);
    /// Sets the stash.
    fmpl_sendbuf_set(buf: *mut c_void, size: usize, ipara: i32)
        |t| (t.sendbuf_set)(buf, size_in(size), ipara);
    /// Looks after the stash.
    fmpl_sendbuf_check(nsend: *mut i32, nspool: *mut i32) |t| (t.sendbuf_check)(nsend, nspool);
    /// Makes a communicator.
    fmpl_comm_create(comm: *mut i32, key: i32) |t| (t.comm_create)(comm, key);
    /// Frees a communicator.
    fmpl_comm_free(comm: *mut i32) |t| (t.comm_free)(comm);
    /// Tells this process's rank.
    fmpl_comm_rank(comm: i32, rank: *mut i32) |t| (t.rank)(comm, rank);
    /// Tells the number of processes.
    fmpl_comm_size(comm: i32, size: *mut i32) |t| (t.comm_size)(comm, size);
    /// Waits for all.
    fmpl_barrier(comm: i32) |t| (t.barrier)(comm);
    /// Broadcasts.
    fmpl_bcast(buf: *mut c_void, size: usize, root: i32, comm: i32)
        |t| (t.bcast)(buf, size_in(size), root, comm);
    /// Combines at the root.
    fmpl_reduce(buf: *mut c_void, count: usize, function: Option<UserFunction>, root: i32,
                comm: i32, work: *mut c_void)
        |t| with_func(function, |f| (t.reduce)(buf, size_in(count), f, root, comm, work));
    /// Combines everywhere.
    fmpl_allreduce(buf: *mut c_void, count: usize, function: Option<UserFunction>, comm: i32,
                   work: *mut c_void)
        |t| with_func(function, |f| (t.allreduce)(buf, size_in(count), f, comm, work));
    /// Chooses how barrier and broadcast work.
    fmpl_collectives_set(which: i32) |t| (t.collectives_set)(which);
    /// Allocates mapped memory.
    fmpl_alloc(size: usize, memory: *mut *mut c_void) |t| (t.alloc)(size_in(size), memory);
    /// Frees mapped memory.
    fmpl_free(memory: *mut c_void) |t| (t.free)(memory);
    /// Makes progress.
    fmpl_progress(moved: *mut i32) |t| (t.progress)(moved);
    /// Ends the job.
    fmpl_abort(error: i32) |t| { (t.abort)(error, c"fmpl_abort was called".as_ptr()); error };
}

/// Names a reduction function of the program.
///
/// # Safety
/// `function` has the prototype of `fmpl.h`; `ier` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_func_set(
    function: Option<UserFunction>,
    size: usize,
    ier: *mut i32,
) -> i32 {
    let code = func::set(function, size_in(size));
    // SAFETY: the caller's contract.
    unsafe { put(ier, code) };
    code
}

/// Tells whether FMPL is started.
///
/// # Safety
/// Each address is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmpl_initialized(flag: *mut i32, ier: *mut i32) -> i32 {
    let code = match flag.is_null() {
        true => code::ERR_BUFFER,
        false => code::SUCCESS,
    };
    // SAFETY: the table's function has no preconditions, and the caller's contract for the addresses.
    unsafe {
        put(flag, table().map_or(0, |t| (t.initialized)()));
        put(ier, code);
    }
    code
}

/// What a code says.
#[unsafe(no_mangle)]
pub extern "C" fn fmpl_strerror(error: i32) -> *const c_char {
    code::text(error).as_ptr()
}

/// Seconds of a clock.
#[unsafe(no_mangle)]
pub extern "C" fn fmpl_wtime() -> f64 {
    // SAFETY: the table's function has no preconditions.
    table().map_or(0.0, |t| unsafe { (t.wtime)() })
}
