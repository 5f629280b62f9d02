//! `libfmpl.so.0`: FMPL's C and Fortran names.
//!
//! Nothing but conversion happens here: each function looks up the table of the process's MPI library (once; after that
//! a load) and calls it. `c` has the C names, `fortran` the Fortran ones, `func` tells predefined reduction functions
//! from the program's. Built as a static library that `cargo xtask build` links into the shared one.
//!
//! Every function takes `ier` last and, in C, returns the same code; there `ier` may be NULL.

mod c;
mod fortran;
mod func;

use std::io::Write;

use fmpl_table::{FmplTable, code};

/// The table; without one the code, the reason being said on standard error the first time.
#[inline]
fn table() -> Result<&'static FmplTable, i32> {
    fmpl_table::table().map_err(complain)
}

#[cold]
fn complain(why: &'static str) -> i32 {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let line = format!("libfmpl: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
    code::ERR_START
}

/// Writes a result, unless its address is null.
///
/// # Safety
/// The address is null or writable.
#[inline]
unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's contract; Fortran aligns as it likes.
        unsafe { to.write_unaligned(value) }
    }
}

/// Calls a function of the table and leaves its code in `ier`.
///
/// # Safety
/// `ier` is null or writable.
#[inline]
unsafe fn call(ier: *mut i32, f: impl FnOnce(&'static FmplTable) -> i32) -> i32 {
    let code = match table() {
        Ok(table) => f(table),
        Err(code) => code,
    };
    // SAFETY: the caller's contract.
    unsafe { put(ier, code) };
    code
}
