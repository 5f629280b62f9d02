//! Strings on their way to C and back.

use std::ffi::{CString, c_char};

use fortran::text;

/// Room that C wants for its strings, in bytes with the final NUL.
pub mod limits {
    use crate::r#gen::values;

    /// `MPI_MAX_OBJECT_NAME`.
    pub const OBJECT_NAME: usize = values::MAX_OBJECT_NAME as usize;
    /// `MPI_MAX_ERROR_STRING`.
    pub const ERROR_STRING: usize = values::MAX_ERROR_STRING as usize;
    /// `MPI_MAX_LIBRARY_VERSION_STRING`.
    pub const LIBRARY_VERSION_STRING: usize = values::MAX_LIBRARY_VERSION_STRING as usize;
    /// `MPI_MAX_PROCESSOR_NAME`.
    pub const PROCESSOR_NAME: usize = values::MAX_PROCESSOR_NAME as usize;
    /// `MPI_MAX_PORT_NAME`.
    pub const PORT_NAME: usize = values::MAX_PORT_NAME as usize;
    /// `MPI_MAX_DATAREP_STRING`.
    pub const DATAREP_STRING: usize = values::MAX_DATAREP_STRING as usize;
    /// `MPI_MAX_INFO_KEY`, which in the MPICH ABI doesn't count the NUL.
    pub const INFO_KEY: usize = values::MAX_INFO_KEY as usize + 1;
}

/// The bytes of a string variable.
///
/// # Safety
/// `text` has `length` readable bytes that stay as they are while the slice lives.
pub unsafe fn bytes<'a>(text: *const u8, length: usize) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(text, length) }
}

/// A string for C, without the blanks behind it.
///
/// # Safety
/// `text` has `length` readable bytes.
pub unsafe fn text_in(text: *const u8, length: usize) -> CString {
    // SAFETY: the caller's contract.
    text::c_string(text::trimmed(unsafe { bytes(text, length) }))
}

/// A key or value of an info object for C, without the blanks around it.
///
/// # Safety
/// `text` has `length` readable bytes.
pub unsafe fn word_in(text: *const u8, length: usize) -> CString {
    // SAFETY: the caller's contract.
    text::c_string(text::word(unsafe { bytes(text, length) }))
}

/// What a buffer holds before the call: no text begins with it in UTF-8.
const UNTOUCHED: u8 = 0xff;

/// A string that the call sets.
pub struct TextOut {
    to: *mut u8,
    length: usize,
    buffer: Vec<u8>,
}

impl TextOut {
    /// Where C puts it.
    pub fn at(&mut self) -> *mut c_char {
        self.buffer.as_mut_ptr().cast()
    }
}

impl Drop for TextOut {
    fn drop(&mut self) {
        if self.buffer[0] == UNTOUCHED || self.to.is_null() {
            return;
        }
        let text = self.buffer.split(|&c| c == 0).next().unwrap_or_default();
        // SAFETY: made by `text_out`, whose contract says it is writable and nobody else's.
        text::pad(text, unsafe {
            std::slice::from_raw_parts_mut(self.to, self.length)
        });
    }
}

/// A string that the call sets, where C wants room for `room` bytes. What the call leaves alone stays as
/// it is.
///
/// # Safety
/// `to` has `length` bytes that are writable until the guard is dropped.
pub unsafe fn text_out(to: *mut u8, length: usize, room: usize) -> TextOut {
    let mut buffer = vec![0; room.max(length) + 1];
    buffer[0] = UNTOUCHED;
    TextOut { to, length, buffer }
}
