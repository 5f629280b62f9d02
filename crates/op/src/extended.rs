//! The kernels of `longdouble.c`: x87 extended and binary128 numbers.

use crate::{Builtin, Raw};
use types::basic::Elem;

unsafe extern "C" {
    fn yamabiko_op_f80_max(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_min(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_sum(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_prod(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_complex_prod(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_maxloc(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f80_minloc(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f128_max(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f128_min(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f128_sum(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f128_prod(input: *const u8, inout: *mut u8, n: usize);
    fn yamabiko_op_f128_complex_prod(input: *const u8, inout: *mut u8, n: usize);
}

/// Gives a C function the calling convention of a [`Raw`] kernel.
macro_rules! raw {
    ($c:ident, $bytes:literal) => {{
        unsafe fn call(a: *const u8, b: *const u8, to: *mut u8, n: usize) {
            // SAFETY: the contract of `Raw`: `n` elements of so many bytes at all addresses, any alignment, as the C function
            // wants it.
            unsafe {
                if b != to {
                    std::ptr::copy_nonoverlapping(b, to, n * $bytes);
                }
                $c(a, to, n)
            }
        }
        call
    }};
}

/// The kernel for one of the types that only C has.
pub(crate) fn find(op: Builtin, elem: Elem) -> Option<Raw> {
    Some(match (elem, op) {
        (Elem::F80, Builtin::Max) => raw!(yamabiko_op_f80_max, 16),
        (Elem::F80, Builtin::Min) => raw!(yamabiko_op_f80_min, 16),
        (Elem::F80, Builtin::Sum) => raw!(yamabiko_op_f80_sum, 16),
        (Elem::F80, Builtin::Prod) => raw!(yamabiko_op_f80_prod, 16),
        (Elem::C80, Builtin::Prod) => raw!(yamabiko_op_f80_complex_prod, 32),
        (Elem::F80Int, Builtin::Maxloc) => raw!(yamabiko_op_f80_maxloc, 32),
        (Elem::F80Int, Builtin::Minloc) => raw!(yamabiko_op_f80_minloc, 32),
        (Elem::F128, Builtin::Max) => raw!(yamabiko_op_f128_max, 16),
        (Elem::F128, Builtin::Min) => raw!(yamabiko_op_f128_min, 16),
        (Elem::F128, Builtin::Sum) => raw!(yamabiko_op_f128_sum, 16),
        (Elem::F128, Builtin::Prod) => raw!(yamabiko_op_f128_prod, 16),
        (Elem::C128, Builtin::Prod) => raw!(yamabiko_op_f128_complex_prod, 32),
        _ => return None,
    })
}
