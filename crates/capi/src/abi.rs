//! How the standard ABI writes handles, statuses and special addresses.
//!
//! A handle is a pointer: below 4096 a constant of the standard, else an object's address, whose
//! lower 32 bits are the neutral handle and whose upper 32 are the same for all objects.

use std::ffi::c_void;

use boundary::{CallbackAbi, HandleCodec, Ints, StatusCodec, Statuses, UserBuf, UserFn};
use engine::AbiHooks;
use entry::short::{AbiStatus, AbiType, Sizes};
use entry::{AbiHandle, StatusOut};
use types::{Handle, Result, Status, consts, fault};

/// What the generated entry points import.
pub mod prelude {
    pub use std::ffi::{c_char, c_void};

    pub use engine::api;
    pub use entry::*;
    pub use types::consts;

    pub use super::{
        CStatus, Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
        callback, limits, status_array, status_in, status_inout, status_out, user_buffer,
        weight_array,
    };
}

/// Room for strings, in bytes with the final NUL.
pub mod limits {
    use types::consts;

    /// `MPI_MAX_OBJECT_NAME`.
    pub const OBJECT_NAME: usize = consts::MAX_OBJECT_NAME as usize;
    /// `MPI_MAX_ERROR_STRING`.
    pub const ERROR_STRING: usize = consts::MAX_ERROR_STRING as usize;
    /// `MPI_MAX_LIBRARY_VERSION_STRING`.
    pub const LIBRARY_VERSION_STRING: usize = consts::MAX_LIBRARY_VERSION_STRING as usize;
    /// `MPI_MAX_PROCESSOR_NAME`.
    pub const PROCESSOR_NAME: usize = consts::MAX_PROCESSOR_NAME as usize;
    /// `MPI_MAX_PORT_NAME`.
    pub const PORT_NAME: usize = consts::MAX_PORT_NAME as usize;
    /// `MPI_MAX_DATAREP_STRING`.
    pub const DATAREP_STRING: usize = consts::MAX_DATAREP_STRING as usize;
    /// `MPI_MAX_INFO_KEY`.
    pub const INFO_KEY: usize = consts::MAX_INFO_KEY as usize;
}

/// What the engine must know of this ABI.
pub static HOOKS: AbiHooks = AbiHooks {
    library: "libmpi_abi.so.1",
    rank: same,
    callback: CallbackAbi {
        handle: encode,
        error: same,
        error_back: same,
    },
    status_size: size_of::<CStatus>(),
    write_status: |status, out| {
        // SAFETY: the buffer is larger than a status.
        unsafe {
            write_status(out.as_mut_ptr(), status);
            write_error(out.as_mut_ptr(), status.error);
        }
    },
    // SAFETY: the buffer is larger than a status.
    read_status: |from| unsafe { read_status(from.as_ptr()) },
    removed_types: &[],
};

fn same(value: i32) -> i32 {
    value
}

/// The error code that a call returns for a class: the class.
#[inline(always)]
pub fn code(class: i32) -> i32 {
    class
}

/// The neutral handle of a pointer; 0 for what can't be a handle.
#[inline(always)]
pub fn decode(pointer: usize) -> Handle {
    if pointer < 4096 || pointer >> 32 == sys::span::upper() as usize {
        Handle(pointer as u32)
    } else {
        Handle(0)
    }
}

/// The pointer of a neutral handle.
#[inline(always)]
pub fn encode(handle: Handle) -> usize {
    if handle.is_predefined() {
        handle.0 as usize
    } else {
        sys::span::address(handle.0)
    }
}

static CODEC: HandleCodec = HandleCodec {
    size: 8,
    decode,
    encode,
};

