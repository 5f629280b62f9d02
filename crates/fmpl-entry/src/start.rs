//! Start and end, stashes, memory, and what is not a message.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use boundary::UserBuf;
use engine::{Phase, enter};
use fmpl::{Host, LIBRARY, PROGRAM, Stash, build, finish};
use fmpl_table::{code, consts};
use mtmi::slot::Slots;

use crate::Abi;
use crate::host::Entered;
use crate::messages::put;
use crate::process::{Stage, process};
use crate::short;

/// Starts MPI if nobody has, and joins the state to it.
fn start<A: Abi>() -> Result<Entered, i32> {
    let guard = enter(A::HOOKS);
    if guard.phase() == Phase::Finalized {
        return Err(code::ERR_FINALIZED);
    }
    if let Err(fault) = guard.start_for_extension() {
        let text = &fault.text;
        sys::say::line(&format!("yamabiko: FMPL can't start MPI: {text}"));
        return Err(code::ERR_START);
    }
    if !guard.is_running() {
        sys::say::line("yamabiko: FMPL can't be used in a process that was forked from a rank");
        return Err(code::ERR_START);
    }
    process(&guard).join(&guard);
    Ok(Entered::of(guard))
}

/// Ends MPI if it was started from here and nobody uses it.
fn leave(entered: &Entered) -> i32 {
    let process = entered.process();
    if process.stage.get() == Stage::Open || process.attached.get() > 0 {
        return code::SUCCESS;
    }
    match entered.engine().end_for_extension() {
        Ok(()) => code::SUCCESS,
        Err(fault) => {
            let text = &fault.text;
            sys::say::line(&format!("yamabiko: ending MPI failed: {text}"));
            code::ERR_START
        }
    }
}

pub unsafe extern "C" fn init<A: Abi>(_ma: *mut c_void, _fa: *mut c_void, count: i64) -> i32 {
    if !(1..=consts::COUNT_MAX).contains(&count) {
        return code::ERR_SIZE;
    }
    let entered = match start::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let stage = &entered.process().stage;
    match stage.get() {
        Stage::Open => return code::ERR_INITIALISED,
        Stage::Refused | Stage::Over => return code::ERR_FINALIZED,
        Stage::Before => stage.set(Stage::Refused),
    }
    let count = count as u32;
    if let Err(code) = entered.with(|core, below| core.open(below, PROGRAM, count)) {
        return code;
    }
    let agreed = build::agree_on_count(&entered, count);
    match agreed {
        code::SUCCESS => stage.set(Stage::Open),
        _ => {
            short::forget();
            entered.with(|core, below| core.close(below, PROGRAM));
        }
    }
    agreed
}

pub unsafe extern "C" fn finalize<A: Abi>() -> i32 {
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let stage = &entered.process().stage;
    match stage.get() {
        Stage::Open | Stage::Refused => {}
        Stage::Before => return code::ERR_NOT_INITIALISED,
        Stage::Over => return code::ERR_FINALIZED,
    }
    short::forget();
    let closed = match stage.get() {
        Stage::Open => finish::close(&entered, "fmpl_finalize", PROGRAM),
        _ => code::SUCCESS,
    };
    stage.set(Stage::Over);
    match leave(&entered) {
        code::SUCCESS => closed,
        code => code,
    }
}

pub unsafe extern "C" fn attach<A: Abi>() -> i32 {
    let entered = match start::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let opened = entered.with(|core, below| {
        if core.is_open(LIBRARY) {
            return Ok(());
        }
        core.open(below, LIBRARY, consts::LIBRARY_SLOTS as u32)?;
        core.area(LIBRARY)?
            .set_stash(Stash::growing(), Some(Duration::ZERO));
        Ok(())
    });
    if let Err(code) = opened {
        return code;
    }
    let attached = &entered.process().attached;
    attached.set(attached.get() + 1);
    code::SUCCESS
}

pub unsafe extern "C" fn detach<A: Abi>() -> i32 {
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let attached = &entered.process().attached;
    let Some(left) = attached.get().checked_sub(1) else {
        return code::ERR_NOT_INITIALISED;
    };
    attached.set(left);
    if left == 0 {
        // The area stays open for the next `attach`: its name can be used once.
        finish::drain(&entered, "detach", LIBRARY);
    }
    leave(&entered)
}

pub unsafe extern "C" fn phase<A: Abi>() -> i32 {
    match enter(A::HOOKS).phase() {
        Phase::Before => consts::PHASE_BEFORE,
        Phase::Running => consts::PHASE_RUNNING,
        Phase::Finalized => consts::PHASE_FINALIZED,
    }
}

