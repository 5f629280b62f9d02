//! Floating-point numbers by integer arithmetic, as eBPF has no other: sum, product, minimum, maximum and order of float and double.
//!
//! Sum and product are IEEE 754's, rounded to nearest, ties to even, exact in every bit, also for subnormal numbers. NaNs are as on x86-64,
//! on every machine: the first operand that is one, made quiet; the sum of opposite infinities, and the product of one and 0, is the negative quiet one. The minimum is
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

    /// What is added to an exponent where it is written.
    fn bias(self) -> i32 {
        (1 << (self.bits - 2 - self.fraction)) - 1
    }

    /// NaN that comes of numbers.
    fn invalid(self) -> u64 {
        self.sign() | self.infinity() | self.quiet()
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
        Op::Prod => product(asm, format),
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
    let (ordered, finite) = (asm.label(), asm.label());
    numbers(asm, format, done);
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
    asm.wide(R1, format.invalid());
    asm.jump(done);
    asm.bind(finite);
}

/// Falls through if neither is NaN, with the magnitudes in `R5` and `R6`, and infinity in `R0`.
fn numbers(asm: &mut Asm, format: Format, done: Label) {
    let (second, numbers) = (asm.label(), asm.label());
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
    asm.jump_if(Cond::Le, R6, R0, numbers);
    asm.wide(R0, format.quiet());
    asm.mov(R1, R2);
    asm.alu(Alu::Or, R1, R0);
    asm.jump(done);
    asm.bind(numbers);
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
    asm.mov(R0, R8);
    asm.alu(Alu::Sub, R0, R9);
    shift(asm, R6);
}

/// Shifts a significand down by what is in `R0`; its last bit says whether anything is lost. Uses `R2` and `R9`.
fn shift(asm: &mut Asm, significand: Reg) {
    let (near, exact) = (asm.label(), asm.label());
    // Beyond this nothing is left of it anyway.
    asm.jump_if(Cond::Le, R0, 62, near);
    asm.mov(R0, 62);
    asm.bind(near);
    asm.mov(R2, significand);
    asm.alu(Alu::Rsh, significand, R0);
    asm.mov(R9, significand);
    asm.alu(Alu::Lsh, R9, R0);
    asm.jump_if(Cond::Eq, R9, R2, exact);
    asm.alu(Alu::Or, significand, 1);
    asm.bind(exact);
}

/// `R1 = R1 * R2`: specials, then both significands with their leading ones in the same place, their product, which is cut to as many bits
/// as `round` takes, and what is subnormal shifted to where it belongs.
fn product(asm: &mut Asm, format: Format) {
    let done = asm.label();
    numbers(asm, format, done);
    factors(asm, format, done);
    for (significand, exponent) in [(R5, R8), (R6, R9)] {
        lead(asm, format, significand, exponent);
    }
    asm.alu(Alu::Add, R8, R9);
    asm.alu(Alu::Sub, R8, format.bias());
    multiply(asm, format);
    let (short, normal) = (asm.label(), asm.label());
    asm.mov(R0, R5);
    asm.alu(Alu::Rsh, R0, format.fraction + 4);
    asm.jump_if(Cond::Eq, R0, 0, short);
    // What is above is 1.
    asm.alu(Alu::Add, R8, 1);
    shift(asm, R5);
    asm.bind(short);
    asm.jump_if(Cond::SGe, R8, 1, normal);
    asm.mov(R0, 1);
    asm.alu(Alu::Sub, R0, R8);
    shift(asm, R5);
    asm.mov(R8, 1);
    asm.bind(normal);
    round(asm, format);
    asm.bind(done);
}

