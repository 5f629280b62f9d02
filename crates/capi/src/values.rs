//! Entry points that return a value rather than an error code, and `MPI_Pcontrol`.
//!
//! None of them enters the engine: they can be called at any time, from any thread.

use entry::{AbiHandle, alias};
use types::{Handle, consts};

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

/// `MPI_Abi_get_version`: that of the standard ABI.
///
/// # Safety
/// Each pointer is null or points to a writable `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_version(major: *mut i32, minor: *mut i32) -> i32 {
    if major.is_null() || minor.is_null() {
        return consts::ERR_ARG;
    }
    // SAFETY: neither is null, so both are writable by the contract.
    unsafe {
        *major = consts::ABI_VERSION;
        *minor = consts::ABI_SUBVERSION;
    }
    consts::SUCCESS
}
alias!("MPI_Abi_get_version");

/// `toint` and `fromint`: the neutral handle as an int, which is a constant's value and never
/// negative for an object.
macro_rules! conversions {
    ($($kind:ident $toint:ident $toint_call:literal $fromint:ident $fromint_call:literal)*) => { $(
        #[doc = concat!("`", $toint_call, "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $toint(handle: $kind) -> i32 {
            handle.neutral().0 as i32
        }
        alias!($toint_call);

        #[doc = concat!("`", $fromint_call, "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $fromint(value: i32) -> $kind {
            $kind::of(Handle(value as u32))
        }
        alias!($fromint_call);
    )* };
}

conversions! {
    Comm PMPI_Comm_toint "MPI_Comm_toint" PMPI_Comm_fromint "MPI_Comm_fromint"
    Datatype PMPI_Type_toint "MPI_Type_toint" PMPI_Type_fromint "MPI_Type_fromint"
    Errhandler PMPI_Errhandler_toint "MPI_Errhandler_toint"
        PMPI_Errhandler_fromint "MPI_Errhandler_fromint"
    File PMPI_File_toint "MPI_File_toint" PMPI_File_fromint "MPI_File_fromint"
    Group PMPI_Group_toint "MPI_Group_toint" PMPI_Group_fromint "MPI_Group_fromint"
    Info PMPI_Info_toint "MPI_Info_toint" PMPI_Info_fromint "MPI_Info_fromint"
    Message PMPI_Message_toint "MPI_Message_toint" PMPI_Message_fromint "MPI_Message_fromint"
    Op PMPI_Op_toint "MPI_Op_toint" PMPI_Op_fromint "MPI_Op_fromint"
    Request PMPI_Request_toint "MPI_Request_toint" PMPI_Request_fromint "MPI_Request_fromint"
    Session PMPI_Session_toint "MPI_Session_toint" PMPI_Session_fromint "MPI_Session_fromint"
    Win PMPI_Win_toint "MPI_Win_toint" PMPI_Win_fromint "MPI_Win_fromint"
}
