//! Finding predefined types by what they hold.

use types::basic::{BASICS, Class, Elem, basic};
use types::{Handle, Result, consts, fault};

/// `MPI_Type_match_size`: the Fortran type of a class and size in bytes.
pub fn match_size(typeclass: i32, size: i32) -> Result<Handle> {
    let found = match (typeclass, size) {
        (consts::TYPECLASS_INTEGER, 1) => consts::INTEGER1,
        (consts::TYPECLASS_INTEGER, 2) => consts::INTEGER2,
        (consts::TYPECLASS_INTEGER, 4) => consts::INTEGER4,
        (consts::TYPECLASS_INTEGER, 8) => consts::INTEGER8,
        (consts::TYPECLASS_REAL, 4) => consts::REAL4,
        (consts::TYPECLASS_REAL, 8) => consts::REAL8,
        (consts::TYPECLASS_REAL, 16) => consts::REAL16,
        (consts::TYPECLASS_COMPLEX, 8) => consts::COMPLEX8,
        (consts::TYPECLASS_COMPLEX, 16) => consts::COMPLEX16,
        (consts::TYPECLASS_COMPLEX, 32) => consts::COMPLEX32,
        (consts::TYPECLASS_INTEGER | consts::TYPECLASS_REAL | consts::TYPECLASS_COMPLEX, size) => {
            let why = format!("no type of this class has {size} bytes");
            return Err(fault(consts::ERR_ARG, why));
        }
        (class, _) => {
            return Err(fault(
                consts::ERR_ARG,
                format!("unknown type class {class}"),
            ));
        }
    };
    Ok(found)
}

/// `MPI_Type_get_value_index`: the predefined pair of a value type and an index type, or
/// `MPI_DATATYPE_NULL` where there is none.
pub fn value_index(value: Handle, index: Handle) -> Handle {
    let storage = |h: Handle| basic(h).map(|b| (b.class, b.elem));
    let (Some((class, value)), Some((index_class, index))) = (storage(value), storage(index))
    else {
        return consts::DATATYPE_NULL;
    };
    let pair = match (value, index) {
        (Elem::F32, Elem::I32) => Elem::F32Int,
        (Elem::F64, Elem::I32) => Elem::F64Int,
        (Elem::I64, Elem::I32) => Elem::I64Int,
        (Elem::I32, Elem::I32) => Elem::I32Int,
        (Elem::I16, Elem::I32) => Elem::I16Int,
        (Elem::F80, Elem::I32) => Elem::F80Int,
        (Elem::F32, Elem::F32) => Elem::F32x2,
        (Elem::F64, Elem::F64) => Elem::F64x2,
        _ => return consts::DATATYPE_NULL,
    };
    if class == Class::Char || index_class == Class::Char {
        return consts::DATATYPE_NULL;
    }
    let found = BASICS
        .iter()
        .find(|b| b.class == Class::Pair && b.elem == pair);
    found.map_or(consts::DATATYPE_NULL, |b| b.handle)
}
