//! Attributes: integers in Fortran, pointers in C.
//!
//! MPI-5.0, section 19.3.7: what Fortran stores, C gets as a pointer to an integer ([`fortran::cells`]);
//! what C stores, Fortran gets as an integer with the pointer's value; the predefined attributes that C
//! has by address, Fortran gets as values. The routines of MPI-1 have default integers, those of MPI-2
//! integers of an address's size; what one kind stores, the other gets.

use fortran::cells::Cells;

use crate::r#gen::values::{
    APPNUM, HOST, IO, LASTUSEDCODE, TAG_UB, UNIVERSE_SIZE, WIN_BASE, WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT, WIN_MODEL, WIN_SIZE, WTIME_IS_GLOBAL,
};
use crate::handle::Handle;
use crate::prelude::*;

/// The integers that Fortran has stored.
static CELLS: Cells = Cells::new();

/// Predefined attributes that C has as pointers to an int.
const INTS: [i32; 10] = [
    TAG_UB,
    IO,
    HOST,
    WTIME_IS_GLOBAL,
    APPNUM,
    LASTUSEDCODE,
    UNIVERSE_SIZE,
    WIN_DISP_UNIT,
    WIN_CREATE_FLAVOR,
    WIN_MODEL,
];

/// C's keyval for Fortran's: the predefined ones may differ.
pub fn keyval_in(value: i32) -> i32 {
    let c = value.wrapping_sub(KEYVAL_STEP);
    let predefined = INTS.contains(&c) || [WIN_BASE, WIN_SIZE].contains(&c);
    if predefined { c } else { value }
}

/// What C stores for an integer.
fn stored(value: i64) -> usize {
    CELLS.address_of(value)
}

/// The integer that something stored for a keyval of the program stands for.
fn loaded(attribute: usize) -> i64 {
    CELLS.value_at(attribute).unwrap_or(attribute as i64)
}

/// The integer of an attribute.
///
/// # Safety
/// `attribute` is what C gave for `keyval`.
unsafe fn integer(keyval: i32, attribute: usize) -> i64 {
    let pointer = std::ptr::with_exposed_provenance::<i64>(attribute);
    // SAFETY: C gives the predefined attributes as pointers, to an int or to an MPI_Aint.
    unsafe {
        match keyval {
            _ if INTS.contains(&keyval) => *pointer.cast::<i32>() as i64,
            WIN_SIZE => *pointer,
            WIN_BASE => attribute as i64,
            _ => loaded(attribute),
        }
    }
}

/// Gets an attribute with the C procedure and says what Fortran gets, if it is there.
///
/// # Safety
/// `call` is that procedure with its object; `flag` is writable.
unsafe fn get(
    of: i32,
    flag: *mut i32,
    call: impl FnOnce(i32, *mut c_void, *mut i32) -> i32,
    put: impl FnOnce(i64),
) -> i32 {
    let (mut attribute, mut found) = (0usize, 0);
    let of = keyval_in(of);
    let code = call(of, (&raw mut attribute).cast(), &mut found);
    // SAFETY: the caller's contract.
    unsafe {
        *flag = (found != 0) as i32;
        if found != 0 {
            put(integer(of, attribute));
        }
    }
    code
}

macro_rules! attributes {
    ($($get:ident $get_low:literal $get_up:literal $get_c:ident
       $set:ident $set_low:literal $set_up:literal $set_c:ident $kind:ident $integer:ty;)*) => { $(
        routine! { $get $get_low $get_up
            (object: *const i32, key: *const i32, value: *mut $integer, flag: *mut i32) ()
            get(*key, flag,
                |key, to, found| $get_c($kind::from_int(*object), key, to, found),
                |integer| *value = integer as $integer)
        }
        routine! { $set $set_low $set_up
            (object: *const i32, key: *const i32, value: *const $integer) ()
            $set_c($kind::from_int(*object), keyval_in(*key),
                std::ptr::with_exposed_provenance_mut(stored(*value as i64)))
        }
    )* };
}

