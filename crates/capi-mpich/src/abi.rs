//! How the MPICH ABI writes handles, statuses, constants and special addresses.
//!
//! A handle is an int: a predefined one has a value of its own, found in the generated tables, any
//! other int is the neutral handle itself. Files are pointers. Tables say what a rank, tag, error
//! class or other constant is on the other side (`gen::values`).

use std::ffi::c_void;

use boundary::{CallbackAbi, HandleCodec, Ints, StatusCodec, Statuses, UserBuf, UserFn};
use engine::AbiHooks;
use entry::short::{AbiStatus, AbiType, Sizes};
use entry::{AbiHandle, StatusOut};
use types::{Handle, Result, Status, consts, fault};

use crate::r#gen::values;

/// What the generated entry points import.
pub mod prelude {
    pub use std::ffi::{c_char, c_void};

    pub use engine::api;
    pub use entry::*;
    pub use types::consts;

    pub use super::{
        CStatus, Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
        callback, detached_out, limits, mapped_array, mapped_array_out, status_array, status_in,
        status_inout, status_out, user_buffer, weight_array,
    };
    pub use crate::contents::{contents_out, dargs_array};
    pub use crate::r#gen::values;
}

/// Room for strings, in bytes with the final NUL.
pub mod limits {
    /// `MPI_MAX_OBJECT_NAME`.
    pub const OBJECT_NAME: usize = 128;
    /// `MPI_MAX_ERROR_STRING`.
    pub const ERROR_STRING: usize = 512;
    /// `MPI_MAX_LIBRARY_VERSION_STRING`.
    pub const LIBRARY_VERSION_STRING: usize = 8192;
    /// `MPI_MAX_PROCESSOR_NAME`.
    pub const PROCESSOR_NAME: usize = 128;
    /// `MPI_MAX_PORT_NAME`.
    pub const PORT_NAME: usize = 256;
    /// `MPI_MAX_DATAREP_STRING`.
    pub const DATAREP_STRING: usize = 128;
    /// `MPI_MAX_INFO_KEY`; programs of this ABI give a key one byte more.
    pub const INFO_KEY: usize = 255;
}

/// What the engine must know of this ABI.
pub static HOOKS: AbiHooks = AbiHooks {
    library: "libmpi.so.12",
    rank: values::rank_out,
    callback: CallbackAbi {
        handle: encode_any,
        error: values::error_out,
        error_back: values::error_in,
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
    removed_types: &[
        (Handle(0x4c00_0010), "MPI_LB"),
        (Handle(0x4c00_0011), "MPI_UB"),
    ],
};

/// The error code that a call returns for a class: the class's value in this ABI.
#[inline(always)]
pub fn code(class: i32) -> i32 {
    if class == consts::SUCCESS {
        class
    } else {
        values::error_out(class)
    }
}

/// A neutral handle of any kind in this ABI's form.
fn encode_any(handle: Handle) -> usize {
    match handle {
        // Files are pointers, and their null handle is a null one.
        consts::FILE_NULL => 0,
        h if h.is_predefined() => values::predefined(h.0) as usize,
        h => h.0 as usize,
    }
}

macro_rules! handle_type {
    ($($name:ident $null:ident $table:ident),*) => { $(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Clone, Copy)]
        pub struct $name(u32);

        impl $name {
            /// The int that stands for it in Fortran and elsewhere.
            pub fn to_int(self) -> i32 {
                self.0 as i32
            }

            /// The handle that an int stands for.
            pub fn from_int(value: i32) -> $name {
                $name(value as u32)
            }

            #[inline(always)]
            fn decode(raw: usize) -> Handle {
                match values::$table(raw as u32) {
                    // Below 4096 lie the neutral form's constants, which mean nothing here.
                    0 if (raw as u32) < 4096 => Handle(0),
                    0 => Handle(raw as u32),
                    predefined => Handle(predefined),
                }
            }

            #[inline(always)]
            fn encode(handle: Handle) -> usize {
                if handle.is_predefined() { values::predefined(handle.0) as usize } else { handle.0 as usize }
            }
        }

        impl AbiHandle for $name {
            const CODEC: &'static HandleCodec =
                &HandleCodec { size: 4, decode: $name::decode, encode: $name::encode };
            const NULL: Handle = consts::$null;
            #[inline(always)]
            fn neutral(self) -> Handle {
                $name::decode(self.0 as usize)
            }
            #[inline(always)]
            fn of(handle: Handle) -> $name {
                $name($name::encode(handle) as u32)
            }
            #[inline(always)]
            fn word(self) -> usize {
                self.0 as usize
            }
            #[inline(always)]
            fn of_word(word: usize) -> $name {
                $name(word as u32)
            }
            #[inline(always)]
            fn address(self, base: usize) -> usize {
                base | self.0 as usize
            }
        }
    )* };
}

