//! Messages.

use std::ffi::c_void;
use std::time::Duration;

use boundary::UserBuf;
use fabrics::Taken;
use fmpl::area::Ended;
use fmpl::p2p::{self, Args, Name};
use fmpl::{Host, any};
use fmpl_table::code;

use crate::Abi;
use crate::host::Entered;
use crate::short::{self, Done};

/// Writes a result, unless its address is null.
///
/// # Safety
/// The address is null or writable.
pub unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's contract; callers may be Fortran, which aligns as it likes.
        unsafe { to.write_unaligned(value) }
    }
}

/// Enters, or returns the code.
macro_rules! entered {
    ($abi:ident) => {
        match Entered::new::<$abi>() {
            Ok(entered) => entered,
            Err(code) => return code,
        }
    };
}

/// The arguments of a message.
///
/// # Safety
/// `buf` is null or a buffer of `size` bytes until the operation is over.
#[inline(always)]
unsafe fn args(buf: *const c_void, size: i64, rank: i32, mai: i32, comm: i32) -> Args {
    Args {
        // SAFETY: the caller's contract.
        buf: unsafe { UserBuf::new(buf as usize) },
        size,
        rank,
        mai,
        comm,
    }
}

/// Functions of the same form: where the short path does not do it, the other does, after which that may be ready.
macro_rules! message {
    ($($name:ident $ptr:ty, $what:path, $short:expr;)*) => { $(
        pub unsafe extern "C" fn $name<A: Abi>(
            buf: $ptr, size: i64, rank: i32, mai: i32, comm: i32,
        ) -> i32 {
            // What has to save registers is a function of its own.
            #[inline(never)]
            fn otherwise<A: Abi>(args: Args, posted: bool) -> i32 {
                let entered = entered!(A);
                if posted {
                    return p2p::recv_posted(&entered, &args);
                }
                let code = $what(&entered, &args);
                short::know(&entered, args.comm);
                code
            }
            // SAFETY: the table's contract is the same.
            let args = unsafe { args(buf, size, rank, mai, comm) };
            match $short(&args) {
                Done::Over(code) => code,
                Done::Posted => otherwise::<A>(args, true),
                Done::Nothing => otherwise::<A>(args, false),
            }
        }
    )* };
}

/// What has no short path.
fn nothing(_: &Args) -> Done {
    Done::Nothing
}

message! {
    send *const c_void, p2p::send, short::send;
    isend *const c_void, p2p::isend, nothing;
    recv *mut c_void, p2p::recv, short::recv;
    irecv *mut c_void, p2p::irecv, short::irecv;
    send_any *const c_void, any::send_any, nothing;
}

pub unsafe extern "C" fn isend_wait<A: Abi>(rank: i32, mai: i32, comm: i32) -> i32 {
    p2p::isend_wait(&entered!(A), Name { rank, mai, comm })
}

pub unsafe extern "C" fn irecv_wait<A: Abi>(rank: i32, mai: i32, comm: i32) -> i32 {
    #[inline(never)]
    fn otherwise<A: Abi>(name: Name, looks: u32) -> i32 {
        match p2p::irecv_wait_on(&entered!(A), name, looks) {
            Ok(end) => end.code,
            Err(code) => code,
        }
    }
    let name = Name { rank, mai, comm };
    match short::irecv_wait(name) {
        Taken::Whole => code::SUCCESS,
        Taken::NotYet => otherwise::<A>(name, 0),
        Taken::Otherwise => otherwise::<A>(name, p2p::LOOKS_FOR_END),
    }
}

pub unsafe extern "C" fn irecv_wait_status<A: Abi>(
    rank: i32,
    mai: i32,
    comm: i32,
    size: *mut i64,
    index: *mut i32,
) -> i32 {
    match p2p::irecv_wait(&entered!(A), Name { rank, mai, comm }) {
        Err(code) => code,
        Ok(Ended {
            code,
            bytes,
            index: from,
        }) => {
            // SAFETY: the table says that each is null or writable.
            unsafe {
                put(size, i64::try_from(bytes).unwrap_or(i64::MAX));
                put(index, from as i32);
            }
            code
        }
    }
}

