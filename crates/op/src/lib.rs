//! The predefined reduction operations: which types each is defined on, and the kernels; and byte code on the same buffers.
//!
//! Who calls it: the engine, for reductions (collectives, accumulates, `MPI_Reduce_local`). All
//! kernels compute `inout[i] = in[i] op inout[i]`. `unsafe` is confined to the kernel modules and `program`; the
//! addresses come as [`UserBuf`], whose maker vouches for them.
//!
//! Rules kept by all kernels: integers wrap; minimum and maximum are C's `a < b ? a : b` and
//! `a > b ? a : b` with `a` from `in`, also for NaN; equal values in MINLOC and MAXLOC give the
//! lower location; zero is false and everything else true, and a logical result is 0 or 1 (also
//! for Fortran's `LOGICAL`, where 1 is `.TRUE.` of gfortran and flang). Half precision is computed
//! in single and rounded to the nearest half.

mod extended;
mod half;
mod kernels;
mod program;

pub use program::apply_program;

use boundary::UserBuf;
use types::basic::{Basic, Class, Elem};
use types::{Handle, consts};

/// A predefined operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `MPI_MAX`.
    Max,
    /// `MPI_MIN`.
    Min,
    /// `MPI_SUM`.
    Sum,
    /// `MPI_PROD`.
    Prod,
    /// `MPI_LAND`.
    Land,
    /// `MPI_BAND`.
    Band,
    /// `MPI_LOR`.
    Lor,
    /// `MPI_BOR`.
    Bor,
    /// `MPI_LXOR`.
    Lxor,
    /// `MPI_BXOR`.
    Bxor,
    /// `MPI_MAXLOC`.
    Maxloc,
    /// `MPI_MINLOC`.
    Minloc,
    /// `MPI_REPLACE`: of accumulates only.
    Replace,
    /// `MPI_NO_OP`: of accumulates only.
    NoOp,
}

/// Operations, handles and names.
const TABLE: [(Builtin, Handle, &str); 14] = [
    (Builtin::Max, consts::MAX, "MPI_MAX"),
    (Builtin::Min, consts::MIN, "MPI_MIN"),
    (Builtin::Sum, consts::SUM, "MPI_SUM"),
    (Builtin::Prod, consts::PROD, "MPI_PROD"),
    (Builtin::Land, consts::LAND, "MPI_LAND"),
    (Builtin::Band, consts::BAND, "MPI_BAND"),
    (Builtin::Lor, consts::LOR, "MPI_LOR"),
    (Builtin::Bor, consts::BOR, "MPI_BOR"),
    (Builtin::Lxor, consts::LXOR, "MPI_LXOR"),
    (Builtin::Bxor, consts::BXOR, "MPI_BXOR"),
    (Builtin::Maxloc, consts::MAXLOC, "MPI_MAXLOC"),
    (Builtin::Minloc, consts::MINLOC, "MPI_MINLOC"),
    (Builtin::Replace, consts::REPLACE, "MPI_REPLACE"),
    (Builtin::NoOp, consts::NO_OP, "MPI_NO_OP"),
];

impl Builtin {
    /// All of them, in the standard's order.
    pub fn all() -> impl Iterator<Item = Builtin> {
        TABLE.iter().map(|row| row.0)
    }

    /// The operation of a handle; `None` for `MPI_OP_NULL` and user-defined operations.
    pub fn from_handle(handle: Handle) -> Option<Builtin> {
        TABLE.iter().find(|row| row.1 == handle).map(|row| row.0)
    }

    /// Its handle.
    pub fn handle(self) -> Handle {
        TABLE[self as usize].1
    }

    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// What `MPI_Op_commutative` says: all but `MPI_REPLACE` and `MPI_NO_OP`.
    pub fn commutes(self) -> bool {
        !self.accumulate_only()
    }

    /// Whether only the accumulate functions of one-sided communication may use it.
    pub fn accumulate_only(self) -> bool {
        matches!(self, Builtin::Replace | Builtin::NoOp)
    }
}

/// Whether the standard defines `op` on a type (section 6.9.2; for [`Builtin::Replace`] and
/// [`Builtin::NoOp`], which reductions don't allow, in accumulates).
pub fn supports(op: Builtin, ty: &Basic) -> bool {
    use Class::{Byte, CInteger, Complex, Float, FortranInteger, Logical, Multi, Pair};
    // The standard leaves MPI_CHAR out, and integers of Fortran and addresses of the logical operations; MPICH has them, and programs use them.
    let class = match ty.handle {
        consts::CHAR => CInteger,
        _ => ty.class,
    };
    match op {
        Builtin::Max | Builtin::Min => {
            matches!(class, CInteger | FortranInteger | Float | Multi)
        }
        Builtin::Sum | Builtin::Prod => {
            matches!(class, CInteger | FortranInteger | Float | Complex | Multi)
        }
        Builtin::Land | Builtin::Lor | Builtin::Lxor => {
            matches!(class, CInteger | FortranInteger | Multi | Logical)
        }
        Builtin::Band | Builtin::Bor | Builtin::Bxor => {
            matches!(class, CInteger | FortranInteger | Byte | Multi)
        }
        Builtin::Maxloc | Builtin::Minloc => class == Pair,
        Builtin::Replace | Builtin::NoOp => true,
    }
}