handle_type!(
    Comm COMM_NULL comm_handle, Datatype DATATYPE_NULL datatype_handle,
    Errhandler ERRHANDLER_NULL errhandler_handle, Group GROUP_NULL group_handle,
    Info INFO_NULL info_handle, Message MESSAGE_NULL message_handle, Op OP_NULL op_handle,
    Request REQUEST_NULL request_handle, Session SESSION_NULL session_handle,
    Win WIN_NULL win_handle
);

/// What handles of predefined datatypes have in common; below lie 8 bits with the size and 8 with a number.
const DATATYPES: u32 = 0x4c00_0000;

impl AbiType for Datatype {
    const ANY_TAG: i32 = -1;

    #[inline(always)]
    fn size(self, sizes: &Sizes) -> Option<usize> {
        let rest = self.0 ^ DATATYPES;
        let size = sizes[(rest & 0xff) as usize].get();
        (rest >> 8 == size as u32).then_some(size)
    }
}

/// `MPI_File`: a pointer, 0 for the null one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct File(*mut c_void);

impl File {
    /// The int that stands for it in Fortran and elsewhere: 0 for the null file.
    pub fn to_int(self) -> i32 {
        self.0 as usize as i32
    }

    /// The file that an int stands for.
    pub fn from_int(value: i32) -> File {
        let address = if value == 0 {
            0
        } else {
            sys::span::address(value as u32)
        };
        File(address as *mut c_void)
    }

    fn decode(raw: usize) -> Handle {
        match raw {
            0 => consts::FILE_NULL,
            _ if raw >> 32 == sys::span::upper() as usize && raw as u32 >= 4096 => {
                Handle(raw as u32)
            }
            _ => Handle(0),
        }
    }

    fn encode(handle: Handle) -> usize {
        if handle.is_predefined() {
            0
        } else {
            sys::span::address(handle.0)
        }
    }
}

impl AbiHandle for File {
    const CODEC: &'static HandleCodec = &HandleCodec {
        size: 8,
        decode: File::decode,
        encode: File::encode,
    };
    const NULL: Handle = consts::FILE_NULL;
    fn neutral(self) -> Handle {
        File::decode(self.0 as usize)
    }
    fn of(handle: Handle) -> File {
        File(File::encode(handle) as *mut c_void)
    }
    fn word(self) -> usize {
        self.0 as usize
    }
    fn of_word(word: usize) -> File {
        File(word as *mut c_void)
    }
}

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CStatus {
    count_lo: i32,
    /// The cancelled flag in bit 0, above it the upper bits of the count.
    count_hi_and_cancelled: i32,
    source: i32,
    tag: i32,
    error: i32,
}

impl AbiStatus for CStatus {
    #[inline(always)]
    fn is_wanted(to: *mut CStatus) -> bool {
        !is_ignored(to)
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
            (*to).count_lo = bytes as i32;
            (*to).count_hi_and_cancelled = ((bytes >> 32) << 1) as i32;
            (*to).source = source;
            (*to).tag = tag;
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
        (*to).count_lo = status.bytes as i32;
        (*to).count_hi_and_cancelled = ((status.bytes >> 32) << 1) as i32 | status.cancelled as i32;
        (*to).source = values::rank_out(status.source);
        (*to).tag = values::tag_out(status.tag);
    }
}

/// Writes the error field.
///
/// # Safety
/// `to` is a writable status of this ABI.
unsafe fn write_error(to: *mut u8, class: i32) {
    // SAFETY: the caller's contract.
    unsafe { (*to.cast::<CStatus>()).error = values::error_out(class) }
}

/// The neutral form of a status.
///
/// # Safety
/// `from` is a readable status of this ABI.
unsafe fn read_status(from: *const u8) -> Status {
    // SAFETY: the caller's contract.
    let s = unsafe { from.cast::<CStatus>().read_unaligned() };
    Status {
        source: values::rank_in(s.source),
        tag: values::tag_in(s.tag),
        error: values::error_in(s.error),
        bytes: s.count_lo as u32 as i64 | ((s.count_hi_and_cancelled as u32 >> 1) as i64) << 32,
        cancelled: s.count_hi_and_cancelled & 1 != 0,
    }
}

/// Whether a status argument is `MPI_STATUS_IGNORE` (1) or NULL, which is taken for it.
#[inline(always)]
fn is_ignored(status: *const CStatus) -> bool {
    status as usize <= 1
}

/// A status that the call sets, or `MPI_STATUS_IGNORE`.
///
/// # Safety
/// `to` is null, the constant, or a status that is writable for as long as the guard lives.
#[inline(always)]
pub unsafe fn status_out(to: *mut CStatus) -> StatusOut {
    let to = if is_ignored(to) {
        std::ptr::null_mut()
    } else {
        to
    };
    // SAFETY: the caller's contract is the same.
    unsafe { StatusOut::new(to.cast(), &STATUS_CODEC) }
}

