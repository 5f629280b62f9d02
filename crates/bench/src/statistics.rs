//! Medians, quartiles, ratios round by round, and regimes. Pure functions; called by `runner`, `calibrate`
//! and `report`.

use serde::Serialize;

/// A calibration that moved by more than this share during a round makes the round unusable.
pub const DRIFT_MAX: f64 = 0.2;

/// Up to here, in nanoseconds one way, a flag is "near": between processors that share a cache. Lies
/// between the two values measured on a virtual machine that alternates between them, 55 and 250.
pub const NEAR_MAX: f64 = 120.0;

/// Above this, in nanoseconds one way, a flag does not tell how far apart two processors are: something else ran on
/// them, or there is but one. Ten times what was measured between processors without a common cache, rounded down.
const FAR_MAX: f64 = 2000.0;

/// In what state of the machine something was measured. Figures of different regimes are never mixed: a
/// median over both would be a figure of neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// The processors share a cache.
    Near,
    /// They do not, or the machine is busy with something else.
    Far,
    /// It plays no part in what is measured.
    Any,
    /// It changed meanwhile, or it was too busy for anything else to be told. Such figures are shown only where
    /// there are no others.
    Unsteady,
}

impl Regime {
    /// All of them, in the order of tables.
    pub const ALL: [Regime; 4] = [Regime::Near, Regime::Far, Regime::Any, Regime::Unsteady];

    /// The regime to which a flag's time, in nanoseconds one way, belongs.
    pub fn of(flag: f64) -> Regime {
        match flag {
            flag if flag <= NEAR_MAX => Regime::Near,
            flag if flag <= FAR_MAX => Regime::Far,
            _ => Regime::Unsteady,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
            Regime::Any => "all rounds",
            Regime::Unsteady => "unsteady",
        }
    }
}

/// Whether a sample varies by more than [`DRIFT_MAX`] of its smallest value, or holds anything but positive
/// numbers, or nothing.
pub fn drifted(sample: impl IntoIterator<Item = f64>) -> bool {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for value in sample {
        if !(value.is_finite() && value > 0.0) {
            return true;
        }
        (least, most) = (least.min(value), most.max(value));
    }
    // Nothing seen leaves infinity and 0.
    least.is_infinite() || most > least * (1.0 + DRIFT_MAX)
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

    /// Half the distance between the quartiles, as a share of the median; none of a median of 0.
    pub fn relative(&self) -> Option<f64> {
        (self.median > 0.0).then(|| (self.upper - self.lower) / 2.0 / self.median)
    }
}

/// The spread of what each round's figure is to the base's figure of the same round. Rounds that lack one of
/// the two, and those in which the base's is 0, have no ratio.
pub fn ratio(pairs: impl IntoIterator<Item = (Option<f64>, Option<f64>)>) -> Option<Spread> {
    Spread::of(pairs.into_iter().filter_map(|pair| match pair {
        (Some(figure), Some(base)) if base > 0.0 => Some(figure / base),
        _ => None,
    }))
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
    use proptest::prelude::*;

    #[test]
    fn quartiles_are_interpolated_and_order_is_free() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (spread.lower, spread.median, spread.upper),
            (1.75, 2.5, 3.25)
        );
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.lower, spread.median, spread.upper), (2.0, 3.0, 4.0));
        assert_eq!(spread.relative(), Some(1.0 / 3.0));
    }

    #[test]
    fn small_samples() {
        assert_eq!(Spread::of([]), None);
        let one = Spread::of([7.0]).unwrap();
        assert_eq!((one.lower, one.median, one.upper), (7.0, 7.0, 7.0));
        assert_eq!(one.relative(), Some(0.0));
        assert_eq!(Spread::of([0.0]).unwrap().relative(), None);
    }

    #[test]
    fn a_calibration_may_move_by_a_fifth() {
        assert!(!drifted([50.0, 60.0]));
        assert!(!drifted([60.0, 50.0]));
        assert!(!drifted([50.0]));
        assert!(drifted([50.0, 60.1]));
        assert!(drifted([55.0, 250.0, 55.0]));
        assert!(drifted([0.0, 0.0]));
        assert!(drifted([f64::NAN, 50.0]));
        assert!(drifted([f64::INFINITY]));
        assert!(drifted([]));
    }

    #[test]
    fn regimes() {
        assert_eq!(Regime::of(55.0), Regime::Near);
        assert_eq!(Regime::of(250.0), Regime::Far);
        assert_eq!(Regime::of(3_000_000.0), Regime::Unsteady);
        assert_eq!(Regime::of(f64::NAN), Regime::Unsteady);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The medians of both are 2, the median of the ratios is not 1.
        let pairs = [(1.0, 2.0), (2.0, 4.0), (8.0, 1.0)].map(|(a, b)| (Some(a), Some(b)));
        assert_eq!(ratio(pairs).unwrap().median, 0.5);
        assert_eq!(
            ratio([(None, Some(1.0)), (Some(1.0), None), (Some(1.0), Some(0.0))]),
            None
        );
    }

    fn figures() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(1e-6..1e9_f64, 1..40)
    }

    proptest! {
        #[test]
        fn a_spread_is_ordered_and_inside(sample in figures()) {
            let spread = Spread::of(sample.iter().copied()).unwrap();
            let least = sample.iter().copied().fold(f64::INFINITY, f64::min);
            let most = sample.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= spread.lower && spread.lower <= spread.median);
            prop_assert!(spread.median <= spread.upper && spread.upper <= most);
            // As many lie on either side.
            let below = sample.iter().filter(|v| **v < spread.median).count();
            let above = sample.iter().filter(|v| **v > spread.median).count();
            prop_assert!(below <= sample.len() / 2 && above <= sample.len() / 2);
        }

        #[test]
        fn a_spread_scales_and_forgets_the_order(sample in figures(), factor in 0.1..10.0_f64) {
            let spread = Spread::of(sample.iter().copied()).unwrap();
            let scaled = Spread::of(sample.iter().rev().map(|v| v * factor)).unwrap();
            for (a, b) in [(spread.lower, scaled.lower), (spread.median, scaled.median),
                           (spread.upper, scaled.upper)] {
                prop_assert!((a * factor - b).abs() <= 1e-9 * b);
            }
        }

        #[test]
        fn nothing_differs_from_itself(sample in figures()) {
            let pairs = sample.iter().map(|v| (Some(*v), Some(*v)));
            let spread = ratio(pairs).unwrap();
            prop_assert_eq!((spread.lower, spread.median, spread.upper), (1.0, 1.0, 1.0));
        }

        #[test]
        fn drift_is_a_matter_of_the_extremes(sample in figures()) {
            let least = sample.iter().copied().fold(f64::INFINITY, f64::min);
            let most = sample.iter().copied().fold(0.0, f64::max);
            prop_assert_eq!(drifted(sample), drifted([most, least]));
        }
    }
}
