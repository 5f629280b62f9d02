//! Routines that return a value, and those with nothing to call in C.

use crate::prelude::*;

/// A pointer that C sets and that Fortran doesn't get.
pub struct Unused(*mut c_void);

impl Unused {
    /// Where C puts it.
    pub fn at(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }
}

/// Room for such a pointer.
pub fn unused() -> Unused {
    Unused(std::ptr::null_mut())
}

/// `MPI_WTIME`.
#[unsafe(no_mangle)]
pub extern "C" fn pmpi_wtime_() -> f64 {
    // SAFETY: the procedure has no preconditions.
    unsafe { MPI_Wtime() }
}
names!("wtime", "WTIME");

/// `MPI_WTICK`.
#[unsafe(no_mangle)]
pub extern "C" fn pmpi_wtick_() -> f64 {
    // SAFETY: the procedure has no preconditions.
    unsafe { MPI_Wtick() }
}
names!("wtick", "WTICK");

/// `MPI_AINT_ADD`.
///
/// # Safety
/// Both are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_aint_add_(base: *const i64, disp: *const i64) -> i64 {
    // SAFETY: the caller's contract.
    unsafe { MPI_Aint_add(*base, *disp) }
}
names!("aint_add", "AINT_ADD");

/// `MPI_AINT_DIFF`.
///
/// # Safety
/// Both are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_aint_diff_(addr1: *const i64, addr2: *const i64) -> i64 {
    // SAFETY: the caller's contract.
    unsafe { MPI_Aint_diff(*addr1, *addr2) }
}
names!("aint_diff", "AINT_DIFF");

/// `MPI_PCONTROL`, which has no error code.
///
/// # Safety
/// `level` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_pcontrol_(level: *const i32) {
    // SAFETY: the caller's contract.
    unsafe { MPI_Pcontrol(*level) };
}
names!("pcontrol", "PCONTROL");

/// `MPI_F_SYNC_REG`: that it is called is what keeps a compiler from holding the buffer in a register.
#[unsafe(no_mangle)]
pub extern "C" fn pmpi_f_sync_reg_(_buf: *mut c_void) {}
names!("f_sync_reg", "F_SYNC_REG");