/// A status that the call reads.
///
/// # Safety
/// `from` is null, the ignoring constant or a readable status.
pub unsafe fn status_in(from: *const CStatus, name: &str) -> Result<Status> {
    if is_ignored(from) {
        return Err(fault(consts::ERR_ARG, format!("{name} is no status")));
    }
    // SAFETY: the caller's contract, and it is a status.
    Ok(unsafe { read_status(from.cast()) })
}

/// A status that the call changes.
///
/// # Safety
/// `to` is null, the ignoring constant, or a status that is readable and writable for as long as
/// the guard lives.
pub unsafe fn status_inout(to: *mut CStatus, name: &str) -> Result<StatusOut> {
    // SAFETY: the caller's contract; what isn't a status is refused before the guard is made.
    unsafe {
        let value = status_in(to, name)?;
        Ok(StatusOut::of(to.cast(), &STATUS_CODEC, value))
    }
}

/// An array of statuses that the call sets, or `MPI_STATUSES_IGNORE`.
///
/// # Safety
/// As for [`Statuses::new`], or the constant.
#[inline(always)]
pub unsafe fn status_array(to: *mut CStatus) -> Statuses {
    let to = if is_ignored(to) { 0 } else { to as usize };
    // SAFETY: the caller's contract is the same.
    unsafe { Statuses::new(to, &STATUS_CODEC) }
}

/// A buffer: `MPI_IN_PLACE` (-1) and `MPI_BUFFER_AUTOMATIC` (-2) become 1 and 2.
///
/// # Safety
/// As for [`UserBuf::new`].
#[inline(always)]
pub unsafe fn user_buffer(address: *const c_void) -> UserBuf {
    let address = address as usize;
    let neutral = if address >= usize::MAX - 1 {
        address.wrapping_neg()
    } else {
        address
    };
    // SAFETY: the caller's contract is the same.
    unsafe { UserBuf::new(neutral) }
}

/// Where a call gives back the address of an attached buffer: `MPI_BUFFER_AUTOMATIC` gets this ABI's
/// value.
pub struct DetachedOut {
    to: *mut usize,
    value: usize,
}

impl std::ops::Deref for DetachedOut {
    type Target = usize;
    fn deref(&self) -> &usize {
        &self.value
    }
}

impl std::ops::DerefMut for DetachedOut {
    fn deref_mut(&mut self) -> &mut usize {
        &mut self.value
    }
}

impl Drop for DetachedOut {
    fn drop(&mut self) {
        let value = if self.value == 2 {
            2usize.wrapping_neg()
        } else {
            self.value
        };
        // SAFETY: made by `detached_out`, whose contract says `to` is writable.
        unsafe { self.to.write_unaligned(value) }
    }
}

/// The address of a detached buffer, by the address of a pointer.
///
/// # Safety
/// `to` is null or points to a pointer that is writable until the guard is dropped.
pub unsafe fn detached_out(to: *mut c_void, name: &str) -> Result<DetachedOut> {
    if to.is_null() {
        return Err(fault(consts::ERR_ARG, format!("{name} is NULL")));
    }
    Ok(DetachedOut {
        to: to.cast(),
        value: 0,
    })
}

/// An array of weights; `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` get the neutral values.
///
/// # Safety
/// As for [`Ints::narrow`], or one of the two constants.
pub unsafe fn weight_array(array: *const i32) -> Ints {
    // SAFETY: the caller's contract; the engine compares the address before it reads.
    unsafe { Ints::narrow(crate::data::weights(array as usize)) }
}

/// A callback; `MPIR_Dup_fn` becomes the neutral constant of the dup functions.
///
/// # Safety
/// As for [`UserFn::new`].
#[inline(always)]
pub unsafe fn callback(address: usize) -> UserFn {
    let dup = crate::data::MPIR_Dup_fn as *const () as usize;
    // SAFETY: the caller's contract is the same.
    unsafe { UserFn::new(if address == dup { 1 } else { address }) }
}

/// From one ABI's value of a constant to the other's.
pub type Map = fn(i32) -> i32;

/// A translated copy of a caller's array; an output is translated back when dropped.
pub struct MappedArray {
    copy: Vec<i32>,
    back: Option<(*mut i32, Map)>,
}

impl MappedArray {
    /// The array, as the engine sees it.
    pub fn ints(&mut self) -> Ints {
        // SAFETY: the copy has as many elements as the call says, and outlives the call.
        unsafe { Ints::narrow(self.copy.as_mut_ptr() as usize) }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        let Some((to, map)) = self.back else { return };
        for (i, &value) in self.copy.iter().enumerate() {
            // SAFETY: made by `mapped_array_out`, whose contract says that `to` has so many.
            unsafe { to.add(i).write_unaligned(map(value)) }
        }
    }
}

