//! Constants among a datatype's integers, whose values differ: all that `MPI_Type_get_contents` gives back,
//! and the arguments of distributions, where one ABI's number is the other's constant.

use boundary::Ints;
use engine::{Engine, api};
use types::{DARG_NUMBER, Handle, Result, consts, fault};

use crate::r#gen::values;

/// From a neutral value to this ABI's.
type Map = fn(i64) -> i32;

fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(consts::UNDEFINED)
}

/// The arguments of distributions, as the engine sees them.
pub struct Dargs(Vec<i64>);

impl Dargs {
    /// The array; `self` must outlive its use.
    pub fn ints(&mut self) -> Ints {
        // SAFETY: the copy has as many elements as the call says, and outlives the call.
        unsafe { Ints::wide(self.0.as_mut_ptr() as usize) }
    }
}

/// Reads `n` arguments of distributions.
///
/// # Safety
/// `array` is null or has `n` readable elements.
pub unsafe fn dargs_array(array: *const i32, n: i32, name: &str) -> Result<Dargs> {
    let n = usize::try_from(n).unwrap_or(0);
    if array.is_null() && n > 0 {
        return Err(fault(consts::ERR_ARG, format!("{name} is NULL")));
    }
    // SAFETY: the caller's contract, and it isn't null where something is read.
    let read = |i| unsafe { array.add(i).read_unaligned() };
    Ok(Dargs((0..n).map(|i| darg_in(read(i))).collect()))
}

fn darg_in(v: i32) -> i64 {
    match v {
        // A number here, a constant there.
        consts::DISTRIBUTE_DFLT_DARG => DARG_NUMBER + i64::from(v),
        v => values::darg_in(v).into(),
    }
}

fn darg_out(v: i64) -> i32 {
    if v >= DARG_NUMBER {
        return narrow(v - DARG_NUMBER);
    }
    values::darg_out(narrow(v))
}

/// A copy of the integers, whose constants are translated when they are written to the caller.
pub struct Contents {
    to: *mut i32,
    copy: Vec<i64>,
    maps: Vec<(usize, Map)>,
}

impl Contents {
    /// The integers, as the engine sees them.
    pub fn ints(&mut self) -> Ints {
        // SAFETY: the copy has as many elements as the call says, and outlives the call.
        unsafe { Ints::wide(self.copy.as_mut_ptr() as usize) }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        for (i, &value) in self.copy.iter().enumerate() {
            let map = self.maps.iter().find(|(at, _)| *at == i);
            let value = map.map_or_else(|| narrow(value), |(_, map)| map(value));
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
        maps.push((n - 1, |v| values::order_out(narrow(v))));
    }
    if combiner == consts::COMBINER_DARRAY {
        let first = if large { 3 } else { 3 + ndims };
        let distribution: Map = |v| values::distribution_out(narrow(v));
        maps.extend((first..first + ndims).map(|i| (i, distribution)));
        let first = first + ndims;
        maps.extend((first..first + ndims).map(|i| (i, darg_out as Map)));
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
        true,
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
    fn the_number_of_the_other_abi_s_constant_is_a_number() {
        let constant = values::darg_out(consts::DISTRIBUTE_DFLT_DARG);
        assert_eq!(darg_in(constant), consts::DISTRIBUTE_DFLT_DARG.into());
        for v in [1, 18, 19, 20, constant, i32::MAX] {
            assert_eq!(darg_out(darg_in(v)), v);
        }
    }

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
