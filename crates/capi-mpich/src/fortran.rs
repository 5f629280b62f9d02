//! Statuses between C, `mpif.h` and `mpi_f08`. All three have the same 20 bytes here.

use entry::alias;
use types::consts;

use crate::abi::{CStatus, code};
use crate::data;

/// Copies a status unless the source is null or stands for "ignore".
///
/// # Safety
/// Both are null, a constant, or a status that is readable, or writable.
unsafe fn copy(from: *const CStatus, to: *mut CStatus) -> i32 {
    if from as usize <= 1 || to as usize <= 1 || data::is_fortran_ignore(from as usize) {
        return code(consts::ERR_ARG);
    }
    // SAFETY: the caller's contract, and neither is a constant.
    unsafe { to.write_unaligned(from.read_unaligned()) };
    consts::SUCCESS
}

macro_rules! conversions {
    ($($function:ident $call:literal)*) => { $(
        #[doc = concat!("`", $call, "`.")]
        ///
        /// # Safety
        /// Both pointers are null, a constant for ignored statuses, or point to a status.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(from: *const CStatus, to: *mut CStatus) -> i32 {
            // SAFETY: the caller's contract is the same.
            unsafe { copy(from, to) }
        }
        alias!($call);
    )* };
}

conversions! {
    PMPI_Status_c2f "MPI_Status_c2f"
    PMPI_Status_f2c "MPI_Status_f2c"
    PMPI_Status_c2f08 "MPI_Status_c2f08"
    PMPI_Status_f082c "MPI_Status_f082c"
    PMPI_Status_f082f "MPI_Status_f082f"
    PMPI_Status_f2f08 "MPI_Status_f2f08"
}
