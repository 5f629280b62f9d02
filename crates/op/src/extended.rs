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
    ($c:ident) => {{
        unsafe fn call(input: *const u8, inout: *mut u8, n: usize) {
            // SAFETY: the contract of `Raw` is that of the C function: `n` elements at both
            // addresses, any alignment.
            unsafe { $c(input, inout, n) }
        }
        call
    }};
}

/// The kernel for one of the types that only C has.
pub(crate) fn find(op: Builtin, elem: Elem) -> Option<Raw> {
    Some(match (elem, op) {
        (Elem::F80, Builtin::Max) => raw!(yamabiko_op_f80_max),
        (Elem::F80, Builtin::Min) => raw!(yamabiko_op_f80_min),
        (Elem::F80, Builtin::Sum) => raw!(yamabiko_op_f80_sum),
        (Elem::F80, Builtin::Prod) => raw!(yamabiko_op_f80_prod),
        (Elem::C80, Builtin::Prod) => raw!(yamabiko_op_f80_complex_prod),
        (Elem::F80Int, Builtin::Maxloc) => raw!(yamabiko_op_f80_maxloc),
        (Elem::F80Int, Builtin::Minloc) => raw!(yamabiko_op_f80_minloc),
        (Elem::F128, Builtin::Max) => raw!(yamabiko_op_f128_max),
        (Elem::F128, Builtin::Min) => raw!(yamabiko_op_f128_min),
        (Elem::F128, Builtin::Sum) => raw!(yamabiko_op_f128_sum),
        (Elem::F128, Builtin::Prod) => raw!(yamabiko_op_f128_prod),
        (Elem::C128, Builtin::Prod) => raw!(yamabiko_op_f128_complex_prod),
        _ => return None,
    })
}
