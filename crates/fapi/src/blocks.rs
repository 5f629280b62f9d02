//! The common blocks of `mpif.h`, and the constants that are known by their address in them.
//!
//! A common block is a symbol that every file which includes `mpif.h` defines, and this library too; the
//! dynamic linker takes the executable's for all of them. So an address has to be asked for at run time
//! through the global offset table, which is what reading an external symbol does: these are declared as
//! somebody else's, though the assembler lines below define them.

use std::ffi::c_void;

use crate::abi;
use crate::r#gen::values::{BUFFER_AUTOMATIC, F_STATUS_SIZE, IN_PLACE, STATUS_IGNORE};

/// Bytes of a status.
const STATUS: usize = F_STATUS_SIZE as usize * 4;

::core::arch::global_asm!(
    ".comm mpifcmb5_, 4, 32",
    ".comm mpifcmb9_, 4, 32",
    ".comm mpifcmba_, 4, 32",
    ".comm mpipriv1_, {bottom_and_others}, 32",
    ".comm mpipriv2_, {statuses_and_codes}, 32",
    ".comm mpiprivc_, 2, 32",
    bottom_and_others = const 8 + STATUS,
    statuses_and_codes = const STATUS + 4,
);

unsafe extern "C" {
    static mpifcmb5_: i32;
    static mpifcmb9_: i32;
    static mpifcmba_: i32;
    static mpipriv1_: [i32; 2 + STATUS / 4];
    static mpipriv2_: [i32; STATUS / 4 + 1];
    static mpiprivc_: [u8; 2];
}

/// Address of the `n`th integer of `MPIPRIV1`: `MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_STATUS_IGNORE`.
fn private1(n: usize) -> usize {
    (&raw const mpipriv1_).addr() + 4 * n
}

/// Whether an address is that of `MPI_IN_PLACE`.
pub fn is_in_place(address: *const c_void) -> bool {
    address.addr() == private1(1)
}

/// A choice argument: the address of data, or one of the constants.
pub fn choice(address: *mut c_void) -> *mut c_void {
    let special = |value: isize| std::ptr::without_provenance_mut(value as usize);
    match address.addr() {
        a if a == private1(0) => std::ptr::null_mut(),
        a if a == private1(1) => special(IN_PLACE),
        a if a == (&raw const mpifcmba_).addr() => special(BUFFER_AUTOMATIC),
        _ => address,
    }
}

/// An address that is asked for; that of `MPI_BOTTOM` is 0.
pub fn place(address: *mut c_void) -> *mut c_void {
    if address.addr() == private1(0) {
        std::ptr::null_mut()
    } else {
        address
    }
}

/// Addresses of `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub fn ignored_statuses() -> [*mut i32; 2] {
    let one = (&raw const mpipriv1_).cast::<i32>().wrapping_add(2);
    [
        one.cast_mut(),
        (&raw const mpipriv2_).cast::<i32>().cast_mut(),
    ]
}

fn is_ignored(status: *mut i32) -> bool {
    ignored_statuses().contains(&status)
}

/// Where C writes a status: both languages have the same integers in it.
pub fn status_at(status: *mut i32) -> *mut c_void {
    if is_ignored(status) {
        return std::ptr::without_provenance_mut(STATUS_IGNORE as usize);
    }
    status.cast()
}

/// Where C writes an array of statuses; both ABIs have one constant for one ignored status and for many.
pub fn statuses_at(array: *mut i32) -> *mut c_void {
    status_at(array)
}

/// An array of weights, or what stands for none.
pub fn weights_at(array: *mut i32) -> *mut i32 {
    match array.addr() {
        a if a == (&raw const mpifcmb5_).addr() => abi::unweighted(),
        a if a == (&raw const mpifcmb9_).addr() => abi::weights_empty(),
        _ => array,
    }
}

/// An array of error codes; null where they are ignored.
pub fn error_codes(array: *mut i32) -> *mut i32 {
    let ignored = (&raw const mpipriv2_).addr() + STATUS;
    if array.addr() == ignored {
        std::ptr::null_mut()
    } else {
        array
    }
}

/// Whether an array of arguments is `MPI_ARGV_NULL` or `MPI_ARGVS_NULL`.
pub fn has_no_arguments(array: *const u8) -> bool {
    let block = (&raw const mpiprivc_).addr();
    (block..block + 2).contains(&array.addr())
}
