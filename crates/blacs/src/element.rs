//! Elements of matrices, and the operations of combines on rows of them.
//!
//! The greatest and least element are those by absolute value, which for complex numbers is |Re| + |Im|. Of
//! equal ones the process nearest behind the destination wins where locations are asked for, else the greater
//! number (for complex ones by the real part, then the imaginary part), so that the result does not depend on the
//! order of the operations. Integers wrap.

use std::cmp::Ordering;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `int`, Fortran's `INTEGER`.
    Int,
    /// `float`, `REAL`.
    Single,
    /// `double`, `DOUBLE PRECISION`.
    Double,
    /// Two floats, `COMPLEX`.
    Complex,
    /// Two doubles, `COMPLEX*16`.
    DoubleComplex,
}

impl Element {
    /// Bytes of one.
    pub const fn size(self) -> usize {
        match self {
            Element::Int | Element::Single => 4,
            Element::Double | Element::Complex => 8,
            Element::DoubleComplex => 16,
        }
    }
}

/// What a combine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Sum,
    /// The element of greatest absolute value.
    Max,
    /// The element of least absolute value.
    Min,
}

/// Combines the elements of `other` into `acc`.
pub(crate) fn combine(operation: Operation, element: Element, acc: &mut [u8], other: &[u8]) {
    match element {
        Element::Int => rows::<i32, 4>(operation, acc, other),
        Element::Single => rows::<f32, 4>(operation, acc, other),
        Element::Double => rows::<f64, 8>(operation, acc, other),
        Element::Complex => rows::<[f32; 2], 8>(operation, acc, other),
        Element::DoubleComplex => rows::<[f64; 2], 16>(operation, acc, other),
    }
}

/// As [`combine`] for greatest and least elements, with the distance from the destination at which each was found.
pub(crate) fn combine_located(
    operation: Operation,
    element: Element,
    acc: (&mut [u8], &mut [u8]),
    other: (&[u8], &[u8]),
) {
    match element {
        Element::Int => located::<i32, 4>(operation, acc, other),
        Element::Single => located::<f32, 4>(operation, acc, other),
        Element::Double => located::<f64, 8>(operation, acc, other),
        Element::Complex => located::<[f32; 2], 8>(operation, acc, other),
        Element::DoubleComplex => located::<[f64; 2], 16>(operation, acc, other),
    }
}

/// A number as it lies in memory.
trait Number<const SIZE: usize>: Copy + PartialOrd {
    type Magnitude: PartialOrd;
    fn load(bytes: [u8; SIZE]) -> Self;
    fn store(self) -> [u8; SIZE];
    fn sum(self, other: Self) -> Self;
    fn magnitude(self) -> Self::Magnitude;
}

