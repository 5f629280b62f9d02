//! Arguments that MPI writes: guards that hold the neutral value during the call and write the
//! caller's form when dropped.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use boundary::{HandleCodec, StatusCodec};
use types::{Handle, Result, Status, consts};

use crate::check::null;

/// A handle type of an ABI.
pub trait AbiHandle: Copy + 'static {
    /// How arrays of it are read and written.
    const CODEC: &'static HandleCodec;
    /// The null handle of its kind.
    const NULL: Handle;
    /// The neutral handle; what isn't a handle becomes `Handle(0)`.
    fn neutral(self) -> Handle;
    /// The ABI's form of a neutral handle.
    fn of(handle: Handle) -> Self;
    /// The handle as a number.
    fn word(self) -> usize;
    /// The handle of that number. Of an object its address is one too.
    fn of_word(word: usize) -> Self;
    /// The address of the object that it names, if it names one, where `base` is what [`engine::Short::base`] says.
    #[inline(always)]
    fn address(self, _base: usize) -> usize {
        self.word()
    }
}

macro_rules! guard {
    ($name:ident<$($p:ident),*> => $target:ty) => {
        impl<$($p: Guarded),*> Deref for $name<$($p),*> {
            type Target = $target;
            #[inline(always)]
            fn deref(&self) -> &$target { &self.value }
        }
        impl<$($p: Guarded),*> DerefMut for $name<$($p),*> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut $target { &mut self.value }
        }
    };
}

/// Bound of the handle guards, so that one macro serves all guards.
pub trait Guarded: AbiHandle {}
impl<T: AbiHandle> Guarded for T {}

/// A handle that the call sets.
pub struct HandleOut<H: AbiHandle> {
    to: *mut H,
    value: Handle,
}

guard!(HandleOut<H> => Handle);

impl<H: AbiHandle> Drop for HandleOut<H> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made by `handle_out` or `handle_inout`, whose contract says `to` is writable.
        unsafe { self.to.write_unaligned(H::of(self.value)) }
    }
}

/// A handle that the call sets; null until then.
///
/// # Safety
/// `to` is null or writable until the guard is dropped.
#[inline(always)]
pub unsafe fn handle_out<H: AbiHandle>(to: *mut H, name: &str) -> Result<HandleOut<H>> {
    if to.is_null() {
        Err(null(name))
    } else {
        Ok(HandleOut { to, value: H::NULL })
    }
}

/// A handle that the call reads and may set.
///
/// # Safety
/// `to` is null, or readable and writable until the guard is dropped.
#[inline(always)]
pub unsafe fn handle_inout<H: AbiHandle>(to: *mut H, name: &str) -> Result<HandleOut<H>> {
    if to.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so readable by the contract.
    let value = unsafe { to.read_unaligned() }.neutral();
    Ok(HandleOut { to, value })
}

/// A truth value that the call sets.
pub struct BoolOut {
    to: *mut i32,
    value: bool,
}

guard!(BoolOut<> => bool);

impl Drop for BoolOut {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made by `bool_out`, whose contract says `to` is writable.
        unsafe { self.to.write_unaligned(self.value as i32) }
    }
}

/// A truth value that the call sets; false until then.
///
/// # Safety
/// `to` is null or writable until the guard is dropped.
#[inline(always)]
pub unsafe fn bool_out(to: *mut i32, name: &str) -> Result<BoolOut> {
    if to.is_null() {
        Err(null(name))
    } else {
        Ok(BoolOut { to, value: false })
    }
}

/// A 64-bit value that the caller wants as an `int`.
pub struct NarrowOut {
    to: *mut i32,
    value: i64,
}

guard!(NarrowOut<> => i64);

impl Drop for NarrowOut {
    #[inline(always)]
    fn drop(&mut self) {
        let value = i32::try_from(self.value).unwrap_or(consts::UNDEFINED);
        // SAFETY: made by `narrow_out` or `narrow_inout`, whose contract says `to` is writable.
        unsafe { self.to.write_unaligned(value) }
    }
}

/// An `int` that the call sets to a 64-bit value (`MPI_UNDEFINED` where that doesn't fit).
///
/// # Safety
/// `to` is null or writable until the guard is dropped.
#[inline(always)]
pub unsafe fn narrow_out(to: *mut i32, name: &str) -> Result<NarrowOut> {
    if to.is_null() {
        Err(null(name))
    } else {
        Ok(NarrowOut { to, value: 0 })
    }
}

/// An `int` that the call reads and sets as a 64-bit value.
///
/// # Safety
/// `to` is null, or readable and writable until the guard is dropped.
#[inline(always)]
pub unsafe fn narrow_inout(to: *mut i32, name: &str) -> Result<NarrowOut> {
    if to.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so readable by the contract.
    let value = unsafe { to.read_unaligned() } as i64;
    Ok(NarrowOut { to, value })
}

/// A value that the ABI writes differently from the standard ABI.
pub struct MappedOut {
    to: *mut i32,
    value: i32,
    map: fn(i32) -> i32,
}

guard!(MappedOut<> => i32);

impl Drop for MappedOut {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made by `mapped_out` or `mapped_inout`, whose contract says `to` is writable.
        unsafe { self.to.write_unaligned((self.map)(self.value)) }
    }
}