macro_rules! handle_type {
    ($($name:ident $null:ident),*) => { $(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Clone, Copy)]
        pub struct $name(*mut c_void);

        impl AbiHandle for $name {
            const CODEC: &'static HandleCodec = &CODEC;
            const NULL: Handle = consts::$null;
            #[inline(always)]
            fn neutral(self) -> Handle {
                decode(self.0 as usize)
            }
            #[inline(always)]
            fn of(handle: Handle) -> $name {
                $name(encode(handle) as *mut c_void)
            }
            #[inline(always)]
            fn word(self) -> usize {
                self.0 as usize
            }
            #[inline(always)]
            fn of_word(word: usize) -> $name {
                $name(word as *mut c_void)
            }
        }
    )* };
}

handle_type!(
    Comm COMM_NULL, Datatype DATATYPE_NULL, Errhandler ERRHANDLER_NULL, File FILE_NULL,
    Group GROUP_NULL, Info INFO_NULL, Message MESSAGE_NULL, Op OP_NULL, Request REQUEST_NULL,
    Session SESSION_NULL, Win WIN_NULL
);

impl AbiType for Datatype {
    const ANY_TAG: i32 = consts::ANY_TAG;

    #[inline(always)]
    fn size(self, sizes: &Sizes) -> Option<usize> {
        sizes.get(self.word()).map(|size| size.get())
    }
}

/// `MPI_Status`: eight ints, of which the last five are ours: bytes (two), whether cancelled, and
/// two unused.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStatus {
    source: i32,
    tag: i32,
    error: i32,
    bytes: [i32; 2],
    cancelled: i32,
    unused: [i32; 2],
}

impl AbiStatus for CStatus {
    #[inline(always)]
    fn is_wanted(to: *mut CStatus) -> bool {
        !to.is_null()
    }

    #[inline(always)]
    unsafe fn write_empty(to: *mut CStatus) {
        // SAFETY: the caller's contract.
        unsafe { write_status(to.cast(), &Status::EMPTY) }
    }

    #[inline(always)]
    unsafe fn write_received(to: *mut CStatus, source: i32, tag: i32, bytes: i64) {
        // SAFETY: the caller's contract; a status is aligned as an int is.
        unsafe {
            (*to).source = source;
            (*to).tag = tag;
            (*to).bytes = [bytes as i32, (bytes >> 32) as i32];
            (*to).cancelled = 0;
        }
    }
}

static STATUS_CODEC: StatusCodec = StatusCodec {
    size: size_of::<CStatus>(),
    write: write_status,
    write_error,
};

/// Writes all but the error field, and that too for an empty status, where it is `MPI_SUCCESS`.
///
/// # Safety
/// `to` is a writable status of this ABI.
#[inline(always)]
unsafe fn write_status(to: *mut u8, status: &Status) {
    let to = to.cast::<CStatus>();
    // SAFETY: the caller's contract; a status is aligned as an int is.
    unsafe {
        if status.source == consts::ANY_SOURCE {
            (*to).error = consts::SUCCESS;
        }
        (*to).source = status.source;
        (*to).tag = status.tag;
        (*to).bytes = [status.bytes as i32, (status.bytes >> 32) as i32];
        (*to).cancelled = status.cancelled as i32;
    }
}

/// Writes the error field.
///
/// # Safety
/// `to` is a writable status of this ABI.
unsafe fn write_error(to: *mut u8, class: i32) {
    // SAFETY: the caller's contract.
    unsafe { (*to.cast::<CStatus>()).error = class }
}

/// The neutral form of a status.
///
/// # Safety
/// `from` is a readable status of this ABI.
unsafe fn read_status(from: *const u8) -> Status {
    // SAFETY: the caller's contract.
    let s = unsafe { from.cast::<CStatus>().read_unaligned() };
    Status {
        source: s.source,
        tag: s.tag,
        error: s.error,
        bytes: s.bytes[0] as u32 as i64 | (s.bytes[1] as i64) << 32,
        cancelled: s.cancelled != 0,
    }
}

/// A status that the call sets, or `MPI_STATUS_IGNORE`.
///
/// # Safety
/// `to` is null or a status that is writable for as long as the guard lives.
#[inline(always)]
pub unsafe fn status_out(to: *mut CStatus) -> StatusOut {
    // SAFETY: the caller's contract is the same.
    unsafe { StatusOut::new(to.cast(), &STATUS_CODEC) }
}

