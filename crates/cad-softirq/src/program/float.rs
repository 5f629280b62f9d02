//! Floating-point numbers by integer arithmetic, as eBPF has no other: sum, minimum, maximum and order of float and double.
//!
//! The sum is IEEE 754's, rounded to nearest, ties to even, exact in every bit, also for subnormal numbers. NaNs are as on x86-64,
//! on every machine: the first operand that is one, made quiet; the sum of opposite infinities is the negative quiet one. The minimum is
//! C's `a < b ? a : b`, which is `b` if one is NaN or both are zeros.

use crate::asm::{Alu, Asm, Cond, Label, Reg, Reg::*};
use crate::layout::{Op, Type};

/// How a format's bits are used.
#[derive(Clone, Copy)]
struct Format {
    bits: i32,
    /// Bits of the fraction.
    fraction: i32,
}

impl Format {
    fn of(ty: Type) -> Format {
        let (bits, fraction) = match ty {
            Type::F32 => (32, 23),
            _ => (64, 52),
        };
        Format { bits, fraction }
    }

    fn infinity(self) -> u64 {
        let exponent = (1 << (self.bits - 1 - self.fraction)) - 1;
        exponent << self.fraction
    }

    /// The bit that makes a NaN quiet.
    fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// `reg` without its sign.
    fn magnitude(self, asm: &mut Asm, reg: Reg) {
        asm.alu(Alu::Lsh, reg, 65 - self.bits);
        asm.alu(Alu::Rsh, reg, 65 - self.bits);
    }
}

/// `R1 = R1 op R2`. Leaves `R3` and `R4` alone.
pub(super) fn element(asm: &mut Asm, op: Op, ty: Type) {
    let format = Format::of(ty);
    match op {
        Op::Sum => sum(asm, format),
        Op::Min => extreme(asm, format, Cond::SLt),
        Op::Max => extreme(asm, format, Cond::SGt),
        _ => {}
    }
}

/// `R1 = R1 - R2`. Leaves `R3` and `R4` alone.
pub(super) fn difference(asm: &mut Asm, ty: Type) {
    negate(asm, ty, R2);
    sum(asm, Format::of(ty));
}

/// Turns the sign of `reg`. Uses `R0`.
pub(super) fn negate(asm: &mut Asm, ty: Type, reg: Reg) {
    asm.wide(R0, Format::of(ty).sign());
    asm.alu(Alu::Xor, reg, R0);
}

/// `reg` without its sign.
pub(super) fn magnitude(asm: &mut Asm, ty: Type, reg: Reg) {
    Format::of(ty).magnitude(asm, reg);
}

/// Goes to `holds` if `R1 cond R2`, with signs, and else to `not`, also where one is NaN. Leaves `R1` to `R4` alone.
pub(super) fn compare(asm: &mut Asm, ty: Type, cond: Cond, holds: Label, not: Label) {
    order(asm, Format::of(ty), not);
    asm.jump_if(cond, R5, R6, holds);
    asm.jump(not);
}

/// `R1 = R1 better R2 ? R1 : R2`.
fn extreme(asm: &mut Asm, format: Format, better: Cond) {
    let (first, second) = (asm.label(), asm.label());
    order(asm, format, second);
    asm.jump_if(better, R5, R6, first);
    asm.bind(second);
    asm.mov(R1, R2);
    asm.bind(first);
}

/// `R5` and `R6` = integers with signs in the order of `R1` and `R2`, unless one is NaN. Uses `R0` and `R7`.
fn order(asm: &mut Asm, format: Format, unordered: Label) {
    asm.wide(R0, format.infinity());
    for (number, magnitude) in [(R1, R5), (R2, R6)] {
        asm.mov(magnitude, number);
        format.magnitude(asm, magnitude);
        asm.jump_if(Cond::Gt, magnitude, R0, unordered);
        // As a number with a sign, whose order is the same: there is one zero.
        let positive = asm.label();
        asm.mov(R7, number);
        asm.alu(Alu::Rsh, R7, format.bits - 1);
        asm.jump_if(Cond::Eq, R7, 0, positive);
        asm.mov(R7, 0);
        asm.alu(Alu::Sub, R7, magnitude);
        asm.mov(magnitude, R7);
        asm.bind(positive);
    }
}

/// `R1 = R1 + R2`: specials, then alignment, sum, normalisation and rounding. Three more bits are carried along: two that may
/// matter for rounding, and one that says whether anything beyond them isn't 0.
fn sum(asm: &mut Asm, format: Format) {
    let done = asm.label();
    specials(asm, format, done);
    align(asm, format);
    add(asm, done);
    normalise(asm, format);
    round(asm, format);
    asm.bind(done);
}

/// Falls through with finite numbers, the one of greater magnitude in `R1`, the magnitudes in `R5` and `R6`.
fn specials(asm: &mut Asm, format: Format, done: Label) {
    let (second, ordered, finite) = (asm.label(), asm.label(), asm.label());
    asm.mov(R5, R1);
    format.magnitude(asm, R5);
    asm.mov(R6, R2);
    format.magnitude(asm, R6);
    asm.wide(R0, format.infinity());
    asm.jump_if(Cond::Le, R5, R0, second);
    asm.wide(R0, format.quiet());
    asm.alu(Alu::Or, R1, R0);
    asm.jump(done);
    asm.bind(second);
    let numbers = asm.label();
    asm.jump_if(Cond::Le, R6, R0, numbers);
    asm.wide(R0, format.quiet());
    asm.mov(R1, R2);
    asm.alu(Alu::Or, R1, R0);
    asm.jump(done);
    asm.bind(numbers);
    asm.jump_if(Cond::Ge, R5, R6, ordered);
    for (a, b) in [(R1, R2), (R5, R6)] {
        asm.mov(R7, a);
        asm.mov(a, b);
        asm.mov(b, R7);
    }
    asm.bind(ordered);
    asm.jump_if(Cond::Ne, R5, R0, finite);
    // Infinite: the sum is that, unless the other is the opposite.
    asm.jump_if(Cond::Ne, R6, R0, done);
    asm.jump_if(Cond::Eq, R1, R2, done);
    asm.wide(R1, format.sign() | format.infinity() | format.quiet());
    asm.jump(done);
    asm.bind(finite);
}