/// Falls through with finite magnitudes that are not 0 in `R5` and `R6`, and the product's sign in `R1`; takes infinity in `R0`.
fn factors(asm: &mut Asm, format: Format, done: Label) {
    let (infinite, invalid, finite) = (asm.label(), asm.label(), asm.label());
    asm.alu(Alu::Xor, R1, R2);
    asm.alu(Alu::Rsh, R1, format.bits - 1);
    asm.alu(Alu::Lsh, R1, format.bits - 1);
    asm.jump_if(Cond::Eq, R5, R0, infinite);
    asm.jump_if(Cond::Eq, R6, R0, infinite);
    // A zero with the sign.
    asm.jump_if(Cond::Eq, R5, 0, done);
    asm.jump_if(Cond::Ne, R6, 0, finite);
    asm.jump(done);
    asm.bind(infinite);
    asm.jump_if(Cond::Eq, R5, 0, invalid);
    asm.jump_if(Cond::Eq, R6, 0, invalid);
    asm.alu(Alu::Or, R1, R0);
    asm.jump(done);
    asm.bind(invalid);
    asm.wide(R1, format.invalid());
    asm.jump(done);
    asm.bind(finite);
}

/// Makes of a magnitude its significand, with the leading one above the fraction, and its exponent, which may be below 1. Uses `R0` and `R2`.
fn lead(asm: &mut Asm, format: Format, significand: Reg, exponent: Reg) {
    let (subnormal, end) = (asm.label(), asm.label());
    asm.mov(exponent, significand);
    asm.alu(Alu::Rsh, exponent, format.fraction);
    asm.jump_if(Cond::Eq, exponent, 0, subnormal);
    asm.mov(R0, exponent);
    asm.alu(Alu::Sub, R0, 1);
    asm.alu(Alu::Lsh, R0, format.fraction);
    asm.alu(Alu::Sub, significand, R0);
    asm.jump(end);
    asm.bind(subnormal);
    asm.mov(exponent, 1);
    let steps = [32, 16, 8, 4, 2, 1].into_iter();
    for by in steps.filter(|&by| by <= format.fraction) {
        asm.mov(R0, significand);
        asm.alu(Alu::Rsh, R0, format.fraction + 1 - by);
        // By that much if nothing is up there, without a jump: the sign of `x | -x`. Else the kernel's verifier would go each way through the
        // steps of both factors, forty times as far as through all the rest.
        asm.mov(R2, 0);
        asm.alu(Alu::Sub, R2, R0);
        asm.alu(Alu::Or, R2, R0);
        asm.alu(Alu::Arsh, R2, 63);
        asm.alu(Alu::Xor, R2, -1);
        asm.alu(Alu::And, R2, by);
        asm.alu(Alu::Lsh, significand, R2);
        asm.alu(Alu::Sub, exponent, R2);
    }
    asm.bind(end);
}

/// `R5` = the product of the significands `R5` and `R6`, whose leading one is 3 or 4 bits above the fraction; its last bit says
/// whether anything is cut off. That is the upper half of 128 bits, once the factors are shifted up.
fn multiply(asm: &mut Asm, format: Format) {
    let (up, exact) = (67 - format.fraction, asm.label());
    let low = |asm: &mut Asm, reg| {
        asm.alu(Alu::Lsh, reg, 32);
        asm.alu(Alu::Rsh, reg, 32);
    };
    asm.alu(Alu::Lsh, R5, up / 2);
    asm.alu(Alu::Lsh, R6, up - up / 2);
    asm.mov(R0, R5);
    asm.alu(Alu::Mul, R0, R6);
    asm.mov(R2, R5);
    low(asm, R2);
    asm.alu(Alu::Rsh, R5, 32);
    asm.mov(R7, R6);
    low(asm, R7);
    asm.alu(Alu::Rsh, R6, 32);
    asm.mov(R9, R2);
    asm.alu(Alu::Mul, R9, R7);
    asm.alu(Alu::Rsh, R9, 32);
    asm.alu(Alu::Mul, R7, R5);
    asm.alu(Alu::Mul, R2, R6);
    asm.alu(Alu::Mul, R5, R6);
    for middle in [R7, R2] {
        asm.mov(R6, middle);
        low(asm, R6);
        asm.alu(Alu::Add, R9, R6);
        asm.alu(Alu::Rsh, middle, 32);
        asm.alu(Alu::Add, R5, middle);
    }
    asm.alu(Alu::Rsh, R9, 32);
    asm.alu(Alu::Add, R5, R9);
    asm.jump_if(Cond::Eq, R0, 0, exact);
    asm.alu(Alu::Or, R5, 1);
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
