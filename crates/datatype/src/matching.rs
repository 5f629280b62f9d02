//! Finding predefined types by what they hold.

use types::{Handle, Result, consts, fault};

/// `MPI_Type_match_size`: the Fortran type of a class and size in bytes.
pub fn match_size(typeclass: i32, size: i32) -> Result<Handle> {
    let found = match (typeclass, size) {
        (consts::TYPECLASS_INTEGER, 1) => consts::INTEGER1,
        (consts::TYPECLASS_INTEGER, 2) => consts::INTEGER2,
        (consts::TYPECLASS_INTEGER, 4) => consts::INTEGER4,
        (consts::TYPECLASS_INTEGER, 8) => consts::INTEGER8,
        (consts::TYPECLASS_REAL, 2) => consts::REAL2,
        (consts::TYPECLASS_REAL, 4) => consts::REAL4,
        (consts::TYPECLASS_REAL, 8) => consts::REAL8,
        (consts::TYPECLASS_REAL, 16) => consts::REAL16,
        (consts::TYPECLASS_COMPLEX, 4) => consts::COMPLEX4,
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

/// The pairs that the standard names: value, index, pair.
const PAIRS: [(Handle, Handle, Handle); 9] = [
    (consts::FLOAT, consts::INT, consts::FLOAT_INT),
    (consts::DOUBLE, consts::INT, consts::DOUBLE_INT),
    (consts::LONG, consts::INT, consts::LONG_INT),
    (consts::INT, consts::INT, consts::T_2INT),
    (consts::SHORT, consts::INT, consts::SHORT_INT),
    (consts::LONG_DOUBLE, consts::INT, consts::LONG_DOUBLE_INT),
    (consts::REAL, consts::REAL, consts::T_2REAL),
    (
        consts::DOUBLE_PRECISION,
        consts::DOUBLE_PRECISION,
        consts::T_2DOUBLE_PRECISION,
    ),
    (consts::INTEGER, consts::INTEGER, consts::T_2INTEGER),
];

/// `MPI_Type_get_value_index`: the predefined pair of a value type and an index type, or
/// `MPI_DATATYPE_NULL` where there is none.
pub fn value_index(value: Handle, index: Handle) -> Handle {
    let found = PAIRS.iter().find(|p| (p.0, p.1) == (value, index));
    found.map_or(consts::DATATYPE_NULL, |p| p.2)
}
