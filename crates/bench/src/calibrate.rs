//! What the machine itself can do at a moment, so that figures are only compared between moments at which
//! that was the same. Called by `runner` (whether a round counts) and `kernels` (which makes calibrations).

use crate::Result;
use crate::statistics::{Regime, drifted};
use serde::Serialize;

/// What `calibrate.c` measures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// A cache line from one process to another, nanoseconds one way.
    pub flag: f64,
    /// Copied in a second by one process, gigabytes.
    pub memcpy: f64,
}

impl Calibration {
    /// Reads what `calibrate.c` prints.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Calibration> {
        let read = || {
            let mut lines = text.lines();
            let mut next = |name: &str| {
                let number = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
                number
                    .parse()
                    .ok()
                    .filter(|n: &f64| n.is_finite() && *n > 0.0)
            };
            let found = Calibration {
                flag: next("flag")?,
                memcpy: next("memcpy")?,
            };
            lines.next().is_none().then_some(found)
        };
        read().ok_or_else(|| format!("the calibration printed {text:?}"))
    }
}

/// The regime of a round, from the calibrations before, between and after its runs.
pub fn regime(calibrations: &[Calibration]) -> Regime {
    let flags = || calibrations.iter().map(|c| c.flag);
    if drifted(flags()) || drifted(calibrations.iter().map(|c| c.memcpy)) {
        return Regime::Unsteady;
    }
    Regime::of(flags().sum::<f64>() / calibrations.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibrations_output_is_read() {
        let read = Calibration::parse("flag 55.5\nmemcpy 11.25\n").unwrap();
        assert_eq!((read.flag, read.memcpy), (55.5, 11.25));
        for other in [
            "",
            "flag 55.5\n",
            "flag 55.5\nmemcpy x\n",
            "flag 0\nmemcpy 1\n",
            "flag 1\nmemcpy inf\n",
            "flag 1\nmemcpy 1\nmore\n",
            "memcpy 1\nflag 1\n",
        ] {
            assert!(Calibration::parse(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_round_is_steady_or_not() {
        let at = |pairs: &[(f64, f64)]| {
            let calibrations: Vec<_> = pairs
                .iter()
                .map(|&(flag, memcpy)| Calibration { flag, memcpy })
                .collect();
            regime(&calibrations)
        };
        assert_eq!(at(&[(50.0, 10.0), (55.0, 11.0)]), Regime::Near);
        assert_eq!(at(&[(250.0, 10.0), (255.0, 11.0)]), Regime::Far);
        assert_eq!(at(&[(50.0, 10.0), (255.0, 10.0)]), Regime::Unsteady);
        assert_eq!(at(&[(50.0, 10.0), (50.0, 5.0)]), Regime::Unsteady);
        assert_eq!(at(&[(1e6, 10.0), (1e6, 10.0)]), Regime::Unsteady);
        assert_eq!(at(&[]), Regime::Unsteady);
    }
}
