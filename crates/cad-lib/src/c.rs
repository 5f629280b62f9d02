//! The names of `cad.h`.

use crate::table::{self, Code, Outcome, with};
use boundary::UserBuf;
use cad_run::{Calc, END, START, State};
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

/// A handle: the address of a descriptor's word. Never followed here.
type Handle = *mut u32;

/// An operation of the program.
type Operation = unsafe extern "C" fn(*const c_void, *mut c_void, usize, *mut c_void);

fn code(outcome: Outcome<()>) -> c_int {
    number(outcome.map(|()| 0))
}

fn number(outcome: Outcome<u32>) -> c_int {
    match outcome {
        Ok(n) => c_int::try_from(n).unwrap_or(Code::Many as c_int),
        Err(code) => code as c_int,
    }
}

fn state(outcome: Outcome<State>) -> c_int {
    number(outcome.map(|s| s as u32))
}

/// A buffer of the program.
///
/// # Safety
/// The memory is valid while a descriptor with it is under way.
unsafe fn buffer(address: *const c_void, bytes: usize) -> Outcome<UserBuf> {
    if address.is_null() && bytes > 0 {
        return Err(Code::Memory);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { UserBuf::new(address as usize) })
}

fn process(number: c_int) -> Outcome<u32> {
    u32::try_from(number).map_err(|_| Code::Peer)
}

/// Joins the job.
///
/// # Safety
/// `rank` and `size` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_start(rank: *mut c_int, size: *mut c_int) -> c_int {
    code(table::start().map(|place| {
        for (to, value) in [(rank, place.0), (size, place.1)] {
            if !to.is_null() {
                // SAFETY: the caller's contract; numbers of processes fit.
                unsafe { to.write(value as c_int) }
            }
        }
    }))
}

/// Leaves the job.
#[unsafe(no_mangle)]
pub extern "C" fn cad_finish() -> c_int {
    code(table::finish())
}

/// A new descriptor.
///
/// # Safety
/// `cad` is writable; `members` is null or has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_init(
    cad: *mut Handle,
    channel: u32,
    members: *const c_int,
    count: c_int,
) -> c_int {
    if cad.is_null() {
        return Code::Memory as c_int;
    }
    let list = || -> Outcome<Option<Vec<u32>>> {
        let count = usize::try_from(count).map_err(|_| Code::Peer)?;
        if members.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's contract.
        let list = unsafe { std::slice::from_raw_parts(members, count) };
        list.iter()
            .map(|&p| process(p))
            .collect::<Outcome<_>>()
            .map(Some)
    };
    let made = list().and_then(|members| with(|l| l.init(channel, members)));
    code(made.map(|handle| {
        // SAFETY: the caller's contract.
        unsafe { cad.write(handle as Handle) }
    }))
}

/// A node that sends.
///
/// # Safety
/// `from` has `bytes` bytes, while the descriptor is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_make_send_node(
    cad: Handle,
    from: *const c_void,
    bytes: usize,
    to: c_int,
) -> c_int {
    number(with(|l| {
        // SAFETY: the caller's contract.
        let buf = unsafe { buffer(from, bytes)? };
        let descriptor = l.entry(cad as usize)?.making()?;
        Ok(descriptor.make_send_node(buf, bytes as u64, process(to)?)?)
    }))
}

/// A node that receives.
///
/// # Safety
/// As of a send node; `to` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_make_recv_node(
    cad: Handle,
    to: *mut c_void,
    bytes: usize,
    from: c_int,
) -> c_int {
    number(with(|l| {
        // SAFETY: the caller's contract.
        let buf = unsafe { buffer(to, bytes)? };
        let descriptor = l.entry(cad as usize)?.making()?;
        Ok(descriptor.make_recv_node(buf, bytes as u64, process(from)?)?)
    }))
}

/// A node that calculates.
///
/// # Safety
/// `input` and `inout` have `bytes` bytes while the descriptor is under way; `op` may be called with
/// them and with `context` until the descriptor is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_make_calc_node(
    cad: Handle,
    op: Option<Operation>,
    context: *mut c_void,
    input: *const c_void,
    inout: *mut c_void,
    bytes: usize,
) -> c_int {
    let made = |op: Operation| {
        // SAFETY: the caller's contract.
        let (src, dst) = unsafe { (buffer(input, bytes)?, buffer(inout, bytes)?) };
        let calc: Calc = Rc::new(move |src: UserBuf, dst: UserBuf, bytes| {
            let (from, to) = (src.as_mut_ptr().cast_const(), dst.as_mut_ptr());
            // SAFETY: the caller's contract.
            unsafe { op(from.cast(), to.cast(), bytes as usize, context) }
        });
        with(|l| {
            let descriptor = l.entry(cad as usize)?.making()?;
            Ok(descriptor.make_calc_node(calc, src, dst, bytes as u64)?)
        })
    };
    number(op.ok_or(Code::Memory).and_then(made))
}

