//! Communicators, FMPL's and MPI's.

use boundary::Ints;
use engine::enter;
use fmpl::{Host, build};
use fmpl_table::{code, consts};
use types::Handle;

use crate::Abi;
use crate::host::Entered;
use crate::messages::put;
use crate::short;

/// Enters and asks the state; what it gives goes to `to`.
///
/// # Safety
/// `to` is null or writable.
unsafe fn ask<A: Abi, T>(to: *mut T, f: impl FnOnce(&Entered) -> Result<T, i32>) -> i32 {
    if to.is_null() {
        return code::ERR_BUFFER;
    }
    match Entered::new::<A>().and_then(|entered| f(&entered)) {
        Err(code) => code,
        Ok(value) => {
            // SAFETY: not null, so writable by the caller's contract.
            unsafe { put(to, value) };
            code::SUCCESS
        }
    }
}

pub unsafe extern "C" fn rank<A: Abi>(comm: i32, rank: *mut i32) -> i32 {
    // SAFETY: the table's contract is the same.
    unsafe { ask::<A, _>(rank, |e| e.with(|core, _| Ok(core.comm(comm)?.rank as i32))) }
}

pub unsafe extern "C" fn size<A: Abi>(comm: i32, size: *mut i32) -> i32 {
    // SAFETY: the table's contract is the same.
    unsafe { ask::<A, _>(size, |e| e.with(|core, _| Ok(core.comm(comm)?.size as i32))) }
}

pub unsafe extern "C" fn slots<A: Abi>(comm: i32, count: *mut i64) -> i32 {
    // SAFETY: the table's contract is the same.
    unsafe {
        ask::<A, _>(count, |e| {
            e.with(|core, _| {
                let which = core.comm(comm)?.area;
                Ok(i64::from(core.area(which)?.count()))
            })
        })
    }
}

pub unsafe extern "C" fn create<A: Abi>(comm: *mut i32, key: i32) -> i32 {
    // SAFETY: the table's contract is the same.
    let code = unsafe { ask::<A, _>(comm, |e| build::create(e, key)) };
    if code != code::SUCCESS && !comm.is_null() {
        // What stands there may be somebody's number, such as the world's.
        // SAFETY: not null, so writable by the table's contract.
        unsafe { put(comm, consts::COMM_NULL) };
    }
    code
}

pub unsafe extern "C" fn from_ranks<A: Abi>(
    parent: i32,
    ranks: *const i32,
    count: i32,
    tag: i32,
    comm: *mut i32,
) -> i32 {
    if ranks.is_null() {
        return code::ERR_BUFFER;
    }
    let Ok(count @ 1..) = usize::try_from(count) else {
        return code::ERR_SIZE;
    };
    // SAFETY: not null, so an array of `count` integers by the table's contract.
    let list = unsafe { Ints::narrow(ranks as usize) };
    let list: Vec<i32> = (0..count).map(|i| list.get(i) as i32).collect();
    // SAFETY: the table's contract is the same.
    unsafe { ask::<A, _>(comm, |e| build::from_ranks(e, parent, &list, tag)) }
}

pub unsafe extern "C" fn free<A: Abi>(comm: *mut i32) -> i32 {
    if comm.is_null() {
        return code::ERR_BUFFER;
    }
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    short::forget();
    // SAFETY: not null, so readable and writable by the table's contract.
    let freed = build::free(&entered, unsafe { comm.read_unaligned() });
    if freed == code::SUCCESS {
        // SAFETY: as above.
        unsafe { put(comm, consts::COMM_NULL) };
    }
    freed
}

/// Writes at most `room` ranks and how many there are.
///
/// # Safety
/// `ranks` is null or has that room, `count` is null or writable.
unsafe fn list(members: &[u32], ranks: *mut i32, room: i32, count: *mut i32) -> i32 {
    if ranks.is_null() && room > 0 {
        return code::ERR_BUFFER;
    }
    let room = usize::try_from(room).unwrap_or(0);
    for (at, &rank) in members.iter().take(room).enumerate() {
        // SAFETY: below `room`, which the caller has there.
        unsafe { ranks.add(at).write_unaligned(rank as i32) };
    }
    // SAFETY: the caller's contract.
    unsafe { put(count, members.len() as i32) };
    code::SUCCESS
}

pub unsafe extern "C" fn ranks<A: Abi>(
    comm: i32,
    ranks: *mut i32,
    room: i32,
    count: *mut i32,
) -> i32 {
    let members = Entered::new::<A>()
        .and_then(|e| e.with(|core, _| core.comm(comm).map(|comm| comm.members())));
    match members {
        Err(code) => code,
        // SAFETY: the table's contract is the same.
        Ok(members) => unsafe { list(&members, ranks, room, count) },
    }
}

/// # Safety
/// As for [`list`].
unsafe fn of_mpi<A: Abi>(comm: Handle, ranks: *mut i32, room: i32, count: *mut i32) -> i32 {
    let guard = enter(A::HOOKS);
    if !guard.is_running() {
        return code::ERR_NOT_INITIALISED;
    }
    match guard.comm(comm) {
        Err(_) => code::ERR_COMM,
        // SAFETY: the caller's contract.
        Ok(comm) => unsafe { list(comm.group.members(), ranks, room, count) },
    }
}

pub unsafe extern "C" fn mpi_ranks<A: Abi>(
    comm: usize,
    ranks: *mut i32,
    room: i32,
    count: *mut i32,
) -> i32 {
    // SAFETY: the table's contract is the same.
    unsafe { of_mpi::<A>(A::comm_in(comm), ranks, room, count) }
}

pub unsafe extern "C" fn fortran_ranks<A: Abi>(
    comm: i32,
    ranks: *mut i32,
    room: i32,
    count: *mut i32,
) -> i32 {
    // SAFETY: the table's contract is the same.
    unsafe { of_mpi::<A>(A::fortran_in(comm), ranks, room, count) }
}

pub unsafe extern "C" fn mpi_world<A: Abi>(c: *mut usize, fortran: *mut i32) -> i32 {
    let world = types::consts::COMM_WORLD;
    // SAFETY: the table says that each is null or writable.
    unsafe {
        put(c, A::comm_out(world));
        put(fortran, A::fortran_out(world));
    }
    code::SUCCESS
}

pub unsafe extern "C" fn c2f<A: Abi>(comm: usize) -> i32 {
    A::fortran_out(A::comm_in(comm))
}

pub unsafe extern "C" fn f2c<A: Abi>(comm: i32) -> usize {
    A::comm_out(A::fortran_in(comm))
}