#[rustfmt::skip]
attributes! {
    pmpi_attr_get_ "attr_get" "ATTR_GET" MPI_Attr_get
        pmpi_attr_put_ "attr_put" "ATTR_PUT" MPI_Attr_put Comm i32;
    pmpi_comm_get_attr_ "comm_get_attr" "COMM_GET_ATTR" MPI_Comm_get_attr
        pmpi_comm_set_attr_ "comm_set_attr" "COMM_SET_ATTR" MPI_Comm_set_attr Comm i64;
    pmpi_type_get_attr_ "type_get_attr" "TYPE_GET_ATTR" MPI_Type_get_attr
        pmpi_type_set_attr_ "type_set_attr" "TYPE_SET_ATTR" MPI_Type_set_attr Datatype i64;
    pmpi_win_get_attr_ "win_get_attr" "WIN_GET_ATTR" MPI_Win_get_attr
        pmpi_win_set_attr_ "win_set_attr" "WIN_SET_ATTR" MPI_Win_set_attr Win i64;
}

/// A subroutine that copies attributes, `T` being its integers: object, keyval, extra state, value, new
/// value, flag, error code.
type Copy<T> = unsafe extern "C" fn(*mut i32, *mut i32, *mut T, *mut T, *mut T, *mut i32, *mut i32);

/// A subroutine that is told of a deletion: object, keyval, value, extra state, error code.
type Delete<T> = unsafe extern "C" fn(*mut i32, *mut i32, *mut T, *mut T, *mut i32);

/// A keyval's subroutines, which is C's extra state. It stays for good: nobody says when the last
/// attribute of a freed keyval is gone.
struct Subroutines<T> {
    copy: Copy<T>,
    delete: Delete<T>,
    /// Fortran's extra state: the subroutines get its address and may change it.
    extra: T,
}

/// An integer of a subroutine: default, or as large as an address.
trait Integer: std::marker::Copy + Default {
    fn of(value: i64) -> Self;
    fn wide(self) -> i64;
}

impl Integer for i32 {
    fn of(value: i64) -> i32 {
        value as i32
    }
    fn wide(self) -> i64 {
        self as i64
    }
}

impl Integer for i64 {
    fn of(value: i64) -> i64 {
        value
    }
    fn wide(self) -> i64 {
        self
    }
}

/// C's copy function for a Fortran one.
///
/// # Safety
/// C calls it as it does copy functions; the extra state was made by [`state`].
unsafe extern "C" fn copy<H: Handle, T: Integer>(
    object: H,
    keyval: i32,
    state: *mut Subroutines<T>,
    value: usize,
    value_out: *mut usize,
    flag: *mut i32,
) -> i32 {
    let (mut object, mut keyval) = (object.to_int(), keyval);
    let (mut value, mut new) = (T::of(loaded(value)), T::default());
    let (mut wanted, mut code) = (0, 0);
    // SAFETY: the caller's contract: the state is ours, the outputs are writable, and the program
    // passed a subroutine of this kind.
    unsafe {
        let extra = &raw mut (*state).extra;
        ((*state).copy)(
            &mut object,
            &mut keyval,
            extra,
            &mut value,
            &mut new,
            &mut wanted,
            &mut code,
        );
        *flag = (wanted != 0) as i32;
        if wanted != 0 {
            *value_out = stored(new.wide());
        }
    }
    code
}

/// C's delete function for a Fortran one.
///
/// # Safety
/// C calls it as it does delete functions; the extra state was made by [`state`].
unsafe extern "C" fn delete<H: Handle, T: Integer>(
    object: H,
    keyval: i32,
    value: usize,
    state: *mut Subroutines<T>,
) -> i32 {
    let (mut object, mut keyval, mut code) = (object.to_int(), keyval, 0);
    let mut value = T::of(loaded(value));
    // SAFETY: as for `copy`.
    unsafe {
        let extra = &raw mut (*state).extra;
        ((*state).delete)(&mut object, &mut keyval, &mut value, extra, &mut code);
    }
    code
}

/// The extra state for C.
///
/// # Safety
/// `copy` and `delete` are the addresses of such subroutines.
unsafe fn state<T: Integer>(copy: usize, delete: usize, extra: T) -> usize {
    // SAFETY: the caller's contract.
    let (copy, delete) = unsafe {
        (
            std::mem::transmute::<usize, Copy<T>>(copy),
            std::mem::transmute::<usize, Delete<T>>(delete),
        )
    };
    let state = Box::new(Subroutines {
        copy,
        delete,
        extra,
    });
    Box::into_raw(state).expose_provenance()
}

