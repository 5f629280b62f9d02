//! x87 extended precision (C `long double` of this platform) to and from IEEE binary128.
//!
//! Both have a sign, 15 exponent bits and the same bias. Extended has 64 significand bits with the
//! leading one written out; binary128 has 112 without it.

const EXPONENT: u128 = 0x7fff;
const FRACTION_BITS: u32 = 112;
const FRACTION: u128 = (1 << FRACTION_BITS) - 1;
/// Fraction bits that binary128 has and extended lacks.
const EXTRA: u32 = 112 - 63;

/// The binary128 bits of an extended value given in its 16 bytes of memory (10 used).
pub(crate) fn widen(memory: [u8; 16]) -> u128 {
    let bits = u128::from_le_bytes(memory);
    let significand = bits & u128::from(u64::MAX);
    let mut exponent = (bits >> 64) & EXPONENT;
    let sign = (bits >> 79) & 1;
    let leading = significand >> 63;
    let mut fraction = (significand & u128::from(u64::MAX >> 1)) << EXTRA;
    if exponent == 0 && leading == 1 {
        exponent = 1; // A pseudo-denormal equals this normal number.
    } else if exponent != 0 && leading == 0 {
        // Encodings that the processor itself rejects: not a number.
        exponent = EXPONENT;
        fraction = 1 << (FRACTION_BITS - 1);
    }
    sign << 127 | exponent << FRACTION_BITS | fraction
}

/// The 16 bytes of memory of the extended value nearest to binary128 `bits`, ties to even.
pub(crate) fn narrow(bits: u128) -> [u8; 16] {
    let sign = bits >> 127;
    let mut exponent = (bits >> FRACTION_BITS) & EXPONENT;
    let fraction = bits & FRACTION;
    let leading = u128::from(exponent != 0);
    let mut significand = leading << 63 | fraction >> EXTRA;
    let cut = fraction & ((1 << EXTRA) - 1);
    if exponent == EXPONENT {
        // Infinity stays; what is not a number stays so, even where its payload is cut off.
        if fraction != 0 {
            significand |= 1 << 62;
        }
    } else {
        let half = 1 << (EXTRA - 1);
        if cut > half || (cut == half && significand & 1 == 1) {
            significand += 1;
        }
        if significand >> 64 == 1 {
            significand >>= 1;
            exponent += 1;
        } else if exponent == 0 && significand >> 63 == 1 {
            exponent = 1; // Rounded up from the largest subnormal.
        }
    }
    (sign << 79 | exponent << 64 | significand).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extended(sign: u8, exponent: u16, significand: u64) -> [u8; 16] {
        let high = u128::from(sign) << 15 | u128::from(exponent);
        (high << 64 | u128::from(significand)).to_le_bytes()
    }

    #[test]
    fn known_values() {
        let one = extended(0, 16383, 1 << 63);
        assert_eq!(widen(one), 0x3fff << 112);
        assert_eq!(narrow(0x3fff << 112), one);
        let minus_infinity = extended(1, 0x7fff, 1 << 63);
        assert_eq!(widen(minus_infinity), 0xffff << 112);
        assert_eq!(narrow(0xffff << 112), minus_infinity);
        // The largest binary128 rounds to infinity, the largest subnormal to the smallest normal.
        assert_eq!(narrow((0x7fff << 112) - 1), extended(0, 0x7fff, 1 << 63));
        assert_eq!(narrow(FRACTION), extended(0, 1, 1 << 63));
        // A payload below what extended can hold is still not a number.
        assert_eq!(narrow((0x7fff << 112) | 1), extended(0, 0x7fff, 3 << 62));
        // Ties go to even.
        let tie = (0x3fff << 112) | (1 << (EXTRA - 1));
        assert_eq!(narrow(tie), one);
        assert_eq!(narrow(tie | 1 << EXTRA), extended(0, 16383, (1 << 63) + 2));
        assert_eq!(widen(extended(0, 0, 1 << 63)), 1 << 112);
    }

    proptest! {
        #[test]
        fn extended_survives(sign in 0u8..2, exponent in 0u16..0x7fff, fraction in any::<u64>()) {
            let leading = if exponent == 0 { 0 } else { 1 << 63 };
            let x = extended(sign, exponent, leading | fraction >> 1);
            prop_assert_eq!(narrow(widen(x)), x);
        }
    }
}
