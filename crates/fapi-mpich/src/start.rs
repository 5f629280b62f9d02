//! What happens when this library is loaded: C learns the addresses of Fortran's ignored statuses.
//!
//! A C function that Fortran calls compares a status with `MPI_F_STATUS_IGNORE`, a variable of the C
//! library in this ABI. The addresses are known once the dynamic linker has bound the common blocks.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::blocks;

unsafe extern "C" {
    static MPI_F_STATUS_IGNORE: AtomicPtr<i32>;
    static MPI_F_STATUSES_IGNORE: AtomicPtr<i32>;
}

extern "C" fn start() {
    let [one, many] = blocks::ignored_statuses();
    // SAFETY: both are variables of the C library with the size and alignment of a pointer, and writable.
    unsafe {
        MPI_F_STATUS_IGNORE.store(one, Ordering::Relaxed);
        MPI_F_STATUSES_IGNORE.store(many, Ordering::Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
