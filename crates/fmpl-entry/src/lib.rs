//! FMPL's side of the MPI libraries: the functions of the table, which enter the engine as MPI's calls do.
//!
//! Each library exports `yamabiko_fmpl_table`, which gives the table made here for its ABI: [`table`]. What differs by ABI is
//! [`Abi`]: how a process is described to the engine, and how handles of communicators are written.
//!
//! * `process`: FMPL's state of the process, and that it is the engine's extension;
//! * `short`: messages of a few bytes, before the engine is entered;
//! * `host`: the engine as [`fmpl::Host`]; `start`, `messages`, `groups`, `coll`: the functions.
//!
//! Invariants: the state is touched only while the engine is entered, but for what [`short`] shares with it; a pointer is looked at only as the function that
//! got it promises. Who calls it: `capi` and `capi-mpich`, for `libfmpl` and `libblacs`.

mod coll;
mod groups;
mod host;
mod messages;
mod process;
mod short;
mod start;

use engine::AbiHooks;
use fmpl_table::{FmplTable, VERSION};
use types::Handle;

/// What differs between the two MPI libraries.
pub trait Abi: 'static {
    /// How the engine is entered.
    const HOOKS: &'static AbiHooks;
    /// The communicator of an `MPI_Comm`, given as an integer.
    fn comm_in(word: usize) -> Handle;
    /// The `MPI_Comm` of a communicator.
    fn comm_out(handle: Handle) -> usize;
    /// The communicator of a Fortran handle.
    fn fortran_in(handle: i32) -> Handle;
    /// The Fortran handle of a communicator.
    fn fortran_out(handle: Handle) -> i32;
}

/// The table of an ABI's library, for the one version there is.
pub fn table<A: Abi>(version: u32) -> Option<&'static FmplTable> {
    (version == VERSION).then_some(const { &make::<A>() })
}

const fn make<A: Abi>() -> FmplTable {
    FmplTable {
        size: size_of::<FmplTable>() as u32,
        version: VERSION,
        init: start::init::<A>,
        finalize: start::finalize::<A>,
        attach: start::attach::<A>,
        detach: start::detach::<A>,
        phase: start::phase::<A>,
        initialized: start::initialized::<A>,
        abort: start::abort::<A>,
        wtime: start::wtime,
        strerror: start::strerror,
        rank: groups::rank::<A>,
        comm_size: groups::size::<A>,
        slots: groups::slots::<A>,
        comm_create: groups::create::<A>,
        comm_from_ranks: groups::from_ranks::<A>,
        comm_free: groups::free::<A>,
        comm_ranks: groups::ranks::<A>,
        mpi_comm_ranks: groups::mpi_ranks::<A>,
        mpi_fortran_comm_ranks: groups::fortran_ranks::<A>,
        mpi_world: groups::mpi_world::<A>,
        mpi_comm_c2f: groups::c2f::<A>,
        mpi_comm_f2c: groups::f2c::<A>,
        send: messages::send::<A>,
        recv: messages::recv::<A>,
        isend: messages::isend::<A>,
        irecv: messages::irecv::<A>,
        isend_wait: messages::isend_wait::<A>,
        irecv_wait: messages::irecv_wait::<A>,
        irecv_wait_status: messages::irecv_wait_status::<A>,
        isend_test: messages::isend_test::<A>,
        irecv_test: messages::irecv_test::<A>,
        send_any: messages::send_any::<A>,
        recv_any: messages::recv_any::<A>,
        recv_any_from: messages::recv_any_from::<A>,
        sendbuf_set: start::sendbuf_set::<A>,
        sendbuf_check: start::sendbuf_check::<A>,
        library_stash: start::library_stash::<A>,
        library_stash_drain: start::library_stash_drain::<A>,
        progress: messages::progress::<A>,
        barrier: coll::barrier::<A>,
        bcast: coll::bcast::<A>,
        reduce: coll::reduce::<A>,
        allreduce: coll::allreduce::<A>,
        collectives_set: coll::set::<A>,
        alloc: start::alloc::<A>,
        free: start::free::<A>,
        apply: coll::apply,
        offered: messages::offered::<A>,
        threads: start::threads::<A>,
    }
}
