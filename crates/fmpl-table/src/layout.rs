//! The table itself.
//!
//! # What holds for all functions
//! * Each returns a code of [`crate::code`]. A call that is refused has done nothing.
//! * Several threads may call where `MPI_THREAD_MULTIPLE` was granted, else one at a time.
//! * A call that waits makes progress for FMPL, BLACS and MPI alike, and so does a waiting MPI call.
//! * Ranks count within the communicator given; in [`COMM_WORLD`](crate::consts::COMM_WORLD) and
//!   [`COMM_LIBRARY`](crate::consts::COMM_LIBRARY) they are the ranks of `MPI_COMM_WORLD`. A communicator only
//!   translates ranks and selects the matching area: index 3 from process A to process B is one slot of that
//!   area, whichever communicator names the two.
//! * Sending to oneself works like sending to others.
//!
//! # Indices
//! A matching area has, for every ordered pair of processes, `slots` indices from 0 on. A receive writes where
//! its buffer is into the slot at the sender; a send waits for that and writes the data home.
//! * A *receive* holds its index from `irecv` until the `irecv_wait` (or successful test) has returned; a second
//!   one with the same source and index is `ERR_BUSY`.
//! * A *send* holds its index from `isend` until its wait (or test) has returned. A blocking send that was
//!   spooled does not hold it: more may be sent with the same index, and they match in the order sent.
//! * Messages of one index from one process to one other match receives in order. Between different
//!   indices there is no order.
//! * [`TAG_ANY`](crate::consts::TAG_ANY) receives: a send takes a receive for its very index if there is
//!   one, else the oldest `TAG_ANY` receive of that process. Several (`ANY_MAX`) may be in flight; they are
//!   filled in the order posted. A wait with `TAG_ANY` waits for the oldest that no wait has returned for.
//!
//! # The stash
//! A blocking send waits for its receive for at least `ipara` ms. Then, if the stash has room, the
//! message is copied there once and the send returns: it is *spooled*. If there is no room it goes on waiting, as in
//! synchronous mode, until there is room or the receive comes; it never fails for that. A receive that is posted
//! already always means no copy. `isend_wait` does the same, counting from the `isend`. Any call of FMPL, BLACS or
//! MPI that makes progress sends what is spooled; finalizing waits until all of it has been received. Each
//! matching area has its own stash: the program's has size 0 until `sendbuf_set`, the libraries' grows
//! and has `ipara` 0 until `library_stash`.
//!
//! # Deaths
//! Where the job goes on when a process dies, all collectives of a communicator that it was a member of end with `ERR_PEER`, those that
//! are under way wherever they miss anybody. A communicator whose list has no dead process can be made of any parent. Freeing a
//! communicator that lost a member, and `finalize`, succeed without waiting for others.

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;

/// The version of [`FmplTable`] that this crate describes.
pub const VERSION: u32 = 2;

/// A reduction function of a program: combines `*count` elements of `input` into `inout`.
pub type UserFunction =
    unsafe extern "C" fn(inout: *mut c_void, input: *const c_void, count: *const i32);

/// The predefined operations: 16 × element type + operation, see [`Func::builtin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Builtin {
    /// Sum.
    Sum = 1,
    /// The element of greatest absolute value (|Re| + |Im| for complex ones), as in BLACS; the one of
    /// the accumulated side if they are equal.
    Max = 2,
    /// The element of least absolute value.
    Min = 3,
    /// As `Max` on elements `{value, int row, int column}` (C's layout, no padding within: 12, 12, 16, 16, 24
    /// bytes). Of equal values the one with the smaller row, then the smaller column, wins.
    MaxAt = 4,
    /// As `Min` on such elements, ties likewise.
    MinAt = 5,
}

/// A reduction function: a predefined one or the program's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Func {
    /// 0 for a function of the program, else 16 × element type + [`Builtin`]; element types: 0 `int`, 1
    /// `float`, 2 `double`, 3 complex of `float`, 4 complex of `double`.
    pub builtin: u32,
    /// Bytes of an element; looked at for functions of the program only.
    pub element: u32,
    /// The function of the program.
    pub function: Option<UserFunction>,
}

