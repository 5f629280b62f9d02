//! Routines that MPI-3.0 removed. Addresses and displacements are default integers here, as they were
//! when addresses fitted into one.

use crate::r#gen::values::ERR_OTHER;
use crate::prelude::*;

// In this ABI an error handler in Fortran is one in C.
routine! { pmpi_errhandler_create_ "errhandler_create" "ERRHANDLER_CREATE"
    (function: usize, errhandler: *mut i32) ()
    MPI_Errhandler_create(function, handle_out::<Errhandler>(errhandler).at())
}

routine! { pmpi_errhandler_get_ "errhandler_get" "ERRHANDLER_GET"
    (comm: *const i32, errhandler: *mut i32) ()
    MPI_Errhandler_get(Comm::from_int(*comm), handle_out::<Errhandler>(errhandler).at())
}

routine! { pmpi_errhandler_set_ "errhandler_set" "ERRHANDLER_SET"
    (comm: *const i32, errhandler: *const i32) ()
    MPI_Errhandler_set(Comm::from_int(*comm), Errhandler::from_int(*errhandler))
}

/// Hands an address to Fortran if it fits; else the call has failed.
///
/// # Safety
/// `to` is writable.
unsafe fn narrow(code: i32, value: i64, to: *mut i32) -> i32 {
    let Ok(value) = i32::try_from(value) else {
        return ERR_OTHER;
    };
    // SAFETY: the caller's contract.
    unsafe { *to = value };
    code
}

routine! { pmpi_address_ "address" "ADDRESS" (location: *mut c_void, address: *mut i32) () {
    let mut wide = 0;
    let code = MPI_Address(place(location), &mut wide);
    narrow(code, wide, address)
} }

routine! { pmpi_type_extent_ "type_extent" "TYPE_EXTENT" (datatype: *const i32, extent: *mut i32) () {
    let mut wide = 0;
    let code = MPI_Type_extent(Datatype::from_int(*datatype), &mut wide);
    narrow(code, wide, extent)
} }

routine! { pmpi_type_lb_ "type_lb" "TYPE_LB" (datatype: *const i32, displacement: *mut i32) () {
    let mut wide = 0;
    let code = MPI_Type_lb(Datatype::from_int(*datatype), &mut wide);
    narrow(code, wide, displacement)
} }

routine! { pmpi_type_ub_ "type_ub" "TYPE_UB" (datatype: *const i32, displacement: *mut i32) () {
    let mut wide = 0;
    let code = MPI_Type_ub(Datatype::from_int(*datatype), &mut wide);
    narrow(code, wide, displacement)
} }

routine! { pmpi_type_hvector_ "type_hvector" "TYPE_HVECTOR"
    (count: *const i32, blocklength: *const i32, stride: *const i32, oldtype: *const i32,
     newtype: *mut i32) ()
    MPI_Type_hvector(*count, *blocklength, *stride as i64, Datatype::from_int(*oldtype),
        handle_out::<Datatype>(newtype).at())
}

/// Displacements as C has them.
///
/// # Safety
/// `from` has `count` readable elements.
unsafe fn displacements(from: *const i32, count: i32) -> Vec<i64> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's contract.
    (0..count).map(|i| unsafe { *from.add(i) } as i64).collect()
}

routine! { pmpi_type_hindexed_ "type_hindexed" "TYPE_HINDEXED"
    (count: *const i32, lengths: *const i32, places: *const i32, oldtype: *const i32,
     newtype: *mut i32) ()
    MPI_Type_hindexed(*count, lengths, displacements(places, *count).as_ptr(),
        Datatype::from_int(*oldtype), handle_out::<Datatype>(newtype).at())
}

routine! { pmpi_type_struct_ "type_struct" "TYPE_STRUCT"
    (count: *const i32, lengths: *const i32, places: *const i32, types: *const i32,
     newtype: *mut i32) ()
    MPI_Type_struct(*count, lengths, displacements(places, *count).as_ptr(),
        handles_in::<Datatype>(types, || *count).at(), handle_out::<Datatype>(newtype).at())
}
