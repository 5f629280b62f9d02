//! `MPI_Type_get_contents`: among a datatype's integers are constants whose values differ.

use boundary::Ints;
use engine::{Engine, api};
use types::{Handle, Result, consts};

use crate::r#gen::values;

/// From a neutral constant to this ABI's.
type Map = fn(i32) -> i32;

/// A copy of the integers, whose constants are translated when they are written to the caller.
pub struct Contents {
    to: *mut i32,
    copy: Vec<i32>,
    maps: Vec<(usize, Map)>,
}

impl Contents {
    /// The integers, as the engine sees them.
    pub fn ints(&mut self) -> Ints {
        // SAFETY: the copy has as many elements as the call says, and outlives the call.
        unsafe { Ints::narrow(self.copy.as_mut_ptr() as usize) }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        for &(i, map) in &self.maps {
            if let Some(value) = self.copy.get_mut(i) {
                *value = map(*value);
            }
        }
        for (i, &value) in self.copy.iter().enumerate() {
            // SAFETY: made by `contents_out`, whose contract says that `to` has so many.
            unsafe { self.to.add(i).write_unaligned(value) }
        }
    }
}

/// Where constants stand among the `n` integers of a datatype: a subarray ends with its order; a
/// darray has its number of dimensions third, then its global sizes unless they are large counts,
/// its distributions, their arguments and its process grid, and ends with its order too.
fn maps(combiner: i32, n: usize, large: bool, ndims: usize) -> Vec<(usize, Map)> {
    let mut maps: Vec<(usize, Map)> = Vec::new();
    if matches!(
        combiner,
        consts::COMBINER_SUBARRAY | consts::COMBINER_DARRAY
    ) {
        maps.push((n - 1, values::order_out));
    }
    if combiner == consts::COMBINER_DARRAY {
        let first = if large { 3 } else { 3 + ndims };
        maps.extend((first..first + ndims).map(|i| (i, values::distribution_out as Map)));
        let first = first + ndims;
        maps.extend((first..first + ndims).map(|i| (i, values::darg_out as Map)));
    }
    maps
}

/// The integers that the call sets.
///
/// # Safety
/// `to` is null or has `max` writable elements until the guard is dropped.
pub unsafe fn contents_out(
    e: &Engine,
    datatype: Handle,
    to: *mut i32,
    max: impl Into<i64>,
) -> Result<Contents> {
    let (mut n, mut aints, mut large, mut types, mut combiner) = (0, 0, 0, 0, 0);
    api::datatype::type_get_envelope(
        e,
        datatype,
        &mut n,
        &mut aints,
        &mut large,
        &mut types,
        &mut combiner,
    )?;
    // No more than the datatype has is written, whatever room the caller has.
    let room = if to.is_null() {
        0
    } else {
        n.clamp(0, max.into().max(0)) as usize
    };
    let n = n as usize;
    let is_large = large > 0;
    let ndims = match is_large {
        true => n.saturating_sub(4) / 3,
        false => n.saturating_sub(4) / 4,
    };
    Ok(Contents {
        to,
        copy: vec![0; room],
        maps: maps(combiner, n, is_large, ndims),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_stand_where_the_standard_says() {
        let places = |combiner, n, large, ndims| {
            maps(combiner, n, large, ndims)
                .iter()
                .map(|m| m.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(places(consts::COMBINER_SUBARRAY, 8, false, 1), [7]);
        // size, rank, ndims, 2 gsizes, 2 distribs, 2 dargs, 2 psizes, order
        assert_eq!(
            places(consts::COMBINER_DARRAY, 12, false, 2),
            [11, 5, 6, 7, 8]
        );
        assert_eq!(
            places(consts::COMBINER_DARRAY, 10, true, 2),
            [9, 3, 4, 5, 6]
        );
        assert!(places(consts::COMBINER_VECTOR, 3, false, 0).is_empty());
    }
}