impl Func {
    /// A predefined operation on the type that `letter` (`i`, `s`, `d`, `c` or `z`) names.
    pub const fn builtin(letter: u8, operation: Builtin) -> Option<Func> {
        let element = match letter {
            b'i' => 0,
            b's' => 1,
            b'd' => 2,
            b'c' => 3,
            b'z' => 4,
            _ => return None,
        };
        Some(Func {
            builtin: element * 16 + operation as u32,
            element: 0,
            function: None,
        })
    }
}

/// What an MPI library offers to FMPL and to what is built on it.
#[repr(C)]
pub struct FmplTable {
    /// Bytes of this structure.
    pub size: u32,
    /// [`VERSION`].
    pub version: u32,

    // --- Start and end.
    /// `fmpl_init`: starts MPI if nobody has (as `MPI_Init` would), and opens the program's matching area of `count`
    /// indices. Collective over all processes; they have to agree on `count`. `ma` and `fa` may be NULL;
    /// what peers write lies in mapped memory of our own, so memory given here is accepted and left alone.
    pub init: unsafe extern "C" fn(ma: *mut c_void, fa: *mut c_void, count: i64) -> i32,
    /// `fmpl_finalize`: waits until everything spooled was received, closes the program's area, and ends MPI if FMPL
    /// started it and neither `MPI_Init` nor `attach` has been called since. Collective. After an `init` that failed it only ends MPI.
    pub finalize: unsafe extern "C" fn() -> i32,
    /// For libraries: starts MPI if nobody has and opens [`COMM_LIBRARY`](crate::consts::COMM_LIBRARY). Not
    /// collective where MPI runs already. May be called again; each call needs its `detach`.
    pub attach: unsafe extern "C" fn() -> i32,
    /// Takes one `attach` back. The last one waits until what libraries spooled was received, and ends
    /// MPI if FMPL or a library started it and nobody else uses it.
    pub detach: unsafe extern "C" fn() -> i32,
    /// Whether MPI runs: `PHASE_BEFORE`, `PHASE_RUNNING` or `PHASE_FINALIZED`. Always allowed.
    pub phase: unsafe extern "C" fn() -> i32,
    /// 1 between `init` and `finalize`, else 0. Always allowed.
    pub initialized: unsafe extern "C" fn() -> i32,
    /// Ends the whole job with `code`; `message` (may be NULL) goes to standard error. Does not return.
    pub abort: unsafe extern "C" fn(code: i32, message: *const c_char),
    /// Seconds of a clock that only goes forward. Always allowed.
    pub wtime: unsafe extern "C" fn() -> f64,
    /// What a code says. Always allowed; the string lives for ever.
    pub strerror: unsafe extern "C" fn(code: i32) -> *const c_char,

