//! `MPI_Dims_create`: a balanced factorisation of a number of processes.

use boundary::Ints;
use types::{Result, consts, fault};

use crate::state::Engine;

/// `k` factors of `n`, the largest first and none above `limit`, with the largest as small as
/// possible, then the next, and so on.
fn balanced(n: u64, k: usize, limit: u64) -> Option<Vec<u64>> {
    if k <= 1 {
        let fits = n <= limit && (k == 1 || n == 1);
        return fits.then(|| vec![n; k]);
    }
    // The largest of k factors can't be below the k-th root; rounding may cost one step more.
    let root = (n as f64).powf(1.0 / k as f64) as u64;
    let largest = divisors(n);
    let mut largest = largest.iter().filter(|d| (root..=limit).contains(*d));
    largest.find_map(|&largest| {
        let rest = balanced(n / largest, k - 1, largest)?;
        Some([vec![largest], rest].concat())
    })
}

/// The divisors of `n`, which is not 0, in order.
fn divisors(n: u64) -> Vec<u64> {
    let low = (1..=n.isqrt()).filter(|d| n.is_multiple_of(*d));
    let low: Vec<u64> = low.collect();
    let high = low.iter().rev().map(|d| n / d).filter(|d| d * d > n);
    low.iter().copied().chain(high).collect()
}

/// `MPI_Dims_create`.
pub fn dims_create(_: &Engine, nnodes: i32, ndims: i32, dims: Ints) -> Result<()> {
    if nnodes < 1 || ndims < 0 {
        return Err(fault(
            consts::ERR_ARG,
            format!("{nnodes} processes can't be laid out in {ndims} dimensions"),
        ));
    }
    if ndims > 0 && dims.is_null() {
        return Err(fault(consts::ERR_ARG, "the array of dimensions is NULL"));
    }
    let n = ndims as usize;
    let given = (0..n).map(|i| dims.get(i)).filter(|&d| d != 0);
    let fixed = given.clone().try_fold(1i64, |product, d| {
        (d > 0).then(|| product.checked_mul(d)).flatten()
    });
    let rest = fixed
        .filter(|f| i64::from(nnodes) % f == 0)
        .map(|f| i64::from(nnodes) / f);
    let free = n - given.count();
    if free == 0 && rest.is_some() {
        return Ok(()); // what is given need only divide the number of processes
    }
    let found = rest.and_then(|rest| balanced(rest as u64, free, rest as u64));
    let Some(found) = found else {
        return Err(fault(
            consts::ERR_DIMS,
            format!("the dimensions that are given don't divide {nnodes} processes"),
        ));
    };
    let mut next = found.into_iter();
    for i in (0..n).filter(|&i| dims.get(i) == 0).collect::<Vec<_>>() {
        dims.set(i, next.next().map_or(1, |d| d as i64));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{balanced, divisors};

    #[test]
    fn divisors_in_order() {
        for n in 1..1000u64 {
            let naive: Vec<u64> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
            assert_eq!(divisors(n), naive);
        }
        assert_eq!(divisors(2_147_483_647), [1, 2_147_483_647]);
    }

    #[test]
    fn factors_are_close_and_fall() {
        assert_eq!(balanced(12, 2, 12), Some(vec![4, 3]));
        assert_eq!(balanced(16, 3, 16), Some(vec![4, 2, 2]));
        assert_eq!(balanced(36, 2, 36), Some(vec![6, 6]));
        assert_eq!(balanced(7, 3, 7), Some(vec![7, 1, 1]));
        assert_eq!(balanced(1, 2, 1), Some(vec![1, 1]));
        assert_eq!(balanced(1, 0, 1), Some(vec![]));
        assert_eq!(balanced(2, 0, 2), None);
    }

    #[test]
    fn products_are_kept() {
        for n in 1..400 {
            for k in 1..5 {
                let f = balanced(n, k, n).unwrap();
                assert_eq!(f.iter().product::<u64>(), n);
                assert!(f.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}