/// A node that calculates what may be calculated at any point of the program.
///
/// # Safety
/// As of a node that calculates; `op` may also be called from the handler of a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_make_reduction_node(
    cad: Handle,
    op: Option<Operation>,
    context: *mut c_void,
    input: *const c_void,
    inout: *mut c_void,
    bytes: usize,
) -> c_int {
    let made = |op: Operation| {
        // SAFETY: the caller's contract.
        let (src, dst) = unsafe { (buffer(input, bytes)?, buffer(inout, bytes)?) };
        // As a number: whatever it points to, only the program touches it.
        let context = context.expose_provenance();
        let reduce = move |src: UserBuf, dst: UserBuf, bytes: u64| {
            let (from, to) = (src.as_mut_ptr().cast_const(), dst.as_mut_ptr());
            let context = std::ptr::with_exposed_provenance_mut(context);
            // SAFETY: the caller's contract.
            unsafe { op(from.cast(), to.cast(), bytes as usize, context) }
        };
        with(|l| {
            let descriptor = l.entry(cad as usize)?.making()?;
            Ok(descriptor.make_reduction_node(reduce, src, dst, bytes as u64)?)
        })
    };
    number(op.ok_or(Code::Memory).and_then(made))
}

/// A node that copies.
///
/// # Safety
/// `from` and `to` have `bytes` bytes while the descriptor is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_make_copy_node(
    cad: Handle,
    from: *const c_void,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    number(with(|l| {
        // SAFETY: the caller's contract.
        let (src, dst) = unsafe { (buffer(from, bytes)?, buffer(to, bytes)?) };
        let descriptor = l.entry(cad as usize)?.making()?;
        Ok(descriptor.make_copy_node(src, dst, bytes as u64)?)
    }))
}

/// An edge.
#[unsafe(no_mangle)]
pub extern "C" fn cad_connect_node(cad: Handle, before: c_int, after: c_int) -> c_int {
    let node = |n: c_int| match n {
        -1 => Ok(START),
        -2 => Ok(END),
        n => u32::try_from(n).map_err(|_| Code::Node),
    };
    code(with(|l| {
        let descriptor = l.entry(cad as usize)?.making()?;
        Ok(descriptor.connect_node(node(before)?, node(after)?)?)
    }))
}

/// Starts a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cad_issue(cad: Handle) -> c_int {
    code(with(|l| l.issue(cad as usize)))
}

/// Moves whatever can move.
#[unsafe(no_mangle)]
pub extern "C" fn cad_progress() -> c_int {
    code(with(|l| {
        l.progress();
        Ok(())
    }))
}

/// How a descriptor stands, after a look.
#[unsafe(no_mangle)]
pub extern "C" fn cad_test(cad: Handle) -> c_int {
    state(with(|l| l.test(cad as usize)))
}

/// How a descriptor stands that had not begun when `cad_query` looked. In another thread, or called by an operation, it can't
/// begin, and is pending.
#[unsafe(no_mangle)]
pub extern "C" fn cad_query_unbegun(cad: Handle) -> c_int {
    match with(|l| l.test(cad as usize)) {
        Err(Code::State | Code::Busy) => State::Pending as c_int,
        tested => state(tested),
    }
}

/// Waits for a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cad_wait(cad: Handle) -> c_int {
    state(with(|l| l.wait(cad as usize)))
}

/// Takes a descriptor back.
#[unsafe(no_mangle)]
pub extern "C" fn cad_cancel(cad: Handle) -> c_int {
    code(with(|l| l.cancel(cad as usize)))
}

/// Gives a descriptor back.
///
/// # Safety
/// `cad` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_free(cad: *mut Handle) -> c_int {
    if cad.is_null() {
        return Code::Memory as c_int;
    }
    // SAFETY: the caller's contract.
    let handle = unsafe { cad.read() };
    code(with(|l| l.free(handle as usize)).map(|()| {
        // SAFETY: the caller's contract.
        unsafe { cad.write(std::ptr::null_mut()) }
    }))
}

/// Which executor it is, and what it has run.
///
/// # Safety
/// `name`, `nodes` and `in_calls` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cad_executor(
    name: *mut *const c_char,
    nodes: *mut u64,
    in_calls: *mut u64,
) -> c_int {
    code(with(|l| {
        let (word, counts) = l.counts();
        let word = match word {
            "ring" => c"ring",
            _ => c"inline",
        };
        if !name.is_null() {
            // SAFETY: the caller's contract.
            unsafe { name.write(word.as_ptr()) }
        }
        for (to, value) in [(nodes, counts.nodes), (in_calls, counts.in_calls)] {
            if !to.is_null() {
                // SAFETY: the caller's contract.
                unsafe { to.write(value) }
            }
        }
        Ok(())
    }))
}

/// Words for a code.
#[unsafe(no_mangle)]
pub extern "C" fn cad_error_string(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"done",
        1 => c"under way",
        2 => c"a message was not as long as its receive node says",
        3 => c"a process that takes part is gone",
        4 => c"cancelled",
        5 => c"not issued yet",
        -10 => c"CAD is not running in this thread",
        -11 => c"joining or leaving the job failed",
        -12 => c"no such descriptor",
        -13 => c"no such process, not a member, or the caller itself",
        -14 => c"no such node",
        -15 => c"not a valid buffer, operation or address",
        -16 => c"too many nodes for one process",
        -17 => c"the nodes wait for each other",
        -18 => c"the descriptor is under way or was issued, or an operation calls CAD",
        -19 => c"the channel is too large",
        -20 => c"this executor can't run the descriptor",
        _ => c"not a code of CAD",
    };
    text.as_ptr()
}