    // --- Communicators.
    /// This process's rank.
    pub rank: unsafe extern "C" fn(comm: i32, rank: *mut i32) -> i32,
    /// Number of processes.
    pub comm_size: unsafe extern "C" fn(comm: i32, size: *mut i32) -> i32,
    /// Number of indices of the communicator's matching area.
    pub slots: unsafe extern "C" fn(comm: i32, count: *mut i64) -> i32,
    /// `fmpl_comm_create`: all processes of the world call it; those with equal `key` other than 0 become a
    /// communicator, ordered by world rank; a process with key 0 gets `COMM_NULL`. In the program's area.
    pub comm_create: unsafe extern "C" fn(comm: *mut i32, key: i32) -> i32,
    /// A communicator of the processes with these ranks of `parent`, in this order, in `parent`'s area.
    /// Only they call it, all with the same list and `tag` (`tag` tells apart communicators that threads
    /// make at the same time; else 0).
    pub comm_from_ranks: unsafe extern "C" fn(
        parent: i32,
        ranks: *const i32,
        count: i32,
        tag: i32,
        comm: *mut i32,
    ) -> i32,
    /// Frees a communicator that the two above made, and sets `*comm` to `COMM_NULL`. Collective over its members.
    pub comm_free: unsafe extern "C" fn(comm: *mut i32) -> i32,
    /// World ranks of the communicator's members, in order: at most `room` of them; `*count` is how many there are.
    pub comm_ranks:
        unsafe extern "C" fn(comm: i32, ranks: *mut i32, room: i32, count: *mut i32) -> i32,
    /// World ranks of the members of an MPI communicator, given as the ABI's handle (`MPI_Comm` as an integer).
    pub mpi_comm_ranks:
        unsafe extern "C" fn(comm: usize, ranks: *mut i32, room: i32, count: *mut i32) -> i32,
    /// The same for a Fortran handle.
    pub mpi_fortran_comm_ranks:
        unsafe extern "C" fn(comm: i32, ranks: *mut i32, room: i32, count: *mut i32) -> i32,
    /// The handles of `MPI_COMM_WORLD` in this ABI: C's and Fortran's. Always allowed.
    pub mpi_world: unsafe extern "C" fn(c: *mut usize, fortran: *mut i32) -> i32,
    /// The Fortran handle of an ABI's handle. Always allowed.
    pub mpi_comm_c2f: unsafe extern "C" fn(comm: usize) -> i32,
    /// The ABI's handle of a Fortran handle. Always allowed.
    pub mpi_comm_f2c: unsafe extern "C" fn(comm: i32) -> usize,