macro_rules! keyvals {
    ($($create:ident $low:literal $up:literal $call:ident $kind:ident $integer:ty;)*) => { $(
        routine! { $create $low $up
            (copy_fn: usize, delete_fn: usize, key: *mut i32, extra_state: *const $integer) ()
            $call(
                copy::<$kind, $integer> as *const () as usize,
                delete::<$kind, $integer> as *const () as usize,
                key,
                state::<$integer>(copy_fn, delete_fn, *extra_state),
            )
        }
    )* };
}

#[rustfmt::skip]
keyvals! {
    pmpi_keyval_create_ "keyval_create" "KEYVAL_CREATE" MPI_Keyval_create Comm i32;
    pmpi_comm_create_keyval_ "comm_create_keyval" "COMM_CREATE_KEYVAL" MPI_Comm_create_keyval Comm i64;
    pmpi_type_create_keyval_ "type_create_keyval" "TYPE_CREATE_KEYVAL" MPI_Type_create_keyval Datatype i64;
    pmpi_win_create_keyval_ "win_create_keyval" "WIN_CREATE_KEYVAL" MPI_Win_create_keyval Win i64;
}

/// The predefined subroutines for attributes with integers of type `T`; a program hands them over or
/// calls them.
macro_rules! predefined {
    ($($dup:ident $dup_low:literal $dup_up:literal
       $none:ident $none_low:literal $none_up:literal
       $delete:ident $delete_low:literal $delete_up:literal $integer:ty;)*) => { $(
        #[doc = concat!("`MPI_", $dup_up, "`.")]
        ///
        /// # Safety
        /// The values are readable and writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $dup(
            _object: *mut i32, _keyval: *mut i32, _extra: *mut $integer, value: *mut $integer,
            value_out: *mut $integer, flag: *mut i32, ierror: *mut i32,
        ) {
            // SAFETY: the caller's contract.
            unsafe {
                *value_out = *value;
                *flag = 1;
                *ierror = 0;
            }
        }
        names!($dup_low, $dup_up);

        #[doc = concat!("`MPI_", $none_up, "`.")]
        ///
        /// # Safety
        /// The flag and the error code are writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $none(
            _object: *mut i32, _keyval: *mut i32, _extra: *mut $integer, _value: *mut $integer,
            _value_out: *mut $integer, flag: *mut i32, ierror: *mut i32,
        ) {
            // SAFETY: the caller's contract.
            unsafe {
                *flag = 0;
                *ierror = 0;
            }
        }
        names!($none_low, $none_up);

        #[doc = concat!("`MPI_", $delete_up, "`.")]
        ///
        /// # Safety
        /// The error code is writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $delete(
            _object: *mut i32, _keyval: *mut i32, _value: *mut $integer, _extra: *mut $integer,
            ierror: *mut i32,
        ) {
            // SAFETY: the caller's contract.
            unsafe { *ierror = 0 };
        }
        names!($delete_low, $delete_up);
    )* };
}

#[rustfmt::skip]
predefined! {
    pmpi_dup_fn_ "dup_fn" "DUP_FN" pmpi_null_copy_fn_ "null_copy_fn" "NULL_COPY_FN"
        pmpi_null_delete_fn_ "null_delete_fn" "NULL_DELETE_FN" i32;
    pmpi_comm_dup_fn_ "comm_dup_fn" "COMM_DUP_FN" pmpi_comm_null_copy_fn_ "comm_null_copy_fn" "COMM_NULL_COPY_FN"
        pmpi_comm_null_delete_fn_ "comm_null_delete_fn" "COMM_NULL_DELETE_FN" i64;
    pmpi_type_dup_fn_ "type_dup_fn" "TYPE_DUP_FN" pmpi_type_null_copy_fn_ "type_null_copy_fn" "TYPE_NULL_COPY_FN"
        pmpi_type_null_delete_fn_ "type_null_delete_fn" "TYPE_NULL_DELETE_FN" i64;
    pmpi_win_dup_fn_ "win_dup_fn" "WIN_DUP_FN" pmpi_win_null_copy_fn_ "win_null_copy_fn" "WIN_NULL_COPY_FN"
        pmpi_win_null_delete_fn_ "win_null_delete_fn" "WIN_NULL_DELETE_FN" i64;
}
