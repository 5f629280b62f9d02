//! Arguments that MPI reads: checks that need no object, and views of arrays and strings.

use boundary::{HandleCodec, Handles, Ints, Text, TextOut, UserBuf, UserFn};
use types::{Fault, Result, consts, fault};

/// `value`, which must not be negative; else a fault of `class`.
#[inline(always)]
pub fn non_negative<T: Copy + Into<i64>>(value: T, name: &str, class: i32) -> Result<T> {
    if value.into() < 0 {
        return Err(negative(value.into(), name, class));
    }
    Ok(value)
}

/// `value`, the count that goes with `buffer`: not negative unless the buffer is `MPI_IN_PLACE`,
/// where the count is ignored.
#[inline(always)]
pub fn count_beside<T: Copy + Into<i64>>(buffer: UserBuf, value: T, name: &str) -> Result<T> {
    if buffer.is_in_place() {
        Ok(value)
    } else {
        non_negative(value, name, consts::ERR_COUNT)
    }
}

#[cold]
#[inline(never)]
fn negative(value: i64, name: &str, class: i32) -> Box<Fault> {
    fault(
        class,
        format!("{name} is {value}, and must not be negative"),
    )
}

#[cold]
#[inline(never)]
pub(crate) fn null(name: &str) -> Box<Fault> {
    fault(consts::ERR_ARG, format!("{name} is NULL"))
}

/// Refuses NULL where `needed`.
#[inline(always)]
fn present(addr: usize, needed: bool, name: &str) -> Result<()> {
    if addr == 0 && needed {
        Err(null(name))
    } else {
        Ok(())
    }
}

/// The body of a procedure that isn't built.
#[cold]
#[inline(never)]
pub fn unsupported(class: i32) -> Result<()> {
    Err(fault(
        class,
        "this version of Yamabiko does not have this procedure",
    ))
}

/// An array of C `int` whose length no argument says.
///
/// # Safety
/// As for [`Ints::narrow`].
#[inline(always)]
pub unsafe fn narrow(array: *const i32) -> Ints {
    // SAFETY: the caller's contract is the same.
    unsafe { Ints::narrow(array as usize) }
}

/// An array of 64-bit integers whose length no argument says.
///
/// # Safety
/// As for [`Ints::wide`].
#[inline(always)]
pub unsafe fn wide(array: *const i64) -> Ints {
    // SAFETY: the caller's contract is the same.
    unsafe { Ints::wide(array as usize) }
}

/// An array of `n` C `int`s.
///
/// # Safety
/// As for [`Ints::narrow`].
#[inline(always)]
pub unsafe fn narrow_of(array: *const i32, n: impl Into<i64>, name: &str) -> Result<Ints> {
    present(array as usize, n.into() > 0, name)?;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { narrow(array) })
}

/// An array of `n` 64-bit integers.
///
/// # Safety
/// As for [`Ints::wide`].
#[inline(always)]
pub unsafe fn wide_of(array: *const i64, n: impl Into<i64>, name: &str) -> Result<Ints> {
    present(array as usize, n.into() > 0, name)?;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { wide(array) })
}

/// An array of `n` handles (negative where no argument says).
///
/// # Safety
/// As for [`Handles::new`].
#[inline(always)]
pub unsafe fn handle_array<H: crate::AbiHandle>(
    array: *const H,
    n: impl Into<i64>,
    name: &str,
) -> Result<Handles> {
    present(array as usize, n.into() > 0, name)?;
    let codec: &'static HandleCodec = H::CODEC;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { Handles::new(array as usize, codec) })
}

/// A string that must be there.
///
/// # Safety
/// As for [`Text::new`].
#[inline(always)]
pub unsafe fn text_in(string: *const std::ffi::c_char, name: &str) -> Result<Text> {
    present(string as usize, true, name)?;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { text_or_null(string) })
}

/// A string that may be NULL, for instance since it means something only at the root.
///
/// # Safety
/// As for [`Text::new`].
#[inline(always)]
pub unsafe fn text_or_null(string: *const std::ffi::c_char) -> Text {
    // SAFETY: the caller's contract is the same.
    unsafe { Text::new(string as usize) }
}

/// Room for a string, or NULL where nobody wants it.
///
/// # Safety
/// As for [`TextOut::new`].
#[inline(always)]
pub unsafe fn text_out_or_null(string: *mut std::ffi::c_char, room: usize) -> TextOut {
    // SAFETY: the caller's contract is the same.
    unsafe { TextOut::new(string as usize, room) }
}

/// Room for a string.
///
/// # Safety
/// As for [`TextOut::new`].
#[inline(always)]
pub unsafe fn text_out(string: *mut std::ffi::c_char, room: usize, name: &str) -> Result<TextOut> {
    present(string as usize, room > 0, name)?;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { TextOut::new(string as usize, room) })
}

/// A buffer that MPI writes a pointer into.
///
/// # Safety
/// As for [`UserBuf::new`].
#[inline(always)]
pub unsafe fn buffer_out(address: *mut std::ffi::c_void, name: &str) -> Result<UserBuf> {
    present(address as usize, true, name)?;
    // SAFETY: the caller's contract is the same.
    Ok(unsafe { UserBuf::new(address as usize) })
}

/// An address that is only an address, whatever constant of the ABI it equals.
///
/// # Safety
/// As for [`UserBuf::new`].
#[inline(always)]
pub unsafe fn plain_address(address: *const std::ffi::c_void) -> UserBuf {
    // SAFETY: the caller's contract is the same.
    unsafe { UserBuf::new(address as usize) }
}

/// A callback.
///
/// # Safety
/// As for [`UserFn::new`].
#[inline(always)]
pub unsafe fn function(address: usize) -> UserFn {
    // SAFETY: the caller's contract is the same.
    unsafe { UserFn::new(address) }
}

/// Bytes of room that an `int` argument says there are.
#[inline(always)]
pub fn room(length: i32) -> usize {
    usize::try_from(length).unwrap_or(0)
}

/// Bytes of room that an `int` behind a pointer says there are.
///
/// # Safety
/// `length` is null or points to an `int`.
#[inline(always)]
pub unsafe fn room_at(length: *const i32) -> usize {
    if length.is_null() {
        return 0;
    }
    // SAFETY: the caller's contract, and it isn't null.
    room(unsafe { length.read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let f = non_negative(-3, "count", consts::ERR_COUNT).unwrap_err();
        assert_eq!(
            (f.class, f.text.as_str()),
            (2, "count is -3, and must not be negative")
        );
        assert_eq!(non_negative(3i64, "count", consts::ERR_COUNT).unwrap(), 3);
        // SAFETY: null arrays are what the check is about.
        unsafe {
            assert!(narrow_of(std::ptr::null(), 0, "displs").unwrap().is_null());
            assert_eq!(
                narrow_of(std::ptr::null(), 1, "displs")
                    .err()
                    .unwrap()
                    .class,
                13
            );
            assert!(text_in(std::ptr::null(), "key").is_err());
            assert_eq!(room_at(std::ptr::null()), 0);
        }
    }
}
