//! What is done with the elements of one word: `a[i] = a[i] op b[i]`, where `a` is from lower-numbered processes than `b`.
//!
//! The rules are those of crate `op`: integers wrap; the minimum is `a < b ? a : b`; zero is false, everything else true, and a
//! logical result is 0 or 1. Elements are loaded and stored each with its own size, so the order of bytes does not matter.

use super::float;
use crate::asm::{Alu, Asm, Cond, Reg, Reg::*, Size};
use crate::layout::{Op, Type};

/// Whether the elements of this type are combined so by a callback.
pub(super) fn is_there(op: Op, ty: Type) -> bool {
    !matches!(op, Op::Barrier | Op::Bcast) && op.supports(ty)
}

/// The first type whose callback does the same.
pub(super) fn like(op: Op, ty: Type) -> Type {
    let unsigned = match ty {
        Type::I8 => Type::U8,
        Type::I16 => Type::U16,
        Type::I32 => Type::U32,
        Type::I64 => Type::U64,
        other => other,
    };
    match op {
        _ if ty.is_float() => ty,
        Op::Min | Op::Max => ty,
        // Bits do not know whose they are.
        Op::Band | Op::Bor | Op::Bxor => Type::U64,
        _ => unsigned,
    }
}

fn size(ty: Type) -> Size {
    match ty.bytes() {
        1 => Size::B,
        2 => Size::H,
        4 => Size::W,
        _ => Size::D,
    }
}

/// Combines the word at `R4`, as the second operand, with the one at `R3`, into that one. Leaves no register but those as it was.
pub(super) fn word(asm: &mut Asm, op: Op, ty: Type) {
    elements(asm, op, ty, 8, R3);
}

/// Combines so many bytes at `R3`, as the first operands, with those at `R4`, into those at `to`, one of these. Leaves no register but those as it was.
pub(super) fn elements(asm: &mut Asm, op: Op, ty: Type, bytes: usize, to: Reg) {
    for at in (0..bytes).step_by(ty.bytes()) {
        let at = at as i16;
        asm.load(size(ty), R1, R3, at);
        asm.load(size(ty), R2, R4, at);
        element(asm, op, ty);
        asm.store(size(ty), to, at, R1);
    }
}

/// `R1 = R1 op R2`.
fn element(asm: &mut Asm, op: Op, ty: Type) {
    if ty.is_float() {
        return float::element(asm, op, ty);
    }
    match op {
        Op::Barrier | Op::Bcast => {}
        Op::Sum => asm.alu(Alu::Add, R1, R2),
        Op::Prod => asm.alu(Alu::Mul, R1, R2),
        Op::Band => asm.alu(Alu::And, R1, R2),
        Op::Bor => asm.alu(Alu::Or, R1, R2),
        Op::Bxor => asm.alu(Alu::Xor, R1, R2),
        Op::Min | Op::Max => extreme(asm, op, ty),
        Op::Land | Op::Lor | Op::Lxor => {
            truth(asm, R1);
            truth(asm, R2);
            let alu = match op {
                Op::Land => Alu::And,
                Op::Lor => Alu::Or,
                _ => Alu::Xor,
            };
            asm.alu(alu, R1, R2);
        }
    }
}

fn extreme(asm: &mut Asm, op: Op, ty: Type) {
    if ty.is_signed() {
        let above = 64 - 8 * ty.bytes() as i32;
        for reg in [R1, R2] {
            asm.alu(Alu::Lsh, reg, above);
            asm.alu(Alu::Arsh, reg, above);
        }
    }
    let cond = match (op, ty.is_signed()) {
        (Op::Min, true) => Cond::SLt,
        (Op::Min, false) => Cond::Lt,
        (_, true) => Cond::SGt,
        (_, false) => Cond::Gt,
    };
    let keep = asm.label();
    asm.jump_if(cond, R1, R2, keep);
    asm.mov(R1, R2);
    asm.bind(keep);
}

/// `reg` = 1 if it is not 0. Without a jump: the sign of `x | -x`.
fn truth(asm: &mut Asm, reg: Reg) {
    asm.mov(R0, 0);
    asm.alu(Alu::Sub, R0, reg);
    asm.alu(Alu::Or, reg, R0);
    asm.alu(Alu::Rsh, reg, 63);
}
