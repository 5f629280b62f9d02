//! The extensions of `include/yamabiko.h`.

use crate::abi::prelude::*;

/// An operation of byte code.
///
/// # Safety
/// `code` is null or has `bytes` bytes; `op` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn yamabiko_op_create_bytecode(
    code: *const c_void,
    bytes: usize,
    commute: i32,
    op: *mut Op,
) -> i32 {
    entry::call! { "yamabiko_op_create_bytecode" Running [] |e|
    api::op::op_create_bytecode(e, plain_address(code), bytes, commute != 0, &mut *handle_out(op, "op")?) }
}
