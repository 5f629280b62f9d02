//! IEEE binary16, which Rust and the C compilers in use don't have on every processor: kept as its
//! bits, computed in single precision. Only the kernels use it.
//!
//! Both conversions are free of branches, so that the kernels' loops are vectorised, and neither
//! takes or makes a subnormal single, which a program may have told the processor to flush to zero.

/// The bits of a binary16.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub(crate) struct Half(u16);

/// Bits of a single's fraction that a half lacks.
const EXTRA: u32 = 23 - 10;
/// Difference of the exponents' biases, in place in a single.
const REBIAS: u32 = (127 - 15) << 23;
/// The exponent of infinities and NaNs: in a single, and a half's moved to where a single's is.
const SPECIAL: (u32, u32) = (0xff << 23, 0x1f << 23);
/// The least normal half, 2^-14, as a single.
const LEAST_NORMAL: u32 = 113 << 23;

impl Half {
    /// Its value, which a single holds exactly. A NaN keeps its bits.
    #[inline(always)]
    pub(crate) fn single(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let magnitude = u32::from(self.0 & 0x7fff) << EXTRA;
        // 2^-14 * (1 + fraction) less 2^-14.
        let subnormal = f32::from_bits(LEAST_NORMAL + magnitude) - f32::from_bits(LEAST_NORMAL);
        let bits = if magnitude >= SPECIAL.1 {
            SPECIAL.0 | magnitude
        } else if magnitude < 1 << 23 {
            subnormal.to_bits()
        } else {
            magnitude + REBIAS
        };
        f32::from_bits(sign | bits)
    }

    /// The nearest half; of two equally near the even one. A NaN keeps the head of its payload and
    /// is quiet.
    #[inline(always)]
    pub(crate) fn nearest(value: f32) -> Half {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let nan = 0x7e00 | magnitude >> EXTRA & 0x1ff;
        // One bit of a single around 1/2 is 2^-24, which is one bit of a subnormal half: adding 1/2
        // makes the processor round there.
        const HALF: u32 = 126 << 23;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(HALF))
            .to_bits()
            .wrapping_sub(HALF);
        // Not quite half of the last place, and the rest of it if that is odd. A carry goes into the
        // exponent, as it should; that of the greatest makes an infinity.
        let odd = magnitude >> EXTRA & 1;
        let normal = magnitude
            .wrapping_sub(REBIAS)
            .wrapping_add((1 << (EXTRA - 1)) - 1 + odd)
            >> EXTRA;
        let half = if magnitude > SPECIAL.0 {
            nan
        } else if magnitude >= SPECIAL.1 + REBIAS {
            0x7c00
        } else if magnitude < LEAST_NORMAL {
            subnormal
        } else {
            normal
        };
        Half((bits >> 16 & 0x8000 | half) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builtin, apply};
    use boundary::UserBuf;
    use std::cmp::Ordering;
    use types::basic::Elem;

    /// The value of finite bits, from the format's definition.
    fn value(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        if bits >> 15 == 1 {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The finite halves that aren't negative, in order, and the bound that rounding takes for the
    /// next one.
    fn all() -> Vec<f64> {
        (0..=0x7c00).map(value).collect()
    }

    /// The nearest half of a number, by search among all.
    fn oracle(all: &[f64], x: f64) -> u16 {
        let sign = u16::from(x.is_sign_negative()) << 15;
        let above = all.partition_point(|&half| half < x.abs());
        let nearest = match above {
            0 => 0,
            0x7c01.. => 0x7c00,
            _ => match (x.abs() - all[above - 1]).total_cmp(&(all[above] - x.abs())) {
                Ordering::Less => above - 1,
                Ordering::Greater => above,
                Ordering::Equal => above - above % 2,
            },
        };
        sign | nearest as u16
    }

    #[test]
    fn every_half_becomes_a_single_and_a_half_again() {
        for bits in 0..=u16::MAX {
            let single = Half(bits).single();
            let again = Half::nearest(single).0;
            match bits & 0x7fff {
                0..0x7c00 => {
                    assert_eq!(f64::from(single).to_bits(), value(bits).to_bits());
                    assert_eq!(again, bits);
                }
                0x7c00 => {
                    assert!(single.is_infinite() && again == bits);
                    assert_eq!(single.is_sign_negative(), bits >> 15 == 1);
                }
                _ => assert!(single.is_nan() && again == bits | 0x200, "{bits:#x}"),
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest() {
        let all = all();
        for pair in all.windows(2) {
            for x in [pair[0], (pair[0] + pair[1]) / 2.0] {
                let near = (x as f32).to_bits();
                for bits in [near.saturating_sub(1), near, near + 1] {
                    let single = f32::from_bits(bits);
                    let want = oracle(&all, f64::from(single));
                    assert_eq!(Half::nearest(single).0, want, "{single:e}");
                    assert_eq!(Half::nearest(-single).0, want | 0x8000, "-{single:e}");
                }
            }
        }
        for large in [65536.0, 1e6, f32::MAX, f32::INFINITY] {
            assert_eq!(Half::nearest(large).0, 0x7c00);
        }
    }

    #[test]
    fn sums_and_products_are_rounded_correctly() {
        let all = all();
        let finite = || (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00);
        for b in finite().step_by(331) {
            for op in [Builtin::Sum, Builtin::Prod] {
                let a: Vec<u16> = finite().step_by(17).collect();
                let mut input: Vec<u8> = a.iter().flat_map(|bits| bits.to_ne_bytes()).collect();
                let mut inout: Vec<u8> = a.iter().flat_map(|_| b.to_ne_bytes()).collect();
                let (x, y) = (UserBuf::of_array(&mut input), UserBuf::of_array(&mut inout));
                apply(op, Elem::F16, x, y, a.len() as u64);
                for (&a, got) in a.iter().zip(inout.as_chunks().0) {
                    // Exact: 41 or 22 bits.
                    let exact = match op {
                        Builtin::Sum => value(a) + value(b),
                        _ => value(a) * value(b),
                    };
                    assert_eq!(
                        u16::from_ne_bytes(*got),
                        oracle(&all, exact),
                        "{a:#x} {b:#x}"
                    );
                }
            }
        }
    }
}