/// `to[i] = a[i] op b[i]` on so many consecutive elements at unaligned addresses.
///
/// # Safety
/// So many elements are readable at `a` and `b` and writable at `to`, which is `b` or overlaps neither.
type Raw = unsafe fn(a: *const u8, b: *const u8, to: *mut u8, n: usize);

/// The kernel of one operation on one type, looked up once and applied many times.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    raw: Raw,
    /// Elements of the raw kernel per element (2 for the sum of complex numbers).
    lanes: usize,
}

impl Kernel {
    /// `inout[i] = input[i] op inout[i]` for `count` elements, each at its type's extent. The two
    /// arrays do not overlap, or are the same.
    #[inline]
    pub fn apply(&self, input: UserBuf, inout: UserBuf, count: u64) {
        self.combine(input, inout, inout, count);
    }

    /// `to[i] = a[i] op b[i]`, where `to` overlaps neither of the two or is `b`.
    #[inline]
    pub fn combine(&self, a: UserBuf, b: UserBuf, to: UserBuf, count: u64) {
        let n = count as usize * self.lanes;
        if n > 0 {
            // SAFETY: the makers of the buffers promised `count` elements of the kernel's type
            // there, readable and, at `to`, writable; kernels need no alignment.
            unsafe { (self.raw)(a.as_mut_ptr(), b.as_mut_ptr(), to.as_mut_ptr(), n) }
        }
    }
}

/// The kernel of `op` on elements stored as `elem`; there is one wherever [`supports`] holds.
pub fn kernel(op: Builtin, elem: Elem) -> Option<Kernel> {
    if op == Builtin::Replace {
        return Some(Kernel {
            raw: kernels::COPY,
            lanes: stride(elem),
        });
    }
    if op == Builtin::NoOp {
        return Some(Kernel {
            raw: kernels::COPY,
            lanes: 0,
        });
    }
    let (raw, lanes) = match (op, elem) {
        (Builtin::Sum, Elem::C16) => (kernels::find(op, Elem::F16), 2),
        (Builtin::Sum, Elem::C32) => (kernels::find(op, Elem::F32), 2),
        (Builtin::Sum, Elem::C64) => (kernels::find(op, Elem::F64), 2),
        (Builtin::Sum, Elem::C80) => (extended::find(op, Elem::F80), 2),
        (Builtin::Sum, Elem::C128) => (extended::find(op, Elem::F128), 2),
        (_, Elem::F80 | Elem::C80 | Elem::F80Int | Elem::F128 | Elem::C128) => {
            (extended::find(op, elem), 1)
        }
        _ => (kernels::find(op, elem), 1),
    };
    raw.map(|raw| Kernel { raw, lanes })
}

/// Bytes from one element to the next.
fn stride(elem: Elem) -> usize {
    match elem {
        Elem::U8 | Elem::I8 | Elem::Bool | Elem::L8 => 1,
        Elem::I16 | Elem::U16 | Elem::L16 | Elem::F16 => 2,
        Elem::I32 | Elem::U32 | Elem::F32 | Elem::L32 | Elem::C16 => 4,
        Elem::I64 | Elem::U64 | Elem::F64 | Elem::L64 | Elem::C32 => 8,
        Elem::F32Int | Elem::I32Int | Elem::I16Int | Elem::F32x2 => 8,
        Elem::C64 | Elem::F80 | Elem::F128 => 16,
        Elem::F64Int | Elem::I64Int | Elem::F64x2 => 16,
        Elem::C80 | Elem::C128 | Elem::F80Int => 32,
    }
}

/// `inout[i] = input[i] op inout[i]` for `count` elements of a type that `op` [`supports`].
///
/// # Panics
/// If there is no such kernel: the caller checks [`supports`] when it checks its arguments.
pub fn apply(op: Builtin, elem: Elem, input: UserBuf, inout: UserBuf, count: u64) {
    match kernel(op, elem) {
        Some(kernel) => kernel.apply(input, inout, count),
        None => panic!("{} is not defined on {elem:?}", op.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::basic::BASICS;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, op) in Builtin::all().enumerate() {
            assert_eq!(i, op as usize);
            assert_eq!(Builtin::from_handle(op.handle()), Some(op));
        }
        assert_eq!(Builtin::from_handle(consts::OP_NULL), None);
    }

    #[test]
    fn what_is_supported_has_a_kernel() {
        for ty in &BASICS {
            assert_eq!(stride(ty.elem), ty.extent(), "{}", ty.name);
            for op in Builtin::all().filter(|&op| supports(op, ty)) {
                assert!(
                    kernel(op, ty.elem).is_some(),
                    "{} on {}",
                    op.name(),
                    ty.name
                );
            }
        }
    }
}
