//! Medians, quartiles, and which pairs of runs count. Pure functions, called by `latency` and
//! `table`.

use serde::Serialize;

/// A calibration that moved by more than this share across a pair makes the pair unusable.
pub const DRIFT_MAX: f64 = 0.2;

/// Up to here, in nanoseconds one way, a flag is "near": between processors that share a cache. Lies
/// between the two values measured on a virtual machine that alternates between them, 55 and 250.
pub const NEAR_MAX: f64 = 120.0;

/// Where the two processors were while a pair ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// They share a cache.
    Near,
    /// They do not, or the machine is busy with something else.
    Far,
}

impl Regime {
    /// The regime to which a calibration, in nanoseconds one way, belongs.
    pub fn of(flag: f64) -> Regime {
        match flag <= NEAR_MAX {
            true => Regime::Near,
            false => Regime::Far,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
        }
    }
}

/// Whether two calibrations differ too much for what was measured between them to count: by more
/// than [`DRIFT_MAX`] of the smaller, or one is no positive number.
pub fn drifted(before: f64, after: f64) -> bool {
    let close = |a: f64, b: f64| b > 0.0 && a <= b * (1.0 + DRIFT_MAX);
    !(close(before, after) && close(after, before))
}

/// Median and quartiles of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the sample lies below.
    pub lower: f64,
    /// Half of the sample lies below.
    pub median: f64,
    /// Three quarters of the sample lie below.
    pub upper: f64,
}

impl Spread {
    /// The spread of a sample, in any order; none of an empty one.
    pub fn of(sample: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = sample.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Spread {
            lower: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            upper: quantile(&sorted, 0.75)?,
        })
    }
}

/// The value below which a share of a sorted sample lies, interpolated between neighbours (Hyndman
/// and Fan's type 7); none of an empty sample.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let low = place.floor() as usize;
    let high = sorted.get(low + 1).unwrap_or(&sorted[low]);
    Some(sorted[low] + (high - sorted[low]) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated_and_order_is_free() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (spread.lower, spread.median, spread.upper),
            (1.75, 2.5, 3.25)
        );
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.lower, spread.median, spread.upper), (2.0, 3.0, 4.0));
    }

    #[test]
    fn small_samples() {
        assert_eq!(Spread::of([]), None);
        let one = Spread::of([7.0]).unwrap();
        assert_eq!((one.lower, one.median, one.upper), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_calibration_may_move_by_a_fifth() {
        assert!(!drifted(50.0, 60.0));
        assert!(!drifted(60.0, 50.0));
        assert!(drifted(50.0, 60.1));
        assert!(drifted(250.0, 55.0));
        assert!(drifted(0.0, 50.0));
        assert!(drifted(f64::NAN, 50.0));
    }

    #[test]
    fn regimes() {
        assert_eq!(Regime::of(55.0), Regime::Near);
        assert_eq!(Regime::of(250.0), Regime::Far);
        assert_eq!(Regime::of(f64::NAN), Regime::Far);
    }
}
