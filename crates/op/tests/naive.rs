//! Every operation on every type against plain arithmetic on big integers, with odd counts and
//! unaligned addresses.

use boundary::UserBuf;
use op::{Builtin, apply, supports};
use types::basic::{BASICS, Basic, Elem};

/// How one number is stored.
#[derive(Clone, Copy, PartialEq)]
enum Scalar {
    Signed(usize),
    Unsigned(usize),
    F16,
    F32,
    F64,
    F80,
    F128,
}

use Scalar::*;

/// The numbers of an element: displacement and storage.
fn fields(elem: Elem) -> Vec<(usize, Scalar)> {
    match elem {
        Elem::I8 => vec![(0, Signed(1))],
        Elem::I16 => vec![(0, Signed(2))],
        Elem::I32 => vec![(0, Signed(4))],
        Elem::I64 => vec![(0, Signed(8))],
        Elem::U8 | Elem::Bool | Elem::L8 => vec![(0, Unsigned(1))],
        Elem::U16 | Elem::L16 => vec![(0, Unsigned(2))],
        Elem::U32 | Elem::L32 => vec![(0, Unsigned(4))],
        Elem::U64 | Elem::L64 => vec![(0, Unsigned(8))],
        Elem::F16 => vec![(0, F16)],
        Elem::C16 => vec![(0, F16), (2, F16)],
        Elem::F32 => vec![(0, F32)],
        Elem::F64 => vec![(0, F64)],
        Elem::F80 => vec![(0, F80)],
        Elem::F128 => vec![(0, F128)],
        Elem::C32 | Elem::F32x2 => vec![(0, F32), (4, F32)],
        Elem::C64 | Elem::F64x2 => vec![(0, F64), (8, F64)],
        Elem::C80 => vec![(0, F80), (16, F80)],
        Elem::C128 => vec![(0, F128), (16, F128)],
        Elem::F32Int => vec![(0, F32), (4, Signed(4))],
        Elem::F64Int => vec![(0, F64), (8, Signed(4))],
        Elem::I64Int => vec![(0, Signed(8)), (8, Signed(4))],
        Elem::I32Int => vec![(0, Signed(4)), (4, Signed(4))],
        Elem::I16Int => vec![(0, Signed(2)), (4, Signed(4))],
        Elem::F80Int => vec![(0, F80), (16, Signed(4))],
    }
}

/// Sign, exponent and fraction of a small integer, for formats without a Rust type.
fn wide_float(v: i128, fraction_bits: u32, explicit_one: bool) -> (u128, u128) {
    let sign = u128::from(v < 0) << 15;
    let magnitude = v.unsigned_abs();
    if magnitude == 0 {
        return (sign, 0);
    }
    let top = 127 - magnitude.leading_zeros();
    let fraction = magnitude << (fraction_bits - top);
    let kept = if explicit_one {
        fraction
    } else {
        fraction & ((1 << fraction_bits) - 1)
    };
    (sign | u128::from(16383 + top), kept)
}

fn encode(v: i128, s: Scalar) -> Vec<u8> {
    match s {
        Signed(n) | Unsigned(n) => v.to_le_bytes()[..n].to_vec(),
        F16 => {
            // Small integers only, so exact, and the two formats' fractions begin alike.
            let single = (v as f32).to_bits();
            let exponent = (single >> 23 & 0xff).saturating_sub(112);
            let half = single >> 16 & 0x8000 | exponent << 10 | single >> 13 & 0x3ff;
            (half as u16).to_le_bytes().to_vec()
        }
        F32 => (v as f32).to_le_bytes().to_vec(),
        F64 => (v as f64).to_le_bytes().to_vec(),
        F80 => {
            let (high, fraction) = wide_float(v, 63, true);
            (high << 64 | fraction).to_le_bytes()[..10].to_vec()
        }
        F128 => {
            let (high, fraction) = wide_float(v, 112, false);
            (high << 112 | fraction).to_le_bytes().to_vec()
        }
    }
}

/// What an integer of this storage is worth after truncation.
fn truncate(v: i128, s: Scalar) -> i128 {
    match s {
        Signed(n) => v << (128 - 8 * n) >> (128 - 8 * n),
        Unsigned(n) => ((v as u128) << (128 - 8 * n) >> (128 - 8 * n)) as i128,
        _ => v,
    }
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn value(&mut self, s: Scalar) -> i128 {
        let small = i128::from(self.next() % 7) - 3;
        let large = i128::from(self.next());
        match s {
            Signed(_) | Unsigned(_) if self.next().is_multiple_of(2) => truncate(large, s),
            _ => truncate(small, s),
        }
    }
}

