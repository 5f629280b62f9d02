//! Collectives.

use std::ffi::c_void;

use boundary::{UserBuf, UserFn};
use fmpl::reduce::Args;
use fmpl::{Host, barrier as barriers, bcast as broadcasts, reduce as reductions};
use fmpl_table::{Func, code, consts};

use crate::Abi;
use crate::host::Entered;

pub unsafe extern "C" fn barrier<A: Abi>(comm: i32) -> i32 {
    match Entered::new::<A>() {
        Ok(entered) => barriers::barrier(&entered, comm),
        Err(code) => code,
    }
}

pub unsafe extern "C" fn bcast<A: Abi>(buf: *mut c_void, size: i64, root: i32, comm: i32) -> i32 {
    match Entered::new::<A>() {
        Ok(entered) => {
            // SAFETY: the table says that it is null or a buffer of `size` bytes while the call runs.
            let buf = unsafe { UserBuf::new(buf as usize) };
            broadcasts::bcast(&entered, buf, size, root, comm)
        }
        Err(code) => code,
    }
}

/// A function, as FMPL has it.
///
/// # Safety
/// `func` is null or points to one, whose function has the prototype that the table says.
unsafe fn function(func: *const Func) -> Result<fmpl::Func, i32> {
    if func.is_null() {
        return Err(code::ERR_FUNCTION);
    }
    // SAFETY: not null, so a function by the caller's contract.
    let func = unsafe { func.read_unaligned() };
    match (func.builtin, func.function) {
        (0, None) => Err(code::ERR_FUNCTION),
        (0, Some(function)) => Ok(fmpl::Func::User {
            // SAFETY: of the right prototype by the caller's contract.
            function: unsafe { UserFn::new(function as usize) },
            element: func.element,
        }),
        (number, _) => fmpl::Func::builtin(number),
    }
}

/// The arguments of a reduction.
///
/// # Safety
/// `func` is null or points to one, whose function has the prototype that the table says; the buffers are null or large
/// enough while the call runs.
unsafe fn args(
    buf: *mut c_void,
    count: i64,
    func: *const Func,
    comm: i32,
    work: *mut c_void,
) -> Result<Args, i32> {
    // SAFETY: the caller's contract.
    let func = unsafe { function(func) }?;
    Ok(Args {
        // SAFETY: the caller's contract.
        buf: unsafe { UserBuf::new(buf as usize) },
        count,
        func,
        comm,
        // SAFETY: the caller's contract.
        work: unsafe { UserBuf::new(work as usize) },
    })
}

pub unsafe extern "C" fn reduce<A: Abi>(
    buf: *mut c_void,
    count: i64,
    func: *const Func,
    root: i32,
    comm: i32,
    work: *mut c_void,
) -> i32 {
    // SAFETY: the table's contract is the same.
    let args = unsafe { args(buf, count, func, comm, work) };
    match args.and_then(|args| Ok((args, Entered::new::<A>()?))) {
        Ok((args, entered)) => reductions::reduce(&entered, &args, root),
        Err(code) => code,
    }
}

pub unsafe extern "C" fn allreduce<A: Abi>(
    buf: *mut c_void,
    count: i64,
    func: *const Func,
    comm: i32,
    work: *mut c_void,
) -> i32 {
    // SAFETY: the table's contract is the same.
    let args = unsafe { args(buf, count, func, comm, work) };
    match args.and_then(|args| Ok((args, Entered::new::<A>()?))) {
        Ok((args, entered)) => reductions::allreduce(&entered, &args),
        Err(code) => code,
    }
}

pub unsafe extern "C" fn set<A: Abi>(which: i32) -> i32 {
    let software = match which {
        consts::COLLECTIVES_AUTO => false,
        consts::COLLECTIVES_SOFTWARE => true,
        _ => return code::ERR_ARGUMENT,
    };
    match Entered::new::<A>() {
        Ok(entered) => {
            entered.with(|core, _| core.set_software(software));
            code::SUCCESS
        }
        Err(code) => code,
    }
}

pub unsafe extern "C" fn apply(
    func: *const Func,
    inout: *mut c_void,
    input: *const c_void,
    count: i64,
) -> i32 {
    let Ok(count) = u64::try_from(count) else {
        return code::ERR_SIZE;
    };
    if count > 0 && (inout.is_null() || input.is_null()) {
        return code::ERR_BUFFER;
    }
    // SAFETY: the table's contract is the same.
    match unsafe { function(func) } {
        Err(code) => code,
        Ok(func) => {
            // SAFETY: the table says that both hold `count` elements while the call runs.
            let (inout, input) =
                unsafe { (UserBuf::new(inout as usize), UserBuf::new(input as usize)) };
            func.apply(inout, input, count);
            code::SUCCESS
        }
    }
}
