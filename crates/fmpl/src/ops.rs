//! The reduction functions: predefined ones and the program's.
//!
//! Sums come from the reduction kernels of MPI (`op`). Greatest and least absolute values are loops of
//! their own, as the absolute value of a complex number is |Re| + |Im| here (as BLACS has it), and ties
//! are decided: without a place the accumulated side stays; with places the smaller row, then the smaller column,
//! wins. So results depend on the values and the order of combining only.

use std::cmp::Ordering;

use boundary::{UserBuf, UserFn};
use fmpl_table::code;
use types::basic::Elem;

/// How two arrays are combined.
#[derive(Clone, Copy, Debug)]
pub enum Func {
    /// A sum.
    Sum(Type),
    /// The element with the greatest or least absolute value.
    Extreme {
        /// Of these elements.
        of: Type,
        /// Whether the greatest is wanted.
        greatest: bool,
        /// Whether each is followed by its row and column.
        placed: bool,
    },
    /// The program's function.
    User {
        /// It.
        function: UserFn,
        /// Bytes of its elements.
        element: u32,
    },
}

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// `int`.
    I,
    /// `float`.
    S,
    /// `double`.
    D,
    /// Complex of `float`.
    C,
    /// Complex of `double`.
    Z,
}

impl Type {
    const ALL: [Type; 5] = [Type::I, Type::S, Type::D, Type::C, Type::Z];

    fn size(self) -> u32 {
        match self {
            Type::I | Type::S => 4,
            Type::D | Type::C => 8,
            Type::Z => 16,
        }
    }
}

/// Bytes of a row and a column.
const PLACE: u32 = 8;

impl Func {
    /// The function that a table's number names.
    pub fn builtin(number: u32) -> Result<Func, i32> {
        let of = *Type::ALL
            .get((number / 16) as usize)
            .ok_or(code::ERR_FUNCTION)?;
        let extreme = |greatest, placed| Func::Extreme {
            of,
            greatest,
            placed,
        };
        match number % 16 {
            1 => Ok(Func::Sum(of)),
            2 => Ok(extreme(true, false)),
            3 => Ok(extreme(false, false)),
            4 => Ok(extreme(true, true)),
            5 => Ok(extreme(false, true)),
            _ => Err(code::ERR_FUNCTION),
        }
    }

    /// Bytes of an element.
    pub fn size(&self) -> u32 {
        match self {
            Func::Sum(of) => of.size(),
            Func::Extreme { of, placed, .. } => of.size() + if *placed { PLACE } else { 0 },
            Func::User { element, .. } => *element,
        }
    }

    /// Combines `count` elements of `input` into `inout`.
    pub fn apply(&self, inout: UserBuf, input: UserBuf, count: u64) {
        match *self {
            Func::Sum(of) => sum(of, inout, input, count),
            Func::Extreme {
                of,
                greatest,
                placed,
            } => match of {
                Type::I => extreme::<Int>(inout, input, count, greatest, placed),
                Type::S => extreme::<Single>(inout, input, count, greatest, placed),
                Type::D => extreme::<Double>(inout, input, count, greatest, placed),
                Type::C => extreme::<Complex>(inout, input, count, greatest, placed),
                Type::Z => extreme::<DoubleComplex>(inout, input, count, greatest, placed),
            },
            Func::User { function, element } => user(function, element, inout, input, count),
        }
    }
}

fn sum(of: Type, inout: UserBuf, input: UserBuf, count: u64) {
    let elem = match of {
        Type::I => Elem::I32,
        Type::S => Elem::F32,
        Type::D => Elem::F64,
        Type::C => Elem::C32,
        Type::Z => Elem::C64,
    };
    op::apply(op::Builtin::Sum, elem, input, inout, count);
}

/// Calls the program's function, for more elements than an `int` counts as often as it takes.
fn user(function: UserFn, element: u32, inout: UserBuf, input: UserBuf, count: u64) {
    let mut done = 0;
    while done < count {
        let n = (count - done).min(i32::MAX as u64);
        let skip = (done * u64::from(element)) as i64;
        function.call_combine(inout.offset(skip), input.offset(skip), n as i32);
        done += n;
    }
}

/// A number whose absolute value can be compared.
trait Number {
    const SIZE: usize;
    type Magnitude: PartialOrd;
    fn magnitude(bytes: &[u8]) -> Self::Magnitude;
}

/// The first bytes as an array.
fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

struct Int;
impl Number for Int {
    const SIZE: usize = 4;
    type Magnitude = u32;
    fn magnitude(b: &[u8]) -> u32 {
        i32::from_ne_bytes(head(b)).unsigned_abs()
    }
}

struct Single;
impl Number for Single {
    const SIZE: usize = 4;
    type Magnitude = f32;
    fn magnitude(b: &[u8]) -> f32 {
        f32::from_ne_bytes(head(b)).abs()
    }
}

struct Double;
impl Number for Double {
    const SIZE: usize = 8;
    type Magnitude = f64;
    fn magnitude(b: &[u8]) -> f64 {
        f64::from_ne_bytes(head(b)).abs()
    }
}

struct Complex;
impl Number for Complex {
    const SIZE: usize = 8;
    type Magnitude = f32;
    fn magnitude(b: &[u8]) -> f32 {
        Single::magnitude(b) + Single::magnitude(&b[4..])
    }
}

struct DoubleComplex;
impl Number for DoubleComplex {
    const SIZE: usize = 16;
    type Magnitude = f64;
    fn magnitude(b: &[u8]) -> f64 {
        Double::magnitude(b) + Double::magnitude(&b[8..])
    }
}

/// Bytes that are compared between two copies; a multiple of no element's size in particular.
const BLOCK: usize = 1536;