/// Ends a test: the flag, and the code of what is over.
///
/// # Safety
/// `flag` is writable.
unsafe fn tested(flag: *mut i32, result: Result<Option<i32>, i32>) -> i32 {
    let (over, code) = match result {
        Ok(None) => (0, code::SUCCESS),
        Ok(Some(code)) => (1, code),
        Err(code) => return code,
    };
    // SAFETY: the caller's contract.
    unsafe { put(flag, over) };
    code
}

pub unsafe extern "C" fn isend_test<A: Abi>(rank: i32, mai: i32, comm: i32, flag: *mut i32) -> i32 {
    if flag.is_null() {
        return code::ERR_BUFFER;
    }
    let entered = entered!(A);
    let name = Name { rank, mai, comm };
    let mut result = p2p::isend_test(&entered, name);
    if result == Ok(None) && entered.engine().make_progress() {
        result = p2p::isend_test(&entered, name);
    }
    // SAFETY: not null, so writable by the table's contract.
    unsafe { tested(flag, result) }
}

pub unsafe extern "C" fn irecv_test<A: Abi>(rank: i32, mai: i32, comm: i32, flag: *mut i32) -> i32 {
    if flag.is_null() {
        return code::ERR_BUFFER;
    }
    let entered = entered!(A);
    let name = Name { rank, mai, comm };
    let mut result = p2p::irecv_test(&entered, name);
    if result == Ok(None) && entered.engine().make_progress() {
        result = p2p::irecv_test(&entered, name);
    }
    // SAFETY: not null, so writable by the table's contract.
    unsafe { tested(flag, result.map(|end| end.map(|e| e.code))) }
}

pub unsafe extern "C" fn offered<A: Abi>(
    rank: i32,
    mai: i32,
    comm: i32,
    patience: u64,
    room: *mut i64,
) -> i32 {
    if room.is_null() {
        return code::ERR_BUFFER;
    }
    let name = Name { rank, mai, comm };
    match p2p::offered(&entered!(A), name, Duration::from_nanos(patience)) {
        Err(code) => code,
        Ok(bytes) => {
            let bytes = bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
            // SAFETY: not null, so writable by the table's contract.
            unsafe { put(room, bytes) };
            code::SUCCESS
        }
    }
}

pub unsafe extern "C" fn recv_any<A: Abi>(buf: *mut c_void, size: i64, mai: i32, comm: i32) -> i32 {
    let null = std::ptr::null_mut;
    // SAFETY: the table's contract for the buffer is the same; results may be null.
    unsafe { recv_any_from::<A>(buf, size, mai, comm, null(), std::ptr::null_mut(), null()) }
}

pub unsafe extern "C" fn recv_any_from<A: Abi>(
    buf: *mut c_void,
    size: i64,
    mai: i32,
    comm: i32,
    src: *mut i32,
    bytes: *mut i64,
    index: *mut i32,
) -> i32 {
    let entered = entered!(A);
    // SAFETY: the table's contract is the same.
    let buf = unsafe { UserBuf::new(buf as usize) };
    match any::recv_any(&entered, buf, size, mai, comm) {
        Err(code) => code,
        Ok(got) => {
            // SAFETY: the table says that each is null or writable.
            unsafe {
                put(src, got.source);
                put(bytes, i64::try_from(got.bytes).unwrap_or(i64::MAX));
                put(index, got.index);
            }
            got.code
        }
    }
}

pub unsafe extern "C" fn progress<A: Abi>(moved: *mut i32) -> i32 {
    let entered = entered!(A);
    let some = entered.engine().make_progress() | entered.with(|core, below| core.progress(below));
    // SAFETY: the table says that it is null or writable.
    unsafe { put(moved, i32::from(some)) };
    code::SUCCESS
}
