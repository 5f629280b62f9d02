//! The exported names.
//!
//! What all of these functions rely on is BLACS' contract: addresses are valid for what the call says lies there
//! and aligned, characters are at the address given (Fortran's hidden lengths come behind and are not
//! looked at), and a matrix stays valid until the call returns. Each function states no more than that.

mod matrices;
mod support;

use std::ffi::{c_char, c_int};

use boundary::UserBuf;

/// The matrix at `address`.
///
/// # Safety
/// The caller promises to BLACS that the matrix is there until the call returns.
#[inline]
unsafe fn matrix<T>(address: *mut T) -> UserBuf {
    // SAFETY: the caller's promise; addresses inside the matrix alone are touched.
    unsafe { UserBuf::new(address as usize) }
}

/// The character at `text`.
///
/// # Safety
/// One is there.
#[inline]
unsafe fn letter(text: *const c_char) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { *text as u8 }
}

/// Writes to each address.
///
/// # Safety
/// All may be written.
unsafe fn tell<const N: usize>(addresses: [*mut c_int; N], values: [c_int; N]) {
    for (address, value) in addresses.into_iter().zip(values) {
        // SAFETY: the caller's promise.
        unsafe { *address = value }
    }
}
