//! How the standard ABI writes handles: as pointers, of which Fortran has the integers.

use std::ffi::c_void;

use crate::handle::Handle;

/// `MPI_Status`: the same eight integers in both languages, so nobody looks inside.
pub type CStatus = c_void;

/// How far Fortran's predefined keyvals lie from C's.
pub const KEYVAL_STEP: i32 = 0;

/// `MPI_UNWEIGHTED`.
pub fn unweighted() -> *mut i32 {
    std::ptr::without_provenance_mut(crate::r#gen::values::UNWEIGHTED as usize)
}

/// `MPI_WEIGHTS_EMPTY`.
pub fn weights_empty() -> *mut i32 {
    std::ptr::without_provenance_mut(crate::r#gen::values::WEIGHTS_EMPTY as usize)
}

macro_rules! handle_type {
    ($($name:ident $toint:ident $fromint:ident),*) => {
        unsafe extern "C" { $(
            safe fn $toint(handle: $name) -> i32;
            safe fn $fromint(value: i32) -> $name;
        )* }
        $(
            #[doc = concat!("`MPI_", stringify!($name), "`.")]
            #[repr(transparent)]
            #[derive(Clone, Copy)]
            pub struct $name(*mut c_void);

            impl Handle for $name {
                const IS_INT: bool = false;
                const NONE: $name = $name(std::ptr::null_mut());
                fn from_int(value: i32) -> $name {
                    // A predefined handle is its integer (MPI-5.0, section 20.3).
                    if (0..4096).contains(&value) {
                        $name(std::ptr::without_provenance_mut(value as usize))
                    } else {
                        $fromint(value)
                    }
                }
                fn to_int(self) -> i32 {
                    match self.0.addr() {
                        predefined @ 0..4096 => predefined as i32,
                        _ => $toint(self),
                    }
                }
                fn is_none(self) -> bool {
                    self.0.is_null()
                }
            }
        )*
    };
}

handle_type!(
    Comm PMPI_Comm_toint PMPI_Comm_fromint,
    Datatype PMPI_Type_toint PMPI_Type_fromint,
    Errhandler PMPI_Errhandler_toint PMPI_Errhandler_fromint,
    File PMPI_File_toint PMPI_File_fromint,
    Group PMPI_Group_toint PMPI_Group_fromint,
    Info PMPI_Info_toint PMPI_Info_fromint,
    Message PMPI_Message_toint PMPI_Message_fromint,
    Op PMPI_Op_toint PMPI_Op_fromint,
    Request PMPI_Request_toint PMPI_Request_fromint,
    Session PMPI_Session_toint PMPI_Session_fromint,
    Win PMPI_Win_toint PMPI_Win_fromint
);