/// An array of `n` values that the call reads, each translated by `map`.
///
/// # Safety
/// `array` is null or has `n` readable elements.
pub unsafe fn mapped_array(array: *const i32, n: i32, name: &str, map: Map) -> Result<MappedArray> {
    let n = usize::try_from(n).unwrap_or(0);
    if array.is_null() && n > 0 {
        return Err(fault(consts::ERR_ARG, format!("{name} is NULL")));
    }
    // SAFETY: the caller's contract, and it isn't null where something is read.
    let copy = (0..n)
        .map(|i| map(unsafe { array.add(i).read_unaligned() }))
        .collect();
    Ok(MappedArray { copy, back: None })
}

/// An array of `n` values that the call sets, each translated by `map` afterwards.
///
/// # Safety
/// `array` is null or has `n` writable elements until the guard is dropped.
pub unsafe fn mapped_array_out(
    array: *mut i32,
    n: i32,
    name: &str,
    map: Map,
) -> Result<MappedArray> {
    let n = usize::try_from(n).unwrap_or(0);
    if array.is_null() && n > 0 {
        return Err(fault(consts::ERR_ARG, format!("{name} is NULL")));
    }
    Ok(MappedArray {
        copy: vec![0; n],
        back: Some((array, map)),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn predefined_handles_survive() {
        for h in (1..4096)
            .map(Handle)
            .filter(|h| values::predefined(h.0) != 0)
        {
            let raw = encode_any(h);
            let back = [
                Comm::decode,
                Datatype::decode,
                Errhandler::decode,
                Group::decode,
                Info::decode,
                Message::decode,
                Op::decode,
                Request::decode,
                Session::decode,
                Win::decode,
            ];
            assert!(
                back.iter().any(|decode| decode(raw) == h),
                "{h:?} is {raw:#x}"
            );
        }
        assert_eq!(Comm::decode(0x4400_0000), consts::COMM_WORLD);
        assert_eq!(Comm::decode(0x101), Handle(0));
        assert_eq!(Comm::decode(0x0123_4560), Handle(0x0123_4560));
        assert_eq!(File::decode(0), consts::FILE_NULL);
        assert_eq!(encode_any(consts::MESSAGE_NULL), 0x2c00_0000);
        assert_eq!(Message::decode(0x2c00_0000), consts::MESSAGE_NULL);
        assert_eq!(Request::decode(0x2c00_0000), consts::REQUEST_NULL);
    }

    /// The short path takes an element's size out of the handle, and compares it with that of the type with the same low byte;
    /// and it gets tags as they are.
    #[test]
    fn arguments_as_programs_give_them() {
        let sizes: Sizes = [const { Cell::new(0) }; 1024];
        let basics = || types::basic::BASICS.iter();
        for row in basics().filter(|row| row.size < 128) {
            sizes[Datatype::encode(row.handle) & 0xff].set(row.size);
        }
        for row in basics() {
            let size = Datatype::of(row.handle).size(&sizes).unwrap_or(0);
            assert!(size == 0 || size == row.size, "{:?}", row.handle);
        }
        for strange in [0, 0x101, 0x4c00_0901, 0x4c00_0100, 0x4d00_0101, 0x0c00_0101] {
            let size = Datatype(strange).size(&sizes).unwrap_or(0);
            assert_eq!(size, 0, "{strange:#x}");
        }
        assert_eq!(Datatype::of(consts::CHAR).size(&sizes), Some(1));
        assert_eq!(values::tag_in(Datatype::ANY_TAG), consts::ANY_TAG);
    }

    #[test]
    fn statuses_survive() {
        assert_eq!(size_of::<CStatus>(), 20);
        let status = Status {
            source: -1,
            tag: -2,
            error: 15,
            bytes: (1 << 40) + 5,
            cancelled: true,
        };
        let mut bytes = [0; 64];
        (HOOKS.write_status)(&status, &mut bytes);
        assert_eq!((HOOKS.read_status)(&bytes), status);
        assert_eq!(bytes[8..12], (-2i32).to_le_bytes());
        assert_eq!(bytes[16], 14);
        // All of its 63 bits.
        let status = Status {
            bytes: i64::MAX - 5,
            ..status
        };
        (HOOKS.write_status)(&status, &mut bytes);
        assert_eq!((HOOKS.read_status)(&bytes), status);
    }

    #[test]
    fn values_survive() {
        for class in (0..=62).chain(1001..=1018) {
            assert_eq!(values::error_in(values::error_out(class)), class);
        }
        assert_eq!(values::rank_in(-4), i32::MIN);
        assert_eq!(values::amode_in(values::amode_out(37)), 37);
        assert_eq!(values::assert_in(1), i32::MIN);
        assert_eq!(values::thread_out(consts::THREAD_MULTIPLE), 3);
    }
}
