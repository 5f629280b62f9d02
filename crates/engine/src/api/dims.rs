//! `MPI_Dims_create`: a balanced factorisation of a number of processes.

use boundary::Ints;
use types::{Result, consts, fault};

use crate::state::Engine;

/// More factors than this above 1 no number of processes has.
const FACTORS_MOST: usize = 31;

/// `k` factors of `n`, the largest first: those between whose largest and smallest is least, as the standard asks for dimensions as close to each other as
/// possible; of several the one with the larger last factor, then the larger one before that, and so on, as MPICH has them. `None`: one can't be no factors.
fn balanced(n: u64, k: usize) -> Option<Vec<u64>> {
    if k <= 1 {
        return (k == 1 || n == 1).then(|| vec![n; k]);
    }
    if k > FACTORS_MOST {
        // The others are 1, and take no steps of the search.
        let mut found = balanced(n, FACTORS_MOST)?;
        found.resize(k, 1);
        return Some(found);
    }
    let divisors = divisors(n);
    let mut search = Search {
        divisors: &divisors,
        chosen: Vec::new(),
        most: n,
        best: Vec::new(),
    };
    let least = divisors.iter().rev().copied();
    for least in least.filter(|d| d.saturating_pow(k as u32) <= n) {
        if let (Some(last), Some(first)) = (search.best.first(), search.best.last()) {
            // From here on only what is closer is better.
            search.most = (least + first - last).saturating_sub(1);
        }
        if search.most.saturating_pow(k as u32) < n {
            break;
        }
        search.chosen.push(least);
        search.complete(n / least, k - 1);
        search.chosen.pop();
    }
    search.best.reverse();
    Some(search.best)
}

/// What is looked for among the factors of a number, the smallest first.
struct Search<'a> {
    divisors: &'a [u64],
    chosen: Vec<u64>,
    /// Most that the largest factor may be.
    most: u64,
    best: Vec<u64>,
}

impl Search<'_> {
    /// Completes what is chosen by `k` factors of `rest`, one or more, none below the last. Of those with an equal largest factor the first stays.
    fn complete(&mut self, rest: u64, k: usize) {
        let last = self.chosen.last().copied().unwrap_or(1);
        if k == 1 {
            if (last..=self.most).contains(&rest) {
                self.best.clone_from(&self.chosen);
                self.best.push(rest);
                self.most = rest - 1;
            }
            return;
        }
        let power = k as u32;
        let fits = |f: &u64| *f >= last && f.saturating_pow(power) <= rest;
        for f in self.divisors.iter().rev().copied().filter(fits) {
            if self.most.saturating_pow(power) < rest {
                return;
            }
            if rest.is_multiple_of(f) {
                self.chosen.push(f);
                self.complete(rest / f, k - 1);
                self.chosen.pop();
            }
        }
    }
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
    let found = rest.and_then(|rest| balanced(rest as u64, free));
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
        assert_eq!(balanced(12, 2), Some(vec![4, 3]));
        assert_eq!(balanced(16, 3), Some(vec![4, 2, 2]));
        assert_eq!(balanced(36, 2), Some(vec![6, 6]));
        assert_eq!(balanced(7, 3), Some(vec![7, 1, 1]));
        assert_eq!(balanced(1, 2), Some(vec![1, 1]));
        assert_eq!(balanced(1, 0), Some(vec![]));
        assert_eq!(balanced(2, 0), None);
        // The last factor decides where several are as close.
        assert_eq!(balanced(5040, 3), Some(vec![21, 16, 15]));
        assert_eq!(balanced(34425, 3), Some(vec![51, 27, 25]));
        assert_eq!(balanced(98784, 5), Some(vec![14, 14, 9, 8, 7]));
    }

    #[test]
    fn as_close_as_all_that_there_are() {
        for n in 1..800 {
            for k in 1..6 {
                let mut all = Vec::new();
                every(n, k, n, &mut Vec::new(), &mut all);
                let key = |f: &Vec<u64>| {
                    let last = f.iter().rev().map(|f| std::cmp::Reverse(*f));
                    (f[0] - f[k - 1], last.collect::<Vec<_>>())
                };
                assert_eq!(balanced(n, k), all.into_iter().min_by_key(key));
            }
        }
    }

    /// All falling sequences of `k` factors of `n` up to `most`, behind those that are chosen.
    fn every(n: u64, k: usize, most: u64, chosen: &mut Vec<u64>, all: &mut Vec<Vec<u64>>) {
        if k == 0 {
            all.extend((n == 1).then(|| chosen.clone()));
            return;
        }
        for f in (1..=most.min(n)).filter(|f| n.is_multiple_of(*f)) {
            chosen.push(f);
            every(n / f, k - 1, f, chosen, all);
            chosen.pop();
        }
    }

    #[test]
    fn many_factors_end() {
        // The number below 2^31 with most divisors, and powers.
        for n in [2_095_133_040, 1 << 30, 3u64.pow(19), 2_147_483_647] {
            for k in (1..34).chain([1000]) {
                let f = balanced(n, k).unwrap();
                assert_eq!(f.iter().product::<u64>(), n);
                assert!(f.len() == k && f.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}