/// A status that the call reads.
///
/// # Safety
/// `from` is null or a readable status.
pub unsafe fn status_in(from: *const CStatus, name: &str) -> Result<Status> {
    if from.is_null() {
        return Err(fault(consts::ERR_ARG, format!("{name} is NULL")));
    }
    // SAFETY: the caller's contract, and it isn't null.
    Ok(unsafe { read_status(from.cast()) })
}

/// A status that the call changes.
///
/// # Safety
/// `to` is null or a status, readable and writable for as long as the guard lives.
pub unsafe fn status_inout(to: *mut CStatus, name: &str) -> Result<StatusOut> {
    // SAFETY: the caller's contract; a null one is refused before the guard is made.
    unsafe {
        let value = status_in(to, name)?;
        Ok(StatusOut::of(to.cast(), &STATUS_CODEC, value))
    }
}

/// An array of statuses that the call sets, or `MPI_STATUSES_IGNORE`.
///
/// # Safety
/// As for [`Statuses::new`].
#[inline(always)]
pub unsafe fn status_array(to: *mut CStatus) -> Statuses {
    // SAFETY: the caller's contract is the same.
    unsafe { Statuses::new(to as usize, &STATUS_CODEC) }
}

/// A buffer; `MPI_IN_PLACE` and its like have the neutral values.
///
/// # Safety
/// As for [`UserBuf::new`].
#[inline(always)]
pub unsafe fn user_buffer(address: *const c_void) -> UserBuf {
    // SAFETY: the caller's contract is the same.
    unsafe { UserBuf::new(address as usize) }
}

/// An array of weights, `MPI_UNWEIGHTED` or `MPI_WEIGHTS_EMPTY`.
///
/// # Safety
/// As for [`Ints::narrow`], or one of the two constants.
#[inline(always)]
pub unsafe fn weight_array(array: *const i32) -> Ints {
    // SAFETY: the caller's contract; the engine compares the address before it reads.
    unsafe { Ints::narrow(array as usize) }
}

/// A callback; predefined ones have the neutral values.
///
/// # Safety
/// As for [`UserFn::new`].
#[inline(always)]
pub unsafe fn callback(address: usize) -> UserFn {
    // SAFETY: the caller's contract is the same.
    unsafe { UserFn::new(address) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn handles_survive() {
        let object = Handle(0x0123_4560);
        assert_eq!(decode(encode(object)), object);
        assert_eq!(decode(encode(consts::COMM_WORLD)), consts::COMM_WORLD);
        assert_eq!(decode(0xdead_0000_0000_1000), Handle(0));
    }

    /// The short path finds the size of an element by the handle of its type, and none by what is no predefined type's.
    #[test]
    fn sizes_are_those_of_predefined_types() {
        let sizes: Sizes = [const { Cell::new(0) }; 1024];
        let basics = || types::basic::BASICS.iter();
        for row in basics() {
            sizes[encode(row.handle)].set(row.size);
        }
        for row in basics() {
            assert_eq!(Datatype::of(row.handle).size(&sizes), Some(row.size));
        }
        for strange in [0, 1, 1023, 1024, 0xdead_0000_0000_1000, usize::MAX] {
            let size = Datatype::of_word(strange).size(&sizes).unwrap_or(0);
            assert_eq!(size, 0, "{strange:#x}");
        }
    }

    #[test]
    fn statuses_survive() {
        assert_eq!(size_of::<CStatus>(), 32);
        let status = Status {
            source: 3,
            tag: -2,
            error: 7,
            bytes: -(1 << 40) - 5,
            cancelled: true,
        };
        let mut bytes = [0; 64];
        (HOOKS.write_status)(&status, &mut bytes);
        assert_eq!((HOOKS.read_status)(&bytes), status);
    }
}