/// An `int` that the call sets, translated by `map`.
///
/// # Safety
/// `to` is null or writable until the guard is dropped.
#[inline(always)]
pub unsafe fn mapped_out(to: *mut i32, name: &str, map: fn(i32) -> i32) -> Result<MappedOut> {
    if to.is_null() {
        Err(null(name))
    } else {
        Ok(MappedOut { to, value: 0, map })
    }
}

/// An `int` that the call reads, translated by `back`, and sets, translated by `map`.
///
/// # Safety
/// `to` is null, or readable and writable until the guard is dropped.
#[inline(always)]
pub unsafe fn mapped_inout(
    to: *mut i32,
    name: &str,
    back: fn(i32) -> i32,
    map: fn(i32) -> i32,
) -> Result<MappedOut> {
    if to.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so readable by the contract.
    let value = back(unsafe { to.read_unaligned() });
    Ok(MappedOut { to, value, map })
}

/// An `int` that the call sets in place.
///
/// # Safety
/// `to` is null, or readable and writable for as long as the call runs.
#[inline(always)]
pub unsafe fn int_out<'a>(to: *mut i32, name: &str) -> Result<&'a mut i32> {
    // SAFETY: the caller's contract; C demands the alignment of an `int`.
    unsafe { to.as_mut() }.ok_or_else(|| null(name))
}

/// A 64-bit integer that the call sets in place.
///
/// # Safety
/// `to` is null, or readable and writable for as long as the call runs.
#[inline(always)]
pub unsafe fn long_out<'a>(to: *mut i64, name: &str) -> Result<&'a mut i64> {
    // SAFETY: the caller's contract; C demands the alignment of an `MPI_Count`.
    unsafe { to.as_mut() }.ok_or_else(|| null(name))
}

/// A pointer, or an opaque handle of the tool interface, that the call sets in place.
///
/// # Safety
/// `to` is null, or points to a pointer that is readable and writable for as long as the call runs.
#[inline(always)]
pub unsafe fn word_out<'a, T>(to: *mut T, name: &str) -> Result<&'a mut usize> {
    // SAFETY: the caller's contract; C demands the alignment of a pointer.
    unsafe { to.cast::<usize>().as_mut() }.ok_or_else(|| null(name))
}

/// Where a value goes: to the caller, or, where that passed NULL as it doesn't want it, to `instead`.
#[inline(always)]
pub fn wanted<T>(to: *mut T, instead: &mut MaybeUninit<T>) -> *mut T {
    match to.is_null() {
        true => instead.as_mut_ptr(),
        false => to,
    }
}

/// A place for what nobody wants, of the type that is pointed at: all zeros.
#[inline(always)]
pub fn unwanted<T>(_of: *mut T) -> MaybeUninit<T> {
    MaybeUninit::zeroed()
}

/// A status that the call sets, or that the caller ignores.
pub struct StatusOut {
    to: *mut u8,
    codec: &'static StatusCodec,
    value: Status,
    with_error: bool,
}

impl StatusOut {
    /// A status for a call that sets it: empty until then. Its error field is left alone.
    ///
    /// # Safety
    /// `to` is null (where the status is ignored) or a status, writable until the guard is dropped.
    #[inline(always)]
    pub const unsafe fn new(to: *mut u8, codec: &'static StatusCodec) -> StatusOut {
        StatusOut {
            to,
            codec,
            value: Status::EMPTY,
            with_error: false,
        }
    }

    /// A status that the call changes, error field included.
    ///
    /// # Safety
    /// As for `new`, and `value` is what the status says.
    #[inline(always)]
    pub const unsafe fn of(to: *mut u8, codec: &'static StatusCodec, value: Status) -> StatusOut {
        StatusOut {
            to,
            codec,
            value,
            with_error: true,
        }
    }

    /// The status, or `None` where the caller ignores it.
    #[inline(always)]
    pub fn wanted(&mut self) -> Option<&mut Status> {
        if self.to.is_null() {
            None
        } else {
            Some(&mut self.value)
        }
    }

    /// The status of [`StatusOut::of`].
    #[inline(always)]
    pub fn value(&mut self) -> &mut Status {
        &mut self.value
    }
}

impl Drop for StatusOut {
    #[inline(always)]
    fn drop(&mut self) {
        if self.to.is_null() {
            return;
        }
        // SAFETY: the contract of `new` and `of`.
        unsafe {
            (self.codec.write)(self.to, &self.value);
            if self.with_error {
                (self.codec.write_error)(self.to, self.value.error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_write_when_dropped() {
        let (mut flag, mut count, mut level) = (7, 7, 7);
        // SAFETY: the addresses are those of locals that outlive the guards.
        unsafe {
            *bool_out(&mut flag, "flag").unwrap() = true;
            *narrow_out(&mut count, "count").unwrap() = 1 << 31;
            *mapped_out(&mut level, "level", |v| v + 1).unwrap() = 41;
            assert!(bool_out(std::ptr::null_mut(), "flag").is_err());
        }
        assert_eq!((flag, count, level), (1, consts::UNDEFINED, 42));
        let mut position = -5;
        // SAFETY: as above.
        let mut guard = unsafe { narrow_inout(&mut position, "position") }.unwrap();
        assert_eq!(*guard, -5);
        *guard += 1;
        drop(guard);
        assert_eq!(position, -4);
    }
}