/// `a op b` on the numbers of one element.
fn expected(op: Builtin, a: &[i128], b: &[i128]) -> Vec<i128> {
    let each = |f: fn(i128, i128) -> i128| a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect();
    let first = |better: bool| {
        if better || (a[0] == b[0] && a[1] < b[1]) {
            a.to_vec()
        } else {
            b.to_vec()
        }
    };
    match op {
        Builtin::Max => each(i128::max),
        Builtin::Min => each(i128::min),
        Builtin::Sum => each(|x, y| x + y),
        Builtin::Prod if a.len() == 2 => vec![a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        Builtin::Prod => each(i128::wrapping_mul),
        Builtin::Land => each(|x, y| (x != 0 && y != 0).into()),
        Builtin::Lor => each(|x, y| (x != 0 || y != 0).into()),
        Builtin::Lxor => each(|x, y| ((x != 0) != (y != 0)).into()),
        Builtin::Band => each(|x, y| x & y),
        Builtin::Bor => each(|x, y| x | y),
        Builtin::Bxor => each(|x, y| x ^ y),
        Builtin::Maxloc => first(a[0] > b[0]),
        Builtin::Minloc => first(a[0] < b[0]),
        Builtin::Replace => a.to_vec(),
        Builtin::NoOp => b.to_vec(),
    }
}

fn check(rng: &mut Rng, op: Builtin, ty: &Basic, count: usize, shift: (usize, usize)) {
    let fields = fields(ty.elem);
    let bytes = count * ty.extent();
    let (mut a, mut b) = (
        vec![0xAAu8; shift.0 + bytes + 8],
        vec![0x55u8; shift.1 + bytes + 8],
    );
    let mut want = Vec::new();
    for i in 0..count {
        let x: Vec<i128> = fields.iter().map(|f| rng.value(f.1)).collect();
        let y: Vec<i128> = fields.iter().map(|f| rng.value(f.1)).collect();
        for (k, &(at, s)) in fields.iter().enumerate() {
            for (memory, start, v) in [(&mut a, shift.0, x[k]), (&mut b, shift.1, y[k])] {
                let code = encode(v, s);
                memory[start + i * ty.extent() + at..][..code.len()].copy_from_slice(&code);
            }
        }
        want.push(expected(op, &x, &y));
    }
    let input = UserBuf::of_array(&mut a).offset(shift.0 as i64);
    let inout = UserBuf::of_array(&mut b).offset(shift.1 as i64);
    apply(op, ty.elem, input, inout, count as u64);
    for (i, want) in want.iter().enumerate() {
        for (&(at, s), &v) in fields.iter().zip(want) {
            let code = encode(truncate(v, s), s);
            let got = &b[shift.1 + i * ty.extent() + at..][..code.len()];
            // Zero may have either sign: 1 * -0, or -1 + 1.
            let zero = !matches!(s, Signed(_) | Unsigned(_)) && v == 0;
            let same = got == code || zero && got[..code.len() - 1].iter().all(|&x| x == 0);
            assert!(
                same,
                "{} {} element {i} of {count} {shift:?}",
                op.name(),
                ty.name
            );
        }
    }
    assert!(
        b[..shift.1]
            .iter()
            .chain(&b[shift.1 + bytes..])
            .all(|&x| x == 0x55),
        "{}",
        ty.name
    );
}

#[test]
fn every_operation_on_every_type() {
    let rng = &mut Rng(42);
    for ty in &BASICS {
        for op in Builtin::all().filter(|&op| supports(op, ty)) {
            for count in [0, 1, 2, 3, 17, 64, 131] {
                for shift in [(0, 0), (1, 0), (0, 3), (5, 7), (16, 8)] {
                    check(rng, op, ty, count, shift);
                }
            }
        }
    }
}

#[test]
fn what_the_standard_leaves_out_is_refused_unless_programs_use_it() {
    let ty = |name: &str| BASICS.iter().find(|b| b.name == name).unwrap();
    assert!(!supports(Builtin::Sum, ty("MPI_WCHAR")));
    assert!(!supports(Builtin::Sum, ty("MPI_CHARACTER")));
    assert!(supports(Builtin::Sum, ty("MPI_CHAR")));
    assert!(supports(Builtin::Land, ty("MPI_INTEGER")) && supports(Builtin::Lor, ty("MPI_AINT")));
    assert!(!supports(Builtin::Max, ty("MPI_DOUBLE_COMPLEX")));
    assert!(!supports(Builtin::Land, ty("MPI_DOUBLE")));
    assert!(!supports(Builtin::Band, ty("MPI_FLOAT")));
    assert!(!supports(Builtin::Band, ty("MPI_C_BOOL")));
    assert!(!supports(Builtin::Sum, ty("MPI_BYTE")));
    assert!(!supports(Builtin::Sum, ty("MPI_2INT")));
    assert!(!supports(Builtin::Maxloc, ty("MPI_INT")));
    assert!(supports(Builtin::Band, ty("MPI_BYTE")) && supports(Builtin::Sum, ty("MPI_AINT")));
}

#[test]
fn comparisons_with_nan_are_those_of_c() {
    for (a, b, want) in [
        (f64::NAN, 1.0, 1.0),
        (1.0, f64::NAN, f64::NAN),
        (-0.0, 0.0, 0.0),
    ] {
        for op in [Builtin::Max, Builtin::Min] {
            // Enough elements that the vector loop is used.
            let mut input: Vec<u8> = (0..9).flat_map(|_| f64::to_le_bytes(a)).collect();
            let mut inout: Vec<u8> = (0..9).flat_map(|_| f64::to_le_bytes(b)).collect();
            let (x, y) = (UserBuf::of_array(&mut input), UserBuf::of_array(&mut inout));
            apply(op, Elem::F64, x, y, 9);
            for got in inout
                .chunks(8)
                .map(|c| f64::from_le_bytes(c.try_into().unwrap()))
            {
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            }
        }
    }
}
