//! The functions that are not about matrices, in C (`Cblacs_pinfo`) and Fortran (`blacs_pinfo_`).

use std::ffi::{c_char, c_int};

use super::{letter, tell};
use crate::calls::{self, Language};

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_pinfo(mypnum: *mut c_int, nprocs: *mut c_int) {
    let (rank, size) = calls::pinfo();
    // SAFETY: BLACS' contract.
    unsafe { tell([mypnum, nprocs], [rank, size]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_pinfo_(mypnum: *mut c_int, nprocs: *mut c_int) {
    let (rank, size) = calls::pinfo();
    // SAFETY: BLACS' contract.
    unsafe { tell([mypnum, nprocs], [rank, size]) }
}

/// The number of processes is decided before they start, so this is the same as `Cblacs_pinfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_setup(mypnum: *mut c_int, nprocs: *mut c_int) {
    let (rank, size) = calls::pinfo();
    // SAFETY: BLACS' contract.
    unsafe { tell([mypnum, nprocs], [rank, size]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_setup_(mypnum: *mut c_int, nprocs: *mut c_int) {
    let (rank, size) = calls::pinfo();
    // SAFETY: BLACS' contract.
    unsafe { tell([mypnum, nprocs], [rank, size]) }
}

/// # Safety
/// `value` has room for as many values as `what` has.
unsafe fn get(language: Language, context: c_int, what: c_int, value: *mut c_int) {
    if let Some((first, second)) = calls::get(language, context, what) {
        // SAFETY: the caller's promise.
        unsafe { *value = first };
        if let Some(second) = second {
            // SAFETY: the caller's promise: this one has two.
            unsafe { *value.add(1) = second }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_get(context: c_int, what: c_int, value: *mut c_int) {
    // SAFETY: BLACS' contract.
    unsafe { get(Language::C, context, what, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_get_(context: *const c_int, what: *const c_int, value: *mut c_int) {
    // SAFETY: BLACS' contract.
    unsafe { get(Language::Fortran, *context, *what, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_set(context: c_int, what: c_int, value: *const c_int) {
    // SAFETY: BLACS' contract.
    unsafe { calls::set(context, what, *value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_set_(context: *const c_int, what: *const c_int, value: *const c_int) {
    // SAFETY: BLACS' contract.
    unsafe { calls::set(*context, *what, *value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_gridinit(
    context: *mut c_int,
    order: *const c_char,
    nprow: c_int,
    npcol: c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe { *context = calls::gridinit(Language::C, *context, letter(order), nprow, npcol) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_gridinit_(
    context: *mut c_int,
    order: *const c_char,
    nprow: *const c_int,
    npcol: *const c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe {
        *context = calls::gridinit(Language::Fortran, *context, letter(order), *nprow, *npcol);
    }
}

/// # Safety
/// `map` is an array with leading dimension `leading` and as many columns as are asked for.
unsafe fn entry(map: *const c_int, leading: c_int, row: c_int, column: c_int) -> c_int {
    let at = column as usize * leading as usize + row as usize;
    // SAFETY: the caller's promise.
    unsafe { *map.add(at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_gridmap(
    context: *mut c_int,
    usermap: *const c_int,
    ldumap: c_int,
    nprow: c_int,
    npcol: c_int,
) {
    let at = |row, column| {
        // SAFETY: BLACS' contract; the sides were checked.
        unsafe { entry(usermap, ldumap, row, column) }
    };
    // SAFETY: BLACS' contract.
    unsafe { *context = calls::gridmap(Language::C, *context, nprow, npcol, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_gridmap_(
    context: *mut c_int,
    usermap: *const c_int,
    ldumap: *const c_int,
    nprow: *const c_int,
    npcol: *const c_int,
) {
    let at = |row, column| {
        // SAFETY: BLACS' contract; the sides were checked.
        unsafe { entry(usermap, *ldumap, row, column) }
    };
    // SAFETY: BLACS' contract.
    unsafe { *context = calls::gridmap(Language::Fortran, *context, *nprow, *npcol, at) }
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs_gridexit(context: c_int) {
    calls::gridexit(context);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_gridexit_(context: *const c_int) {
    // SAFETY: BLACS' contract.
    calls::gridexit(unsafe { *context });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_gridinfo(
    context: c_int,
    nprow: *mut c_int,
    npcol: *mut c_int,
    myrow: *mut c_int,
    mycol: *mut c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe { tell([nprow, npcol, myrow, mycol], calls::gridinfo(context)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_gridinfo_(
    context: *const c_int,
    nprow: *mut c_int,
    npcol: *mut c_int,
    myrow: *mut c_int,
    mycol: *mut c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe { tell([nprow, npcol, myrow, mycol], calls::gridinfo(*context)) }
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs_pnum(context: c_int, prow: c_int, pcol: c_int) -> c_int {
    calls::pnum(context, prow, pcol)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_pnum_(
    context: *const c_int,
    prow: *const c_int,
    pcol: *const c_int,
) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::pnum(*context, *prow, *pcol) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_pcoord(
    context: c_int,
    pnum: c_int,
    prow: *mut c_int,
    pcol: *mut c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe { tell([prow, pcol], calls::pcoord(context, pnum).into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_pcoord_(
    context: *const c_int,
    pnum: *const c_int,
    prow: *mut c_int,
    pcol: *mut c_int,
) {
    // SAFETY: BLACS' contract.
    unsafe { tell([prow, pcol], calls::pcoord(*context, *pnum).into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Cblacs_barrier(context: c_int, scope: *const c_char) {
    // SAFETY: BLACS' contract.
    unsafe { calls::barrier(context, letter(scope)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_barrier_(context: *const c_int, scope: *const c_char) {
    // SAFETY: BLACS' contract.
    unsafe { calls::barrier(*context, letter(scope)) }
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs_freebuff(_context: c_int, wait: c_int) {
    calls::freebuff(wait);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_freebuff_(_context: *const c_int, wait: *const c_int) {
    // SAFETY: BLACS' contract.
    calls::freebuff(unsafe { *wait });
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs_exit(not_done: c_int) {
    calls::exit(not_done);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_exit_(not_done: *const c_int) {
    // SAFETY: BLACS' contract.
    calls::exit(unsafe { *not_done });
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs_abort(context: c_int, code: c_int) {
    calls::abort(context, code);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn blacs_abort_(context: *const c_int, code: *const c_int) {
    // SAFETY: BLACS' contract.
    unsafe { calls::abort(*context, *code) }
}

/// A communicator of C is a word in the standard ABI, and its lower half in MPICH's.
#[unsafe(no_mangle)]
extern "C" fn Csys2blacs_handle(comm: usize) -> c_int {
    calls::sys2blacs(comm)
}

/// In Fortran a system handle is the communicator itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys2blacs_handle_(comm: *const c_int) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { *comm }
}

#[unsafe(no_mangle)]
extern "C" fn Cblacs2sys_handle(handle: c_int) -> usize {
    calls::blacs2sys(handle)
}

/// In Fortran a system handle is the communicator itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn blacs2sys_handle_(handle: *const c_int) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { *handle }
}

#[unsafe(no_mangle)]
extern "C" fn Cfree_blacs_system_handle(handle: c_int) {
    calls::free_system(handle);
}

/// Fortran's system handles take no place that could be freed.
#[unsafe(no_mangle)]
extern "C" fn free_blacs_system_handle_(_handle: *const c_int) {}

#[unsafe(no_mangle)]
extern "C" fn Cdwalltime00() -> f64 {
    calls::wall_time()
}

#[unsafe(no_mangle)]
extern "C" fn dwalltime00_() -> f64 {
    calls::wall_time()
}

#[unsafe(no_mangle)]
extern "C" fn Cdcputime00() -> f64 {
    calls::cpu_time()
}

#[unsafe(no_mangle)]
extern "C" fn dcputime00_() -> f64 {
    calls::cpu_time()
}

#[unsafe(no_mangle)]
extern "C" fn Cksendid(context: c_int, rdest: c_int, cdest: c_int) -> c_int {
    calls::send_id(context, (rdest, cdest))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ksendid_(
    context: *const c_int,
    rdest: *const c_int,
    cdest: *const c_int,
) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::send_id(*context, (*rdest, *cdest)) }
}

#[unsafe(no_mangle)]
extern "C" fn Ckrecvid(context: c_int, rsrc: c_int, csrc: c_int) -> c_int {
    calls::receive_id(context, (rsrc, csrc))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn krecvid_(
    context: *const c_int,
    rsrc: *const c_int,
    csrc: *const c_int,
) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::receive_id(*context, (*rsrc, *csrc)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Ckbsid(context: c_int, scope: *const c_char) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::broadcast_id(context, letter(scope)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn kbsid_(context: *const c_int, scope: *const c_char) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::broadcast_id(*context, letter(scope)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Ckbrid(
    context: c_int,
    scope: *const c_char,
    _rsrc: c_int,
    _csrc: c_int,
) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::broadcast_id(context, letter(scope)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn kbrid_(
    context: *const c_int,
    scope: *const c_char,
    _rsrc: *const c_int,
    _csrc: *const c_int,
) -> c_int {
    // SAFETY: BLACS' contract.
    unsafe { calls::broadcast_id(*context, letter(scope)) }
}
