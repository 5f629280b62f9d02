//! How the MPICH ABI writes handles: as ints that are Fortran's integers. Only files are pointers.

use std::ffi::c_void;

use crate::handle::Handle;

/// `MPI_Status`: the same five integers in both languages, so nobody looks inside.
pub type CStatus = c_void;

/// How far Fortran's predefined keyvals lie from C's: MPICH tells by them whether an attribute is wanted
/// as an address or as an integer.
pub const KEYVAL_STEP: i32 = 1;

unsafe extern "C" {
    static MPI_UNWEIGHTED: *mut i32;
    static MPI_WEIGHTS_EMPTY: *mut i32;
    safe fn PMPI_File_c2f(file: File) -> i32;
    safe fn PMPI_File_f2c(value: i32) -> File;
}

/// `MPI_UNWEIGHTED`.
pub fn unweighted() -> *mut i32 {
    // SAFETY: a constant of the C library.
    unsafe { MPI_UNWEIGHTED }
}

/// `MPI_WEIGHTS_EMPTY`.
pub fn weights_empty() -> *mut i32 {
    // SAFETY: a constant of the C library.
    unsafe { MPI_WEIGHTS_EMPTY }
}

macro_rules! handle_type {
    ($($name:ident),*) => { $(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Clone, Copy)]
        pub struct $name(i32);

        impl Handle for $name {
            const IS_INT: bool = true;
            const NONE: $name = $name(0);
            fn from_int(value: i32) -> $name {
                $name(value)
            }
            fn to_int(self) -> i32 {
                self.0
            }
            fn is_none(self) -> bool {
                false
            }
        }
    )* };
}

handle_type!(
    Comm, Datatype, Errhandler, Group, Info, Message, Op, Request, Session, Win
);

/// `MPI_File`, whose null handle is a null pointer and 0.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct File(*mut c_void);

impl Handle for File {
    const IS_INT: bool = false;
    const NONE: File = File(std::ptr::null_mut());
    fn from_int(value: i32) -> File {
        PMPI_File_f2c(value)
    }
    fn to_int(self) -> i32 {
        PMPI_File_c2f(self)
    }
    fn is_none(self) -> bool {
        false
    }
}
