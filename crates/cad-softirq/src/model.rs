//! What reductions give, computed by the processor: what the program is compared with.

use crate::layout::{Op, Type};

/// `a op b`, element by element.
pub(crate) fn combined(op: Op, ty: Type, a: &[u8], b: &[u8]) -> Vec<u8> {
    let n = ty.bytes();
    let pairs = a.chunks_exact(n).zip(b.chunks_exact(n));
    pairs.flat_map(|(a, b)| element(op, ty, a, b)).collect()
}

/// Inputs combined in pairs of neighbours, then pairs of pairs.
pub(crate) fn in_pairs(op: Op, ty: Type, mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    while inputs.len() > 1 {
        let pair = |p: &[Vec<u8>]| match p {
            [a, b] => combined(op, ty, a, b),
            _ => p[0].clone(),
        };
        inputs = inputs.chunks(2).map(pair).collect();
    }
    inputs.remove(0)
}

fn element(op: Op, ty: Type, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! integer {
        ($t:ty) => {{
            let a = <$t>::from_le_bytes(a.try_into().unwrap());
            let b = <$t>::from_le_bytes(b.try_into().unwrap());
            let truth = |t: bool| <$t>::from(t as u8 as i8 as $t);
            let c = match op {
                Op::Sum => a.wrapping_add(b),
                Op::Prod => a.wrapping_mul(b),
                Op::Min => a.min(b),
                Op::Max => a.max(b),
                Op::Band => a & b,
                Op::Bor => a | b,
                Op::Bxor => a ^ b,
                Op::Land => truth(a != 0 && b != 0),
                Op::Lor => truth(a != 0 || b != 0),
                Op::Lxor => truth((a != 0) != (b != 0)),
                Op::Barrier | Op::Bcast => unreachable!(),
            };
            c.to_le_bytes().to_vec()
        }};
    }
    match ty {
        Type::I8 => integer!(i8),
        Type::U8 => integer!(u8),
        Type::I16 => integer!(i16),
        Type::U16 => integer!(u16),
        Type::I32 => integer!(i32),
        Type::U32 => integer!(u32),
        Type::I64 => integer!(i64),
        Type::U64 => integer!(u64),
        Type::F32 => {
            let [a, b] = [a, b].map(|x| f32::from_le_bytes(x.try_into().unwrap()));
            let c = match op {
                Op::Min if a < b => a,
                Op::Max if a > b => a,
                Op::Sum => float::sum_32(a, b),
                Op::Prod => float::product_32(a, b),
                _ => b,
            };
            c.to_le_bytes().to_vec()
        }
        Type::F64 => {
            let [a, b] = [a, b].map(|x| f64::from_le_bytes(x.try_into().unwrap()));
            let c = match op {
                Op::Min if a < b => a,
                Op::Max if a > b => a,
                Op::Sum => float::sum_64(a, b),
                Op::Prod => float::product_64(a, b),
                _ => b,
            };
            c.to_le_bytes().to_vec()
        }
    }
}

/// Sums and products by the processor, of operands in this order.
#[cfg(target_arch = "x86_64")]
mod float {
    use std::arch::asm;

    macro_rules! instruction {
        ($name:ident, $t:ty, $text:literal) => {
            pub fn $name(mut a: $t, b: $t) -> $t {
                // SAFETY: every x86-64 processor has this instruction; it uses nothing but its operands.
                unsafe {
                    asm!($text, inout(xmm_reg) a, in(xmm_reg) b, options(pure, nomem, nostack))
                }
                a
            }
        };
    }
    instruction!(sum_32, f32, "addss {}, {}");
    instruction!(sum_64, f64, "addsd {}, {}");
    instruction!(product_32, f32, "mulss {}, {}");
    instruction!(product_64, f64, "mulsd {}, {}");
}

/// The same, but NaNs as the program has them.
#[cfg(not(target_arch = "x86_64"))]
mod float {
    macro_rules! operation {
        ($name:ident, $t:ty, $op:tt, $quiet:expr, $invalid:expr) => {
            pub fn $name(a: $t, b: $t) -> $t {
                match [a, b].into_iter().find(|x| x.is_nan()) {
                    Some(nan) => <$t>::from_bits(nan.to_bits() | $quiet),
                    None if (a $op b).is_nan() => <$t>::from_bits($invalid),
                    None => a $op b,
                }
            }
        };
    }
    operation!(sum_32, f32, +, 1 << 22, 0xffc0_0000);
    operation!(sum_64, f64, +, 1 << 51, 0xfff8_0000_0000_0000);
    operation!(product_32, f32, *, 1 << 22, 0xffc0_0000);
    operation!(product_64, f64, *, 1 << 51, 0xfff8_0000_0000_0000);
}

/// Elements, of which many are small, zero or special.
pub(crate) fn operand(random: &mut impl FnMut() -> u64, ty: Type, count: usize) -> Vec<u8> {
    let mut element = || {
        let bits = match ty {
            Type::F32 => special(random, 32, 23),
            Type::F64 => special(random, 64, 52),
            _ => small(random),
        };
        bits.to_le_bytes()[..ty.bytes()].to_vec()
    };
    (0..count).flat_map(|_| element()).collect()
}

fn small(random: &mut impl FnMut() -> u64) -> u64 {
    let r = random();
    match r % 4 {
        0 => r >> 8 & 3,
        1 => 0_u64.wrapping_sub(r >> 8 & 3),
        _ => random(),
    }
}

/// A floating-point number of any kind: the exponent at either end or near the middle, so that numbers meet, and the fraction
/// of few bits, at one end or all of them, so that they cancel and tie.
fn special(random: &mut impl FnMut() -> u64, bits: u32, fraction: u32) -> u64 {
    let (r, ones) = (random(), (1_u64 << (bits - 1 - fraction)) - 1);
    let exponent = match r % 8 {
        0 => 0,
        1 => ones,
        2 => 1 + (r >> 8) % 3,
        3 => ones - 1 - (r >> 8) % 3,
        4 | 5 => ones / 2 + (r >> 8) % 4,
        6 => ones / 2 + (r >> 8) % 64,
        _ => (r >> 8) & ones,
    };
    let all = (1_u64 << fraction) - 1;
    let low = match (r >> 24) % 6 {
        0 => 0,
        1 => all,
        2 => 1 << ((r >> 32) % u64::from(fraction)),
        3 => (r >> 32) & 7,
        4 => all << ((r >> 32) % 8) & all,
        _ => random() & all,
    };
    (r >> 63) << (bits - 1) | exponent << fraction | low
}