fn extreme<N: Number>(inout: UserBuf, input: UserBuf, count: u64, greatest: bool, placed: bool) {
    let size = N::SIZE + if placed { PLACE as usize } else { 0 };
    let whole = BLOCK - BLOCK % size;
    let (mut ours, mut theirs) = ([0; BLOCK], [0; BLOCK]);
    let total = count * size as u64;
    let mut done = 0;
    while done < total {
        let n = (total - done).min(whole as u64) as usize;
        let at = inout.offset(done as i64);
        at.read(&mut ours[..n]);
        input.offset(done as i64).read(&mut theirs[..n]);
        let pairs = ours[..n]
            .chunks_exact_mut(size)
            .zip(theirs[..n].chunks_exact(size));
        for (own, other) in pairs {
            if wins::<N>(other, own, greatest, placed) {
                own.copy_from_slice(other);
            }
        }
        at.write(&ours[..n]);
        done += n as u64;
    }
}

/// Whether `new` takes the place of `old`.
fn wins<N: Number>(new: &[u8], old: &[u8], greatest: bool, placed: bool) -> bool {
    let (n, o) = (N::magnitude(new), N::magnitude(old));
    let better = if greatest { n > o } else { n < o };
    if better || !placed || n.partial_cmp(&o) != Some(Ordering::Equal) {
        return better;
    }
    place::<N>(new) < place::<N>(old)
}

/// Row and column.
fn place<N: Number>(element: &[u8]) -> (i32, i32) {
    let (row, column) = (&element[N::SIZE..], &element[N::SIZE + 4..]);
    (
        i32::from_ne_bytes(head(row)),
        i32::from_ne_bytes(head(column)),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&v| to(v)).collect()
    }

    fn combine(func: Func, ours: &mut [u8], theirs: &mut [u8]) {
        let count = ours.len() as u64 / u64::from(func.size());
        func.apply(UserBuf::of_array(ours), UserBuf::of_array(theirs), count);
    }

    fn f(kind: u32, ty: u32) -> Func {
        Func::builtin(ty * 16 + kind).unwrap()
    }

    #[test]
    fn sizes_and_unknown_numbers() {
        let sizes: Vec<u32> = (0..5).map(|t| f(4, t).size()).collect();
        assert_eq!(sizes, [12, 12, 16, 16, 24]);
        for number in [0, 6, 5 * 16 + 1, u32::MAX] {
            assert_eq!(Func::builtin(number).err(), Some(code::ERR_FUNCTION));
        }
    }

    #[test]
    fn complex_numbers_are_measured_by_the_sum_of_their_parts() {
        // |3+4i| is 5 and |5.5| is 5.5, but 3+4 is more than 5.5.
        let mut ours = bytes(&[5.5f64, 0.0], f64::to_ne_bytes);
        let mut theirs = bytes(&[-3.0f64, 4.0], f64::to_ne_bytes);
        combine(f(2, 4), &mut ours, &mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn the_most_negative_integer_is_the_greatest() {
        let mut ours = bytes(&[i32::MAX], i32::to_ne_bytes);
        let mut theirs = bytes(&[i32::MIN], i32::to_ne_bytes);
        combine(f(2, 0), &mut ours, &mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn equal_values_are_decided_by_their_place() {
        let element = |v: f64, row: i32, column: i32| {
            let mut b = v.to_ne_bytes().to_vec();
            b.extend(row.to_ne_bytes());
            b.extend(column.to_ne_bytes());
            b
        };
        for kind in [4, 5] {
            let mut ours = element(-2.0, 3, 1);
            let mut theirs = element(2.0, 3, 0);
            combine(f(kind, 2), &mut ours, &mut theirs);
            assert_eq!(ours, theirs);
            let mut later = element(2.0, 4, 0);
            combine(f(kind, 2), &mut ours, &mut later);
            assert_eq!(ours, theirs);
        }
    }

    proptest! {
        #[test]
        fn as_a_loop_would(
            pairs in proptest::collection::vec((-100i32..100, -100i32..100), 0..700),
            greatest in any::<bool>(),
        ) {
            let (a, b): (Vec<i32>, Vec<i32>) = pairs.into_iter().unzip();
            let pick = |(&x, &y): (&i32, &i32)| {
                let better = if greatest { y.abs() > x.abs() } else { y.abs() < x.abs() };
                if better { y } else { x }
            };
            let expected: Vec<i32> = a.iter().zip(&b).map(pick).collect();
            let mut ours = bytes(&a, i32::to_ne_bytes);
            let mut theirs = bytes(&b, i32::to_ne_bytes);
            combine(f(if greatest { 2 } else { 3 }, 0), &mut ours, &mut theirs);
            prop_assert_eq!(ours, bytes(&expected, i32::to_ne_bytes));
        }

        #[test]
        fn doubles_with_places(
            values in proptest::collection::vec((-5i8..5, -5i8..5, 0i32..3, 0i32..3), 0..300),
        ) {
            let element = |v: i8, row: i32| {
                let mut b = f64::from(v).to_ne_bytes().to_vec();
                b.extend(row.to_ne_bytes());
                b.extend(7i32.to_ne_bytes());
                b
            };
            let mut ours: Vec<u8> = values.iter().flat_map(|v| element(v.0, v.2)).collect();
            let mut theirs: Vec<u8> = values.iter().flat_map(|v| element(v.1, v.3)).collect();
            let best = |&(a, b, r, s): &(i8, i8, i32, i32)| {
                let theirs = b.abs() > a.abs() || (b.abs() == a.abs() && s < r);
                if theirs { element(b, s) } else { element(a, r) }
            };
            let expected: Vec<u8> = values.iter().flat_map(best).collect();
            combine(f(4, 2), &mut ours, &mut theirs);
            prop_assert_eq!(ours, expected);
        }
    }
}
