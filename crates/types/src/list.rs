//! Lists of integers, of which short ones take no allocation: array arguments, which are mostly short, and made and dropped with each call.
//!
//! Used by the engine for a call's arrays, and by `datatype`, which keeps them.

use std::ops::Deref;

/// A list of integers, on the heap if there are more than `N`.
#[derive(Clone, Debug)]
pub struct List<const N: usize>(Values<N>);

#[derive(Clone, Debug)]
enum Values<const N: usize> {
    /// The first so many.
    Few([i64; N], u32),
    Many(Box<[i64]>),
}

impl<const N: usize> List<N> {
    /// `count` values, each told by its index.
    pub fn from_fn(count: usize, value: impl FnMut(usize) -> i64) -> List<N> {
        let values = (0..count).map(value);
        if count > N {
            return List(Values::Many(values.collect()));
        }
        let mut few = [0; N];
        few.iter_mut()
            .zip(values)
            .for_each(|(place, value)| *place = value);
        List(Values::Few(few, count as u32))
    }

    /// The parts one after the other.
    pub fn concat(parts: &[&[i64]]) -> List<N> {
        let (mut few, mut count) = ([0; N], 0);
        for part in parts {
            let Some(place) = few.get_mut(count..count + part.len()) else {
                return List(Values::Many(parts.concat().into()));
            };
            place.copy_from_slice(part);
            count += part.len();
        }
        List(Values::Few(few, count as u32))
    }
}

impl<const N: usize> Deref for List<N> {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match &self.0 {
            Values::Few(values, count) => &values[..*count as usize],
            Values::Many(values) => values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ones_hold_the_same() {
        for count in 0..6 {
            let wanted: Vec<i64> = (0..count as i64).collect();
            let list = List::<3>::from_fn(count, |i| i as i64);
            assert_eq!(*list, *wanted);
            assert_eq!(matches!(list.0, Values::Few(..)), count <= 3);
            for cut in 0..=count {
                let (low, high) = wanted.split_at(cut);
                let list = List::<3>::concat(&[low, &[], high]);
                assert_eq!(*list, *wanted);
                assert_eq!(matches!(list.0, Values::Few(..)), count <= 3);
            }
        }
    }
}
