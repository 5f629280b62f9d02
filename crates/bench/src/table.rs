//! What a comparison prints, and what it writes as JSON. Pure functions of the pairs measured;
//! called by `latency`.

use crate::busy;
use crate::stats::{Regime, Spread, drifted};
use serde::Serialize;
use std::fmt::Write;

/// One run of each library, between two calibrations.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Flag before the pair, nanoseconds one way.
    pub before: f64,
    /// Flag after the pair, nanoseconds one way.
    pub after: f64,
    /// Ours, microseconds one way for each size.
    pub ours: Vec<f64>,
    /// The peer's, microseconds one way for each size.
    pub peer: Vec<f64>,
}

impl Pair {
    fn counts(&self) -> bool {
        !drifted(self.before, self.after)
    }

    fn regime(&self) -> Regime {
        Regime::of((self.before + self.after) / 2.0)
    }
}

/// A comparison: everything that was measured, and on what.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Name and version of our library.
    pub ours: String,
    /// Name and version of the peer.
    pub peer: String,
    /// Processors that may be used.
    pub processors: usize,
    /// Load of the machine (average of one minute) before and after.
    pub load: [Option<f64>; 2],
    /// Processors kept busy by others: before the first pair and after each.
    pub busy: Vec<f64>,
    /// Message sizes in bytes.
    pub sizes: Vec<u32>,
    /// The pairs, in the order they ran, also those that do not count.
    pub pairs: Vec<Pair>,
}

/// One line of a table.
#[derive(Debug, Serialize)]
struct Row {
    regime: Regime,
    bytes: u32,
    pairs: usize,
    /// Microseconds one way.
    ours: Spread,
    /// Microseconds one way.
    peer: Spread,
    /// Ours divided by the peer's, pair by pair.
    ratio: Spread,
}

impl Comparison {
    /// Pairs across which the calibration moved too much.
    fn dropped(&self) -> usize {
        self.pairs.iter().filter(|p| !p.counts()).count()
    }

    /// The pairs that count and ran in one regime.
    fn kept(&self, regime: Regime) -> Vec<&Pair> {
        self.pairs
            .iter()
            .filter(|p| p.counts() && p.regime() == regime)
            .collect()
    }

    /// Regimes are never mixed: a median over both would be a figure of neither.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for regime in [Regime::Near, Regime::Far] {
            let kept = self.kept(regime);
            for (i, &bytes) in self.sizes.iter().enumerate() {
                let spread =
                    |figure: &dyn Fn(&Pair) -> f64| Spread::of(kept.iter().map(|p| figure(p)));
                if let (Some(ours), Some(peer), Some(ratio)) = (
                    spread(&|p| p.ours[i]),
                    spread(&|p| p.peer[i]),
                    spread(&|p| p.ours[i] / p.peer[i]),
                ) {
                    let pairs = kept.len();
                    rows.push(Row {
                        regime,
                        bytes,
                        pairs,
                        ours,
                        peer,
                        ratio,
                    });
                }
            }
        }
        rows
    }

    /// A sentence about a machine too busy for these figures.
    pub fn warning(&self) -> Option<String> {
        busy::warning(&self.busy, self.processors)
    }

    /// The table for the terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let load = self
            .load
            .map(|l| l.map_or("?".into(), |l| format!("{l:.2}")));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "ours: {}\npeer: {}", self.ours, self.peer);
        let _ = writeln!(
            text,
            "processors: {}; load before and after: {}, {}",
            self.processors, load[0], load[1]
        );
        let _ = writeln!(
            text,
            "pairs: {}, of which {} left out because the calibration moved by more than {:.0} %",
            self.pairs.len(),
            self.dropped(),
            100.0 * crate::stats::DRIFT_MAX
        );
        if let Some(warning) = self.warning() {
            let _ = writeln!(text, "{warning}");
        }
        let rows = self.rows();
        for regime in [Regime::Near, Regime::Far] {
            let kept = self.kept(regime);
            let flags = kept.iter().flat_map(|p| [p.before, p.after]);
            let Some(flag) = Spread::of(flags) else {
                continue;
            };
            let _ = writeln!(
                text,
                "\n{}: {} pairs; flag one way {:.0} ns ({:.0} to {:.0})\n{:>9}  {:<36}{:<36}ours / peer (quartiles)",
                regime.name(),
                kept.len(),
                flag.median,
                flag.lower,
                flag.upper,
                "bytes",
                "ours us (quartiles)",
                "peer us (quartiles)"
            );
            for row in rows.iter().filter(|r| r.regime == regime) {
                let _ = writeln!(
                    text,
                    "{:>9}  {:<36}{:<36}{}",
                    row.bytes,
                    shown(&row.ours),
                    shown(&row.peer),
                    shown(&row.ratio)
                );
            }
        }
        if rows.is_empty() {
            text.push_str("\nno pair counts: let the machine come to rest and try again\n");
        }
        text
    }

    /// The JSON file: the comparison with the rows of its tables.
    ///
    /// # Errors
    /// When a figure is not a number.
    pub fn json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct File<'a> {
            #[serde(flatten)]
            comparison: &'a Comparison,
            dropped: usize,
            rows: Vec<Row>,
        }
        serde_json::to_string_pretty(&File {
            comparison: self,
            dropped: self.dropped(),
            rows: self.rows(),
        })
    }
}

fn shown(spread: &Spread) -> String {
    format!(
        "{:.3} ({:.3} to {:.3})",
        spread.median, spread.lower, spread.upper
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(before: f64, after: f64, ours: f64, peer: f64) -> Pair {
        Pair {
            before,
            after,
            ours: vec![ours],
            peer: vec![peer],
        }
    }

    fn comparison(pairs: Vec<Pair>) -> Comparison {
        Comparison {
            ours: "A".into(),
            peer: "B".into(),
            processors: 2,
            load: [Some(0.5), None],
            busy: vec![0.0, 0.1],
            sizes: vec![8],
            pairs,
        }
    }

    #[test]
    fn ratio_is_taken_pair_by_pair_and_regimes_stay_apart() {
        let c = comparison(vec![
            pair(50.0, 55.0, 0.1, 0.2),
            pair(250.0, 260.0, 0.5, 1.0),
            pair(50.0, 55.0, 0.3, 0.3),
            pair(50.0, 250.0, 9.0, 1.0),
        ]);
        let rows = c.rows();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].regime, rows[0].pairs), (Regime::Near, 2));
        assert!((rows[0].ratio.median - 0.75).abs() < 1e-9);
        assert!((rows[0].ours.median - 0.2).abs() < 1e-9);
        assert_eq!((rows[1].regime, rows[1].pairs), (Regime::Far, 1));
        assert_eq!(c.dropped(), 1);
        assert!(c.text().contains("pairs: 4, of which 1 left out"));
        assert!(c.json().unwrap().contains("\"dropped\": 1"));
    }

    #[test]
    fn a_busy_machine_is_said() {
        let quiet = comparison(vec![pair(50.0, 55.0, 0.1, 0.2)]);
        assert!(!quiet.text().contains("warning"));
        let busy = Comparison {
            busy: vec![0.0, 1.5],
            ..quiet
        };
        assert!(busy.text().contains("warning: others keep up to 1.5 of 2"));
    }

    #[test]
    fn nothing_that_counts_is_said() {
        let c = comparison(vec![pair(50.0, 250.0, 1.0, 1.0)]);
        assert!(c.text().contains("no pair counts"));
    }
}
