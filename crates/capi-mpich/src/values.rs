//! Entry points that return a value rather than an error code, and `MPI_Pcontrol`.
//!
//! None of them enters the engine: they can be called at any time, from any thread.

use entry::alias;
use types::consts;

use crate::abi::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};

/// `MPI_Wtime`.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Wtime() -> f64 {
    sys::clock::now()
}
alias!("MPI_Wtime");

/// `MPI_Wtick`.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Wtick() -> f64 {
    sys::clock::tick()
}
alias!("MPI_Wtick");

/// `MPI_Aint_add`.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Aint_add(base: isize, disp: isize) -> isize {
    base.wrapping_add(disp)
}
alias!("MPI_Aint_add");

/// `MPI_Aint_diff`.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Aint_diff(a: isize, b: isize) -> isize {
    a.wrapping_sub(b)
}
alias!("MPI_Aint_diff");

/// `MPI_Pcontrol`. The arguments after the level are a profiler's business; a function that takes
/// none of them has the same calling convention.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Pcontrol(_level: i32) -> i32 {
    consts::SUCCESS
}
alias!("MPI_Pcontrol");

/// `MPI_Abi_get_version`: -1, since this isn't the standard ABI.
///
/// # Safety
/// Each pointer is null or points to a writable `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_version(major: *mut i32, minor: *mut i32) -> i32 {
    if major.is_null() || minor.is_null() {
        return crate::abi::code(consts::ERR_ARG);
    }
    // SAFETY: neither is null, so both are writable by the contract.
    unsafe {
        *major = -1;
        *minor = -1;
    }
    consts::SUCCESS
}
alias!("MPI_Abi_get_version");

/// A handle kind's conversions to an int and back, under two pairs of names: the int is the handle
/// itself; a file's is its neutral handle.
macro_rules! conversions {
    ($($kind:ident $to:ident $to_call:literal $from:ident $from_call:literal)*) => { $(
        #[doc = concat!("`", $to_call, "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $to(handle: $kind) -> i32 {
            handle.to_int()
        }
        alias!($to_call);

        #[doc = concat!("`", $from_call, "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $from(value: i32) -> $kind {
            $kind::from_int(value)
        }
        alias!($from_call);
    )* };
}

#[rustfmt::skip]
conversions! {
    Comm PMPI_Comm_toint "MPI_Comm_toint" PMPI_Comm_fromint "MPI_Comm_fromint"
    Comm PMPI_Comm_c2f "MPI_Comm_c2f" PMPI_Comm_f2c "MPI_Comm_f2c"
    Datatype PMPI_Type_toint "MPI_Type_toint" PMPI_Type_fromint "MPI_Type_fromint"
    Datatype PMPI_Type_c2f "MPI_Type_c2f" PMPI_Type_f2c "MPI_Type_f2c"
    Errhandler PMPI_Errhandler_toint "MPI_Errhandler_toint" PMPI_Errhandler_fromint "MPI_Errhandler_fromint"
    Errhandler PMPI_Errhandler_c2f "MPI_Errhandler_c2f" PMPI_Errhandler_f2c "MPI_Errhandler_f2c"
    Group PMPI_Group_toint "MPI_Group_toint" PMPI_Group_fromint "MPI_Group_fromint"
    Group PMPI_Group_c2f "MPI_Group_c2f" PMPI_Group_f2c "MPI_Group_f2c"
    Info PMPI_Info_toint "MPI_Info_toint" PMPI_Info_fromint "MPI_Info_fromint"
    Info PMPI_Info_c2f "MPI_Info_c2f" PMPI_Info_f2c "MPI_Info_f2c"
    Message PMPI_Message_toint "MPI_Message_toint" PMPI_Message_fromint "MPI_Message_fromint"
    Message PMPI_Message_c2f "MPI_Message_c2f" PMPI_Message_f2c "MPI_Message_f2c"
    Op PMPI_Op_toint "MPI_Op_toint" PMPI_Op_fromint "MPI_Op_fromint"
    Op PMPI_Op_c2f "MPI_Op_c2f" PMPI_Op_f2c "MPI_Op_f2c"
    Request PMPI_Request_toint "MPI_Request_toint" PMPI_Request_fromint "MPI_Request_fromint"
    Request PMPI_Request_c2f "MPI_Request_c2f" PMPI_Request_f2c "MPI_Request_f2c"
    Session PMPI_Session_toint "MPI_Session_toint" PMPI_Session_fromint "MPI_Session_fromint"
    Session PMPI_Session_c2f "MPI_Session_c2f" PMPI_Session_f2c "MPI_Session_f2c"
    Win PMPI_Win_toint "MPI_Win_toint" PMPI_Win_fromint "MPI_Win_fromint"
    Win PMPI_Win_c2f "MPI_Win_c2f" PMPI_Win_f2c "MPI_Win_f2c"
    File PMPI_File_toint "MPI_File_toint" PMPI_File_fromint "MPI_File_fromint"
    File PMPI_File_c2f "MPI_File_c2f" PMPI_File_f2c "MPI_File_f2c"
}