    // --- Messages.
    /// `fmpl_send`: returns when `buf` may be changed.
    pub send: unsafe extern "C" fn(*const c_void, size: i64, dst: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_recv`: `mai` may be `TAG_ANY`. Returns when all data are there.
    pub recv: unsafe extern "C" fn(*mut c_void, size: i64, src: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_isend`.
    pub isend: unsafe extern "C" fn(*const c_void, size: i64, dst: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_irecv`: `mai` may be `TAG_ANY`.
    pub irecv: unsafe extern "C" fn(*mut c_void, size: i64, src: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_isend_wait`.
    pub isend_wait: unsafe extern "C" fn(dst: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_irecv_wait`.
    pub irecv_wait: unsafe extern "C" fn(src: i32, mai: i32, comm: i32) -> i32,
    /// As `irecv_wait`, and tells how many bytes the message had (more than fitted with `ERR_TRUNCATE`) and its
    /// sender's index; either address may be NULL.
    pub irecv_wait_status:
        unsafe extern "C" fn(src: i32, mai: i32, comm: i32, size: *mut i64, index: *mut i32) -> i32,
    /// `*flag` is 1, and the send over, or 0 and it goes on. Makes progress.
    pub isend_test: unsafe extern "C" fn(dst: i32, mai: i32, comm: i32, flag: *mut i32) -> i32,
    /// The same for a receive.
    pub irecv_test: unsafe extern "C" fn(src: i32, mai: i32, comm: i32, flag: *mut i32) -> i32,
    /// `fmpl_send_any`: to a `recv_any`, which no `recv` can take. Messages of one process to one other with one
    /// index arrive in order. Short ones (2 KiB) leave at once, longer ones may wait for their receive;
    /// the stash is not used.
    pub send_any:
        unsafe extern "C" fn(*const c_void, size: i64, dst: i32, mai: i32, comm: i32) -> i32,
    /// `fmpl_recv_any`: the first message with that index (`TAG_ANY`: any) of any process. Here an index is any
    /// number from 0 on; it need not lie inside the matching area. `ERR_PEER` when all others are gone and nothing is left to receive.
    pub recv_any: unsafe extern "C" fn(*mut c_void, size: i64, mai: i32, comm: i32) -> i32,
    /// As `recv_any`, and tells the source, the size and the index; each address may be NULL.
    pub recv_any_from: unsafe extern "C" fn(
        *mut c_void,
        size: i64,
        mai: i32,
        comm: i32,
        src: *mut i32,
        bytes: *mut i64,
        index: *mut i32,
    ) -> i32,

    // --- The stash.
    /// `fmpl_sendbuf_set`: memory for spooled messages and how many ms a send waits first (`INFINITE`: always). A NULL
    /// `buf` with a `size` lets the library take memory of its own, with `GROWS` as much as it takes. Size 0:
    /// no stash. `ERR_STASH` while sends are spooled.
    pub sendbuf_set: unsafe extern "C" fn(buf: *mut c_void, size: i64, ipara: i32) -> i32,
    /// `fmpl_sendbuf_check`: makes progress, then tells how many spooled sends have gone since the last
    /// check, and how many still wait.
    pub sendbuf_check: unsafe extern "C" fn(nsend: *mut i32, nspool: *mut i32) -> i32,
    /// The stash of the libraries' area: `size` bytes or `GROWS`, and `ipara` in ms.
    pub library_stash: unsafe extern "C" fn(size: i64, ipara: i32) -> i32,
    /// Waits until nothing is left that was spooled in the libraries' area.
    pub library_stash_drain: unsafe extern "C" fn() -> i32,
    /// Makes progress once; `*moved` (may be NULL) says whether anything moved.
    pub progress: unsafe extern "C" fn(moved: *mut i32) -> i32,

    // --- Collectives: all members call, in the same order for one communicator.
    /// `fmpl_barrier`.
    pub barrier: unsafe extern "C" fn(comm: i32) -> i32,
    /// `fmpl_bcast`.
    pub bcast: unsafe extern "C" fn(*mut c_void, size: i64, root: i32, comm: i32) -> i32,
    /// `fmpl_reduce`: `work` is as large as `buf`, and the library's until the call returns. The result is in
    /// `buf` at the root; elsewhere `buf` is used for intermediate results. Combined along a binomial tree of
    /// ranks relative to the root, nearest child first, so that the order depends on the root and the number
    /// of processes only.
    pub reduce: unsafe extern "C" fn(
        buf: *mut c_void,
        count: i64,
        func: *const Func,
        root: i32,
        comm: i32,
        work: *mut c_void,
    ) -> i32,
    /// `fmpl_allreduce`: the same as `reduce` to rank 0 and a broadcast, so all get the same bits.
    pub allreduce: unsafe extern "C" fn(
        buf: *mut c_void,
        count: i64,
        func: *const Func,
        comm: i32,
        work: *mut c_void,
    ) -> i32,
    /// How barrier and broadcast work from now on: `COLLECTIVES_AUTO` or `COLLECTIVES_SOFTWARE`; the same at all
    /// members. Not while one is under way.
    pub collectives_set: unsafe extern "C" fn(which: i32) -> i32,

    // --- Memory.
    /// Memory that peers of the machine can write into directly; NULL when there is none. It is aligned to a
    /// cache line.
    pub alloc: unsafe extern "C" fn(size: i64, memory: *mut *mut c_void) -> i32,
    /// Gives it back; no operation on it may be in flight.
    pub free: unsafe extern "C" fn(memory: *mut c_void) -> i32,

    // --- Since the first users.
    /// Combines `count` elements of `input` into `inout` as a reduction would. Always allowed.
    pub apply: unsafe extern "C" fn(
        func: *const Func,
        inout: *mut c_void,
        input: *const c_void,
        count: i64,
    ) -> i32,
    /// `*room` is how many bytes the receive has room for which the next send with that index would meet, or -1 if none
    /// is posted or comes within `patience` ns, or earlier sends with that index go first. A receive that was seen stays until a send takes
    /// it. Makes no progress without patience.
    pub offered:
        unsafe extern "C" fn(dst: i32, mai: i32, comm: i32, patience: u64, room: *mut i64) -> i32,
    /// Where it stands whether several threads may call at the same time, for a library's own locks; always there, never NULL.
    /// While it is false the program has promised that they don't.
    pub threads: unsafe extern "C" fn() -> *const AtomicBool,
}
