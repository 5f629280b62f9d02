//! The predefined basic types: one row each, in the standard's order.
//!
//! Optional types that this platform lacks (`MPI_INTEGER16`, `MPI_LOGICAL16`) have no row: their
//! size is `MPI_UNDEFINED` and they can't be communicated.

use crate::{Handle, consts};

/// Which reduction operations the standard allows on a type (section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// C integer.
    CInteger,
    /// Fortran integer.
    FortranInteger,
    /// Floating point.
    Float,
    /// Logical.
    Logical,
    /// Complex.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    Multi,
    /// Value and location, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair,
    /// Characters: no reduction is defined.
    Char,
    /// `MPI_PACKED`.
    Packed,
}

/// How one element is stored: what a reduction kernel or a byte-order conversion needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer or opaque byte.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE binary16.
    F16,
    /// Complex of two binary16.
    C16,
    /// IEEE binary32.
    F32,
    /// Complex of two binary32.
    C32,
    /// IEEE binary64.
    F64,
    /// Complex of two binary64.
    C64,
    /// Fortran logical of 4 bytes.
    L32,
    /// C `long double`: x87 extended, 10 bytes in 16.
    F80,
    /// Complex of two `long double`.
    C80,
    /// `{float, int}`.
    F32Int,
    /// `{double, int}`: 12 bytes in 16.
    F64Int,
    /// `{long, int}`: 12 bytes in 16.
    I64Int,
    /// `{int, int}`.
    I32Int,
    /// `{short, int}`: 6 bytes in 8, the int at 4.
    I16Int,
    /// `{long double, int}`: 20 bytes in 32, the int at 16.
    F80Int,
    /// `{float, float}`, value and location.
    F32x2,
    /// `{double, double}`, value and location.
    F64x2,
    /// C `_Bool`: one byte, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Fortran logical of 1 byte.
    L8,
    /// Fortran logical of 2 bytes.
    L16,
    /// Fortran logical of 8 bytes.
    L64,
    /// IEEE binary128 (`_Float128`).
    F128,
    /// Complex of two binary128.
    C128,
}

/// One predefined type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Its handle.
    pub handle: Handle,
    /// Its name, as `MPI_Type_get_name` says it.
    pub name: &'static str,
    /// Bytes of data (for a pair: without padding).
    pub size: usize,
    /// Bytes of alignment; the extent is the size rounded up to it.
    pub align: usize,
    /// Reduction class.
    pub class: Class,
    /// Storage of one element.
    pub elem: Elem,
}

impl Basic {
    /// Bytes from one element to the next in an array.
    pub const fn extent(&self) -> usize {
        match self.elem {
            Elem::F80Int => 32,
            _ => self.size.div_ceil(self.align) * self.align,
        }
    }
}

const fn row(
    handle: Handle,
    name: &'static str,
    size: usize,
    align: usize,
    class: Class,
    elem: Elem,
) -> Basic {
    Basic {
        handle,
        name,
        size,
        align,
        class,
        elem,
    }
}