impl Number<4> for i32 {
    type Magnitude = u32;
    fn load(bytes: [u8; 4]) -> i32 {
        i32::from_ne_bytes(bytes)
    }
    fn store(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
    fn sum(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
    fn magnitude(self) -> u32 {
        self.unsigned_abs()
    }
}

macro_rules! real_and_complex {
    ($real:ty, $size:literal, $twice:literal) => {
        impl Number<$size> for $real {
            type Magnitude = $real;
            fn load(bytes: [u8; $size]) -> $real {
                <$real>::from_ne_bytes(bytes)
            }
            fn store(self) -> [u8; $size] {
                self.to_ne_bytes()
            }
            fn sum(self, other: $real) -> $real {
                self + other
            }
            fn magnitude(self) -> $real {
                self.abs()
            }
        }

        impl Number<$twice> for [$real; 2] {
            type Magnitude = $real;
            fn load(bytes: [u8; $twice]) -> [$real; 2] {
                let (re, im) = bytes.split_at($size);
                [re, im].map(|half| {
                    let mut own = [0; $size];
                    own.copy_from_slice(half);
                    <$real>::from_ne_bytes(own)
                })
            }
            fn store(self) -> [u8; $twice] {
                let mut bytes = [0; $twice];
                bytes[..$size].copy_from_slice(&self[0].to_ne_bytes());
                bytes[$size..].copy_from_slice(&self[1].to_ne_bytes());
                bytes
            }
            fn sum(self, other: [$real; 2]) -> [$real; 2] {
                [self[0] + other[0], self[1] + other[1]]
            }
            fn magnitude(self) -> $real {
                self[0].abs() + self[1].abs()
            }
        }
    };
}

real_and_complex!(f32, 4, 8);
real_and_complex!(f64, 8, 16);

/// Elements of both sides, one by one. Both lengths are multiples of the size.
fn pairs<'a, const SIZE: usize>(
    acc: &'a mut [u8],
    other: &'a [u8],
) -> impl Iterator<Item = (&'a mut [u8; SIZE], [u8; SIZE])> {
    let (acc, _) = acc.as_chunks_mut::<SIZE>();
    let (other, _) = other.as_chunks::<SIZE>();
    acc.iter_mut().zip(other.iter().copied())
}

fn rows<T: Number<SIZE>, const SIZE: usize>(operation: Operation, acc: &mut [u8], other: &[u8]) {
    let wanted = match operation {
        Operation::Sum => {
            for (mine, theirs) in pairs::<SIZE>(acc, other) {
                *mine = T::load(*mine).sum(T::load(theirs)).store();
            }
            return;
        }
        Operation::Max => Ordering::Greater,
        Operation::Min => Ordering::Less,
    };
    for (mine, theirs) in pairs::<SIZE>(acc, other) {
        let (a, b) = (T::load(*mine), T::load(theirs));
        match b.magnitude().partial_cmp(&a.magnitude()) {
            Some(Ordering::Equal) if a < b => *mine = theirs,
            Some(order) if order == wanted => *mine = theirs,
            _ => {}
        }
    }
}

fn located<T: Number<SIZE>, const SIZE: usize>(
    operation: Operation,
    acc: (&mut [u8], &mut [u8]),
    other: (&[u8], &[u8]),
) {
    let wanted = match operation {
        Operation::Min => Ordering::Less,
        _ => Ordering::Greater,
    };
    let places = pairs::<4>(acc.1, other.1);
    for ((mine, theirs), (place, their_place)) in pairs::<SIZE>(acc.0, other.0).zip(places) {
        let (a, b) = (T::load(*mine), T::load(theirs));
        let nearer = u32::from_ne_bytes(their_place) < u32::from_ne_bytes(*place);
        let take = match b.magnitude().partial_cmp(&a.magnitude()) {
            Some(Ordering::Equal) => nearer,
            order => order == Some(wanted),
        };
        if take {
            *mine = theirs;
            *place = their_place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64s(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_ne_bytes()).collect()
    }

    #[test]
    fn by_absolute_value() {
        let mut acc = f64s(&[1.0, -5.0, 2.0, -2.0]);
        let other = f64s(&[-3.0, 4.0, -2.0, 2.0]);
        combine(Operation::Max, Element::Double, &mut acc, &other);
        assert_eq!(acc, f64s(&[-3.0, -5.0, 2.0, 2.0]));
        combine(
            Operation::Min,
            Element::Double,
            &mut acc,
            &f64s(&[3.0, 1.0, 9.0, -2.0]),
        );
        assert_eq!(acc, f64s(&[3.0, 1.0, 2.0, 2.0]));
    }

    #[test]
    fn complex_ties() {
        let mut acc = f64s(&[1.0, 2.0]);
        combine(
            Operation::Max,
            Element::DoubleComplex,
            &mut acc,
            &f64s(&[2.0, -1.0]),
        );
        assert_eq!(acc, f64s(&[2.0, -1.0]));
        combine(
            Operation::Min,
            Element::DoubleComplex,
            &mut acc,
            &f64s(&[2.0, 1.0]),
        );
        assert_eq!(acc, f64s(&[2.0, 1.0]));
    }

    #[test]
    fn the_least_integer() {
        let mut acc = i32::MIN.to_ne_bytes();
        combine(
            Operation::Max,
            Element::Int,
            &mut acc,
            &i32::MAX.to_ne_bytes(),
        );
        assert_eq!(acc, i32::MIN.to_ne_bytes());
        combine(
            Operation::Sum,
            Element::Int,
            &mut acc,
            &(-1i32).to_ne_bytes(),
        );
        assert_eq!(acc, i32::MAX.to_ne_bytes());
    }

    #[test]
    fn the_nearest_of_equals() {
        let (mut acc, mut places) = (f64s(&[2.0, 1.0]), [3u32, 1].map(u32::to_ne_bytes).concat());
        let (other, theirs) = (f64s(&[-2.0, 1.0]), [2u32, 2].map(u32::to_ne_bytes).concat());
        combine_located(
            Operation::Max,
            Element::Double,
            (&mut acc, &mut places),
            (&other, &theirs),
        );
        assert_eq!(acc, f64s(&[-2.0, 1.0]));
        assert_eq!(places, [2u32, 1].map(u32::to_ne_bytes).concat());
    }
}
