//! Symbols of this ABI that aren't procedures: constants that are data, and the dup function.

use std::sync::atomic::{AtomicPtr, Ordering};

use types::consts;

use crate::abi::{CStatus, Comm};

/// A constant address with a symbol of its own.
#[repr(transparent)]
pub struct Address<T>(*mut T);

// SAFETY: the address never changes and nothing is read or written through it here.
unsafe impl<T> Sync for Address<T> {}

/// Two ints whose addresses are unlike any other.
static mut MARKS: [i32; 2] = [0; 2];

/// What the Fortran status constants point to, until a Fortran library puts the addresses of its own
/// constants there.
static mut FORTRAN_STATUSES: [[i32; 5]; 4] = [[0; 5]; 4];

const fn fortran_status(i: usize) -> *mut [i32; 5] {
    (&raw mut FORTRAN_STATUSES)
        .cast::<[i32; 5]>()
        .wrapping_add(i)
}

/// `MPI_UNWEIGHTED`.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Address<i32> = Address((&raw mut MARKS).cast());

/// `MPI_WEIGHTS_EMPTY`.
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Address<i32> =
    Address((&raw mut MARKS).cast::<i32>().wrapping_add(1));

/// `MPI_F_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: AtomicPtr<i32> = AtomicPtr::new(fortran_status(0).cast());

/// `MPI_F_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: AtomicPtr<i32> = AtomicPtr::new(fortran_status(1).cast());

/// `MPI_F08_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: AtomicPtr<CStatus> = AtomicPtr::new(fortran_status(2).cast());

/// `MPI_F08_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: AtomicPtr<CStatus> = AtomicPtr::new(fortran_status(3).cast());

/// `MPI_T_PVAR_ALL_HANDLES`: the standard ABI's value.
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Address<u8> = Address(std::ptr::without_provenance_mut(1));

/// The neutral address of a weights argument: the standard ABI's value for the two constants.
pub fn weights(address: usize) -> usize {
    match address {
        a if a == MPI_UNWEIGHTED.0 as usize => 10,
        a if a == MPI_WEIGHTS_EMPTY.0 as usize => 11,
        a => a,
    }
}

/// `MPI_DUP_FN` and its kin. The engine knows it by its address and copies by itself; this body is
/// for programs that call it.
///
/// # Safety
/// `value_out` points to a pointer and `flag` to an int, both writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _comm: Comm,
    _keyval: i32,
    _extra_state: usize,
    value_in: usize,
    value_out: *mut usize,
    flag: *mut i32,
) -> i32 {
    // SAFETY: the contract of a copy function.
    unsafe {
        *value_out = value_in;
        *flag = 1;
    }
    consts::SUCCESS
}

/// Whether an address is one of the constants that Fortran passes for an ignored status.
pub fn is_fortran_ignore(address: usize) -> bool {
    let ordering = Ordering::Relaxed;
    let constants = [
        MPI_F_STATUS_IGNORE.load(ordering).addr(),
        MPI_F_STATUSES_IGNORE.load(ordering).addr(),
        MPI_F08_STATUS_IGNORE.load(ordering).addr(),
        MPI_F08_STATUSES_IGNORE.load(ordering).addr(),
    ];
    constants.contains(&address)
}