pub unsafe extern "C" fn initialized<A: Abi>() -> i32 {
    let guard = enter(A::HOOKS);
    i32::from(process(&guard).stage.get() == Stage::Open)
}

pub unsafe extern "C" fn abort<A: Abi>(error: i32, message: *const c_char) {
    let text = match message.is_null() {
        true => "the job was aborted".into(),
        // SAFETY: the table says that it is NULL or a string.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy(),
    };
    enter(A::HOOKS).abort_job(error, &text)
}

pub unsafe extern "C" fn threads<A: Abi>() -> *const AtomicBool {
    engine::threads_flag(A::HOOKS)
}

pub unsafe extern "C" fn wtime() -> f64 {
    sys::clock::now()
}

pub unsafe extern "C" fn strerror(error: i32) -> *const c_char {
    code::text(error).as_ptr()
}

/// A stash of `size` bytes at `buf`, as the table describes it.
fn stash(buf: *mut c_void, size: i64) -> Result<Stash, i32> {
    match (size, buf.is_null()) {
        (0, _) => Ok(Stash::none()),
        (consts::GROWS, true) => Ok(Stash::growing()),
        (..0, _) => Err(code::ERR_SIZE),
        (_, true) => Stash::own(size as u64).ok_or(code::ERR_MEMORY),
        (_, false) => {
            // SAFETY: the table says that the memory is the library's until another stash is set.
            let buf = unsafe { UserBuf::new(buf as usize) };
            Ok(Stash::given(buf, size as u64))
        }
    }
}

fn set<A: Abi>(which: usize, buf: *mut c_void, size: i64, ipara: i32) -> i32 {
    let patience = match ipara {
        consts::INFINITE => None,
        0.. => Some(Duration::from_millis(ipara as u64)),
        _ => return code::ERR_ARGUMENT,
    };
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let set = entered.with(|core, _| {
        let area = core.area(which)?;
        Ok(area.set_stash(stash(buf, size)?, patience))
    });
    set.unwrap_or_else(|code| code)
}

pub unsafe extern "C" fn sendbuf_set<A: Abi>(buf: *mut c_void, size: i64, ipara: i32) -> i32 {
    set::<A>(PROGRAM, buf, size, ipara)
}

pub unsafe extern "C" fn library_stash<A: Abi>(size: i64, ipara: i32) -> i32 {
    set::<A>(LIBRARY, std::ptr::null_mut(), size, ipara)
}

pub unsafe extern "C" fn sendbuf_check<A: Abi>(nsend: *mut i32, nspool: *mut i32) -> i32 {
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    // The first may hear that a process has died, the second lets go of what was spooled for that.
    for _ in 0..2 {
        entered.engine().make_progress();
    }
    match entered.with(|core, _| core.area(PROGRAM).map(|area| area.check())) {
        Err(code) => code,
        Ok((sent, spooled)) => {
            // SAFETY: the table says that each address is null or writable.
            unsafe {
                put(nsend, sent.min(i32::MAX as u32) as i32);
                put(nspool, spooled.min(i32::MAX as u32) as i32);
            }
            code::SUCCESS
        }
    }
}

pub unsafe extern "C" fn library_stash_drain<A: Abi>() -> i32 {
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    finish::drain(&entered, "BLACS: sends that nobody has received", LIBRARY);
    code::SUCCESS
}

pub unsafe extern "C" fn alloc<A: Abi>(size: i64, memory: *mut *mut c_void) -> i32 {
    if memory.is_null() {
        return code::ERR_BUFFER;
    }
    let Ok(size) = usize::try_from(size) else {
        return code::ERR_SIZE;
    };
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    let got = entered.with(|_, below| below.alloc_mapped(size.max(1)));
    let at = got.map_or(std::ptr::null_mut(), |buf| buf.as_mut_ptr().cast());
    // SAFETY: the table says that the address is writable.
    unsafe { put(memory, at) };
    match got {
        Some(_) => code::SUCCESS,
        None => code::ERR_MEMORY,
    }
}

pub unsafe extern "C" fn free<A: Abi>(memory: *mut c_void) -> i32 {
    let entered = match Entered::new::<A>() {
        Ok(entered) => entered,
        Err(code) => return code,
    };
    // SAFETY: nothing is reached through it; the transport compares it with what it gave out.
    let memory = unsafe { UserBuf::new(memory as usize) };
    match entered.with(|_, below| below.free_mapped(memory)) {
        true => code::SUCCESS,
        false => code::ERR_ARGUMENT,
    }
}