/// All predefined basic types that exist on this platform.
#[rustfmt::skip]
pub const BASICS: [Basic; 69] = [
    row(consts::AINT, "MPI_AINT", 8, 8, Class::Multi, Elem::I64),
    row(consts::COUNT, "MPI_COUNT", 8, 8, Class::Multi, Elem::I64),
    row(consts::OFFSET, "MPI_OFFSET", 8, 8, Class::Multi, Elem::I64),
    row(consts::PACKED, "MPI_PACKED", 1, 1, Class::Packed, Elem::U8),
    row(consts::SHORT, "MPI_SHORT", 2, 2, Class::CInteger, Elem::I16),
    row(consts::INT, "MPI_INT", 4, 4, Class::CInteger, Elem::I32),
    row(consts::LONG, "MPI_LONG", 8, 8, Class::CInteger, Elem::I64),
    row(consts::LONG_LONG, "MPI_LONG_LONG", 8, 8, Class::CInteger, Elem::I64),
    row(consts::UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT", 2, 2, Class::CInteger, Elem::U16),
    row(consts::UNSIGNED, "MPI_UNSIGNED", 4, 4, Class::CInteger, Elem::U32),
    row(consts::UNSIGNED_LONG, "MPI_UNSIGNED_LONG", 8, 8, Class::CInteger, Elem::U64),
    row(consts::UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG", 8, 8, Class::CInteger, Elem::U64),
    row(consts::FLOAT, "MPI_FLOAT", 4, 4, Class::Float, Elem::F32),
    row(consts::C_FLOAT_COMPLEX, "MPI_C_COMPLEX", 8, 4, Class::Complex, Elem::C32),
    row(consts::CXX_FLOAT_COMPLEX, "MPI_CXX_FLOAT_COMPLEX", 8, 4, Class::Complex, Elem::C32),
    row(consts::DOUBLE, "MPI_DOUBLE", 8, 8, Class::Float, Elem::F64),
    row(consts::C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", 16, 8, Class::Complex, Elem::C64),
    row(consts::CXX_DOUBLE_COMPLEX, "MPI_CXX_DOUBLE_COMPLEX", 16, 8, Class::Complex, Elem::C64),
    row(consts::LOGICAL, "MPI_LOGICAL", 4, 4, Class::Logical, Elem::L32),
    row(consts::INTEGER, "MPI_INTEGER", 4, 4, Class::FortranInteger, Elem::I32),
    row(consts::REAL, "MPI_REAL", 4, 4, Class::Float, Elem::F32),
    row(consts::COMPLEX, "MPI_COMPLEX", 8, 4, Class::Complex, Elem::C32),
    row(consts::DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", 8, 8, Class::Float, Elem::F64),
    row(consts::DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 16, 8, Class::Complex, Elem::C64),
    row(consts::CHARACTER, "MPI_CHARACTER", 1, 1, Class::Char, Elem::U8),
    row(consts::LONG_DOUBLE, "MPI_LONG_DOUBLE", 16, 16, Class::Float, Elem::F80),
    row(consts::C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX", 32, 16, Class::Complex, Elem::C80),
    row(consts::CXX_LONG_DOUBLE_COMPLEX, "MPI_CXX_LONG_DOUBLE_COMPLEX", 32, 16, Class::Complex, Elem::C80),
    row(consts::FLOAT_INT, "MPI_FLOAT_INT", 8, 4, Class::Pair, Elem::F32Int),
    row(consts::DOUBLE_INT, "MPI_DOUBLE_INT", 12, 8, Class::Pair, Elem::F64Int),
    row(consts::LONG_INT, "MPI_LONG_INT", 12, 8, Class::Pair, Elem::I64Int),
    row(consts::T_2INT, "MPI_2INT", 8, 4, Class::Pair, Elem::I32Int),
    row(consts::SHORT_INT, "MPI_SHORT_INT", 6, 4, Class::Pair, Elem::I16Int),
    row(consts::LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", 20, 16, Class::Pair, Elem::F80Int),
    row(consts::T_2REAL, "MPI_2REAL", 8, 4, Class::Pair, Elem::F32x2),
    row(consts::T_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", 16, 8, Class::Pair, Elem::F64x2),
    row(consts::T_2INTEGER, "MPI_2INTEGER", 8, 4, Class::Pair, Elem::I32Int),
    row(consts::C_BOOL, "MPI_C_BOOL", 1, 1, Class::Logical, Elem::Bool),
    row(consts::CXX_BOOL, "MPI_CXX_BOOL", 1, 1, Class::Logical, Elem::Bool),
    row(consts::WCHAR, "MPI_WCHAR", 4, 4, Class::Char, Elem::I32),
    row(consts::INT8_T, "MPI_INT8_T", 1, 1, Class::CInteger, Elem::I8),
    row(consts::UINT8_T, "MPI_UINT8_T", 1, 1, Class::CInteger, Elem::U8),
    row(consts::CHAR, "MPI_CHAR", 1, 1, Class::Char, Elem::I8),
    row(consts::SIGNED_CHAR, "MPI_SIGNED_CHAR", 1, 1, Class::CInteger, Elem::I8),
    row(consts::UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR", 1, 1, Class::CInteger, Elem::U8),
    row(consts::BYTE, "MPI_BYTE", 1, 1, Class::Byte, Elem::U8),
    row(consts::INT16_T, "MPI_INT16_T", 2, 2, Class::CInteger, Elem::I16),
    row(consts::UINT16_T, "MPI_UINT16_T", 2, 2, Class::CInteger, Elem::U16),
    row(consts::C_FLOAT16, "MPIX_C_FLOAT16", 2, 2, Class::Float, Elem::F16),
    row(consts::INT32_T, "MPI_INT32_T", 4, 4, Class::CInteger, Elem::I32),
    row(consts::UINT32_T, "MPI_UINT32_T", 4, 4, Class::CInteger, Elem::U32),
    row(consts::INT64_T, "MPI_INT64_T", 8, 8, Class::CInteger, Elem::I64),
    row(consts::UINT64_T, "MPI_UINT64_T", 8, 8, Class::CInteger, Elem::U64),
    row(consts::LOGICAL1, "MPI_LOGICAL1", 1, 1, Class::Logical, Elem::L8),
    row(consts::INTEGER1, "MPI_INTEGER1", 1, 1, Class::FortranInteger, Elem::I8),
    row(consts::LOGICAL2, "MPI_LOGICAL2", 2, 2, Class::Logical, Elem::L16),
    row(consts::INTEGER2, "MPI_INTEGER2", 2, 2, Class::FortranInteger, Elem::I16),
    row(consts::REAL2, "MPI_REAL2", 2, 2, Class::Float, Elem::F16),
    row(consts::LOGICAL4, "MPI_LOGICAL4", 4, 4, Class::Logical, Elem::L32),
    row(consts::INTEGER4, "MPI_INTEGER4", 4, 4, Class::FortranInteger, Elem::I32),
    row(consts::REAL4, "MPI_REAL4", 4, 4, Class::Float, Elem::F32),
    row(consts::COMPLEX4, "MPI_COMPLEX4", 4, 2, Class::Complex, Elem::C16),
    row(consts::LOGICAL8, "MPI_LOGICAL8", 8, 8, Class::Logical, Elem::L64),
    row(consts::INTEGER8, "MPI_INTEGER8", 8, 8, Class::FortranInteger, Elem::I64),
    row(consts::REAL8, "MPI_REAL8", 8, 8, Class::Float, Elem::F64),
    row(consts::COMPLEX8, "MPI_COMPLEX8", 8, 4, Class::Complex, Elem::C32),
    row(consts::REAL16, "MPI_REAL16", 16, 16, Class::Float, Elem::F128),
    row(consts::COMPLEX16, "MPI_COMPLEX16", 16, 8, Class::Complex, Elem::C64),
    row(consts::COMPLEX32, "MPI_COMPLEX32", 32, 16, Class::Complex, Elem::C128),
];

/// The row of a predefined type's handle, or `None` for a null, absent or derived one.
pub fn basic(handle: Handle) -> Option<&'static Basic> {
    BASICS.iter().find(|b| b.handle == handle)
}

/// Optional types of the standard that this platform lacks: they have handles, but their size is
/// `MPI_UNDEFINED`.
pub const ABSENT: [(Handle, &str); 2] = [
    (consts::LOGICAL16, "MPI_LOGICAL16"),
    (consts::INTEGER16, "MPI_INTEGER16"),
];

/// The name of a type that this platform lacks.
pub fn absent(handle: Handle) -> Option<&'static str> {
    let found = ABSENT.iter().find(|(lacking, _)| *lacking == handle);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_size_handles_encode_their_size() {
        for b in BASICS
            .iter()
            .filter(|b| (0x240..0x300).contains(&b.handle.0))
        {
            assert_eq!(b.size, 1 << ((b.handle.0 >> 3) & 7), "{}", b.name);
        }
    }

    #[test]
    fn handles_are_distinct() {
        for (i, a) in BASICS.iter().enumerate() {
            assert!(
                BASICS[..i].iter().all(|b| b.handle != a.handle),
                "{}",
                a.name
            );
        }
    }
}