/// Leaves the sign of the greater one in `R1`, whether to subtract in `R7`, its exponent in `R8`, and both significands, with three
/// bits more, in `R5` and `R6`.
fn align(asm: &mut Asm, format: Format) {
    asm.mov(R7, R1);
    asm.alu(Alu::Xor, R7, R2);
    asm.alu(Alu::Rsh, R7, format.bits - 1);
    asm.alu(Alu::Rsh, R1, format.bits - 1);
    asm.alu(Alu::Lsh, R1, format.bits - 1);
    for (significand, exponent) in [(R5, R8), (R6, R9)] {
        let (subnormal, whole) = (asm.label(), asm.label());
        asm.mov(exponent, significand);
        asm.alu(Alu::Rsh, exponent, format.fraction);
        asm.jump_if(Cond::Eq, exponent, 0, subnormal);
        // The exponent goes, the leading one that isn't written comes.
        asm.mov(R0, exponent);
        asm.alu(Alu::Sub, R0, 1);
        asm.alu(Alu::Lsh, R0, format.fraction);
        asm.alu(Alu::Sub, significand, R0);
        asm.jump(whole);
        asm.bind(subnormal);
        asm.mov(exponent, 1);
        asm.bind(whole);
        asm.alu(Alu::Lsh, significand, 3);
    }
    let (near, exact) = (asm.label(), asm.label());
    asm.mov(R0, R8);
    asm.alu(Alu::Sub, R0, R9);
    // Beyond this nothing is left of it anyway.
    asm.jump_if(Cond::Le, R0, 62, near);
    asm.mov(R0, 62);
    asm.bind(near);
    asm.mov(R2, R6);
    asm.alu(Alu::Rsh, R6, R0);
    asm.mov(R9, R6);
    asm.alu(Alu::Lsh, R9, R0);
    asm.jump_if(Cond::Eq, R9, R2, exact);
    asm.alu(Alu::Or, R6, 1);
    asm.bind(exact);
}

/// `R5` = the sum's significand. A zero is the end: positive, unless both are negative.
fn add(asm: &mut Asm, done: Label) {
    let (subtract, sum, something) = (asm.label(), asm.label(), asm.label());
    asm.jump_if(Cond::Ne, R7, 0, subtract);
    asm.alu(Alu::Add, R5, R6);
    asm.jump(sum);
    asm.bind(subtract);
    asm.alu(Alu::Sub, R5, R6);
    asm.bind(sum);
    asm.jump_if(Cond::Ne, R5, 0, something);
    asm.jump_if(Cond::Eq, R7, 0, done);
    asm.mov(R1, 0);
    asm.jump(done);
    asm.bind(something);
}

/// Brings the leading one to its place, as far as the exponent allows.
fn normalise(asm: &mut Asm, format: Format) {
    let (short, end) = (asm.label(), asm.label());
    let width = format.fraction + 4;
    asm.mov(R0, R5);
    asm.alu(Alu::Rsh, R0, width);
    asm.jump_if(Cond::Eq, R0, 0, short);
    asm.mov(R0, R5);
    asm.alu(Alu::And, R0, 1);
    asm.alu(Alu::Rsh, R5, 1);
    asm.alu(Alu::Or, R5, R0);
    asm.alu(Alu::Add, R8, 1);
    asm.jump(end);
    asm.bind(short);
    for by in [32, 16, 8, 4, 2, 1].into_iter().filter(|&by| by < width) {
        let next = asm.label();
        asm.mov(R0, R5);
        asm.alu(Alu::Rsh, R0, width - by);
        asm.jump_if(Cond::Ne, R0, 0, next);
        asm.jump_if(Cond::Le, R8, by, next);
        asm.alu(Alu::Lsh, R5, by);
        asm.alu(Alu::Sub, R8, by);
        asm.bind(next);
    }
    asm.bind(end);
}

/// Rounds to nearest, ties to even, and puts the number together. A significand that becomes too long by that makes the exponent one
/// more by itself.
fn round(asm: &mut Asm, format: Format) {
    let (down, up, finite) = (asm.label(), asm.label(), asm.label());
    asm.mov(R0, R5);
    asm.alu(Alu::And, R0, 7);
    asm.alu(Alu::Rsh, R5, 3);
    asm.jump_if(Cond::Lt, R0, 4, down);
    asm.jump_if(Cond::Gt, R0, 4, up);
    asm.mov(R0, R5);
    asm.alu(Alu::And, R0, 1);
    asm.jump_if(Cond::Eq, R0, 0, down);
    asm.bind(up);
    asm.alu(Alu::Add, R5, 1);
    asm.bind(down);
    // The leading one, where there is one, adds the last 1 to the exponent.
    asm.alu(Alu::Sub, R8, 1);
    asm.alu(Alu::Lsh, R8, format.fraction);
    asm.alu(Alu::Add, R5, R8);
    asm.wide(R0, format.infinity());
    asm.jump_if(Cond::Lt, R5, R0, finite);
    asm.mov(R5, R0);
    asm.bind(finite);
    asm.alu(Alu::Or, R1, R5);
}
