//! What was measured, and the figures that follow from it: data for `table`, `plot` and the JSON file. Pure
//! functions; called by `command`.

use crate::busy;
use crate::experiment::{Printed, Unit};
use crate::implementation::Described;
use crate::runner::{Measured, Round};
use crate::statistics::{Regime, Spread, ratio};
use serde::Serialize;

/// Everything that was measured, and on what.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of this program.
    pub version: &'static str,
    /// The command line.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// The model of the processors, if the kernel tells.
    pub model: Option<String>,
    /// Processors that may be used.
    pub processors: usize,
    /// Load of the machine (average of one minute) before and after.
    pub load: [Option<f64>; 2],
    /// Processors kept busy by others: before each experiment and after the last.
    pub busy: Vec<f64>,
    /// Whether somebody ended it before it was over: parts may be missing.
    pub interrupted: bool,
    /// Who was measured.
    pub implementations: Vec<Described>,
    /// What was measured.
    pub panels: Vec<Outcome>,
}

/// A panel, measured.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The experiment it belongs to.
    pub experiment: &'static str,
    /// Its name.
    pub panel: &'static str,
    /// What the figure is.
    pub about: &'static str,
    /// What the figure is in.
    pub unit: Unit,
    /// Why there may be no figure; empty where there always is one.
    pub absent: &'static str,
    /// What a paper prints for it.
    pub printed: &'static [Printed],
    /// What the values are.
    pub axis: &'static str,
    /// The values of the axis; 0 alone if it plays no part.
    pub values: Vec<u64>,
    /// How many ranks; none: as many as the value.
    pub ranks: Option<u32>,
    /// Who takes part.
    pub series: Vec<Series>,
    /// Rounds that were wanted.
    pub wanted: u32,
    /// What came of it.
    #[serde(flatten)]
    pub measured: Measured,
}

/// A series of a panel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The implementation's name.
    pub implementation: String,
    /// The variant; empty if there is but one.
    pub variant: &'static str,
    /// The series that it is compared with, if there is one besides itself.
    pub base: Option<usize>,
}

impl Series {
    /// Its name in tables and legends.
    pub fn name(&self) -> String {
        match self.variant {
            "" => self.implementation.clone(),
            variant => format!("{} {variant}", self.implementation),
        }
    }
}

/// A line of a table: a value of the axis, in one regime.
#[derive(Debug, Serialize)]
pub struct Row {
    /// In which state of the machine.
    pub regime: Regime,
    /// The value.
    pub value: u64,
    /// What each series has there.
    pub cells: Vec<Option<Cell>>,
}

/// The figures of a series at a value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// Rounds that have one.
    pub rounds: usize,
    /// In the panel's unit.
    pub figure: Spread,
    /// Divided by the base's figure, round by round; none of the base itself.
    pub ratio: Option<Spread>,
}

/// For each series (an implementation's number, a variant) the one that it is compared with: the same variant of
/// the implementation `base`, or its first; never itself. Where `base` takes no part, the first that does is it.
pub fn bases(series: &[(usize, &str)], base: usize) -> Vec<Option<usize>> {
    let of = |base| series.iter().position(|&(one, _)| one == base);
    let base = match (of(base), series.first()) {
        (None, Some(first)) => first.0,
        _ => base,
    };
    let same = |variant| series.iter().position(|&one| one == (base, variant));
    let all = series.iter().enumerate();
    all.map(|(me, &(_, variant))| {
        same(variant)
            .or_else(|| of(base))
            .filter(|found| *found != me)
    })
    .collect()
}

impl Outcome {
    /// The rounds of a regime. Those during which the machine changed are shown only where there are no others.
    pub fn rounds(&self, regime: Regime) -> Vec<&Round> {
        let all = &self.measured.rounds;
        if regime == Regime::Unsteady && all.iter().any(Round::counts) {
            return Vec::new();
        }
        all.iter().filter(|round| round.regime == regime).collect()
    }

    /// Why figures are missing from these lines, where a series that did not fail lacks some.
    pub fn why_absent(&self, rows: &[Row]) -> Option<&'static str> {
        let works = |series: usize| self.measured.failures[series].is_none();
        let mut cells = rows.iter().flat_map(|row| row.cells.iter().enumerate());
        let lacks = cells.any(|(series, cell)| cell.is_none() && works(series));
        (lacks && !self.absent.is_empty()).then_some(self.absent)
    }

    /// Rounds that do not count.
    pub fn left_out(&self) -> usize {
        let all = self.measured.rounds.iter();
        all.filter(|round| !round.counts()).count()
    }

    /// The lines of its tables.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for regime in Regime::ALL {
            let rounds = self.rounds(regime);
            if rounds.is_empty() {
                continue;
            }
            for (x, &value) in self.values.iter().enumerate() {
                let at = |round: &Round, series: usize| {
                    let figures = round.figures.get(series)?.as_ref()?;
                    figures.get(x).copied().filter(|figure| figure.is_finite())
                };
                let cell = |series: usize| {
                    let mine = || rounds.iter().map(|round| at(round, series));
                    let base = self.series[series].base;
                    let pairs = |base| rounds.iter().map(move |round| at(round, base));
                    Some(Cell {
                        rounds: mine().flatten().count(),
                        figure: Spread::of(mine().flatten())?,
                        ratio: base.and_then(|base| ratio(mine().zip(pairs(base)))),
                    })
                };
                rows.push(Row {
                    regime,
                    value,
                    cells: (0..self.series.len()).map(cell).collect(),
                });
            }
        }
        rows
    }
}

impl Report {
    /// A sentence about a machine too busy for these figures.
    pub fn warning(&self) -> Option<String> {
        busy::warning(&self.busy, self.processors)
    }

    /// What did not work: the sentences of all series that failed.
    pub fn failures(&self) -> Vec<&str> {
        let all = self
            .panels
            .iter()
            .flat_map(|panel| &panel.measured.failures);
        let mut said: Vec<_> = all.flatten().map(String::as_str).collect();
        // What does not compile fails in each panel.
        said.dedup();
        said
    }

    /// The JSON file: everything measured, and the lines of the tables.
    ///
    /// # Errors
    /// When a figure is not a number.
    pub fn json(&self) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(self)?;
        let panels = value["panels"].as_array_mut().into_iter().flatten();
        for (panel, outcome) in panels.zip(&self.panels) {
            panel["less_is_better"] = outcome.unit.less_is_better.into();
            panel["left_out"] = outcome.left_out().into();
            panel["rows"] = serde_json::to_value(outcome.rows())?;
        }
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::calibrate::Calibration;
    use crate::experiment::{MICROSECONDS, PERCENT_GAINED};

    /// A round with figures for a single value.
    pub fn round(regime: Regime, figures: &[Option<f64>]) -> Round {
        let flag = if regime == Regime::Far { 250.0 } else { 50.0 };
        Round {
            calibrations: vec![Calibration { flag, memcpy: 10.0 }; 2],
            regime,
            figures: figures.iter().map(|f| f.map(|f| vec![f])).collect(),
        }
    }

    /// A panel with a series for each of these names, the first being the base.
    pub fn outcome(names: &[&str], rounds: Vec<Round>) -> Outcome {
        let series = names.iter().enumerate().map(|(i, name)| Series {
            implementation: (*name).into(),
            variant: "",
            base: (i > 0).then_some(0),
        });
        Outcome {
            experiment: "latency",
            panel: "latency",
            about: "one way",
            unit: MICROSECONDS,
            absent: "",
            printed: &[],
            axis: "bytes",
            values: vec![8],
            ranks: Some(2),
            series: series.collect(),
            wanted: 2,
            measured: Measured {
                rounds,
                failures: vec![None; names.len()],
                lacking: Vec::new(),
            },
        }
    }

    /// A report with these panels.
    pub fn report(panels: Vec<Outcome>) -> Report {
        Report {
            version: "0",
            command: "yamabiko bench".into(),
            began: 0,
            model: Some("a processor".into()),
            processors: 2,
            load: [Some(0.5), None],
            busy: vec![0.0],
            interrupted: false,
            implementations: Vec::new(),
            panels,
        }
    }

    #[test]
    fn regimes_stay_apart_and_ratios_are_taken_round_by_round() {
        use Regime::{Far, Near, Unsteady};
        let outcome = outcome(
            &["a", "b"],
            vec![
                round(Near, &[Some(0.2), Some(0.1)]),
                round(Far, &[Some(1.0), Some(0.5)]),
                round(Near, &[Some(0.3), Some(0.3)]),
                round(Unsteady, &[Some(1.0), Some(9.0)]),
            ],
        );
        let rows = outcome.rows();
        let regimes: Vec<_> = rows.iter().map(|row| row.regime).collect();
        assert_eq!(regimes, [Near, Far]);
        let cell = rows[0].cells[1].unwrap();
        assert!((cell.ratio.unwrap().median - 0.75).abs() < 1e-9);
        assert!((cell.figure.median - 0.2).abs() < 1e-9);
        assert!(rows[0].cells[0].unwrap().ratio.is_none());
        assert_eq!(outcome.left_out(), 1);
    }

    #[test]
    fn unsteady_rounds_are_shown_where_there_are_no_others() {
        let outcome = outcome(&["a"], vec![round(Regime::Unsteady, &[Some(1.0)])]);
        assert_eq!(outcome.rows()[0].regime, Regime::Unsteady);
    }

    #[test]
    fn rounds_without_a_figure_leave_the_others() {
        let near = |figures: &[Option<f64>]| round(Regime::Near, figures);
        let outcome = outcome(
            &["a", "b", "c"],
            vec![
                near(&[Some(1.0), Some(2.0), None]),
                near(&[Some(4.0), None, None]),
            ],
        );
        let row = &outcome.rows()[0];
        assert_eq!(row.cells[0].unwrap().figure.median, 2.5);
        assert_eq!(row.cells[1].unwrap().ratio.unwrap().median, 2.0);
        assert!(row.cells[2].is_none());
    }

    #[test]
    fn a_figure_that_was_not_to_be_had_is_none() {
        let near = |figures: &[Option<f64>]| round(Regime::Near, figures);
        let outcome = outcome(
            &["a", "b"],
            vec![
                near(&[Some(f64::NAN), Some(4.0)]),
                near(&[Some(1.0), Some(2.0)]),
            ],
        );
        let row = &outcome.rows()[0];
        let (a, b) = (row.cells[0].unwrap(), row.cells[1].unwrap());
        assert_eq!((a.rounds, a.figure.median), (1, 1.0));
        assert_eq!((b.rounds, b.ratio.unwrap().median), (2, 2.0));
        let json: serde_json::Value =
            serde_json::from_str(&report(vec![outcome]).json().unwrap()).unwrap();
        assert!(json["panels"][0]["rounds"][0]["figures"][0][0].is_null());
    }

    #[test]
    fn a_series_is_compared_with_the_same_variant() {
        let series = [(0, "heap"), (0, "own"), (1, "heap"), (1, "own"), (2, "")];
        assert_eq!(bases(&series, 0), [None, None, Some(0), Some(1), Some(0)]);
        assert_eq!(
            bases(&series, 2),
            [Some(4), Some(4), Some(4), Some(4), None]
        );
        assert_eq!(bases(&series[..2], 1), [None, None]);
        assert_eq!(bases(&series[2..], 0), [None, None, Some(0)]);
        assert_eq!(bases(&[], 0), []);
    }

    #[test]
    fn the_file_holds_everything() {
        let mut outcome = outcome(&["a"], vec![round(Regime::Near, &[Some(1.5)])]);
        outcome.measured.failures[0] = Some("b: broken".into());
        outcome.unit = PERCENT_GAINED;
        let report = report(vec![outcome]);
        assert_eq!(report.failures(), ["b: broken"]);
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let panel = &json["panels"][0];
        assert_eq!(panel["unit"], "%");
        assert_eq!(panel["less_is_better"], false);
        assert_eq!(panel["rounds"][0]["calibrations"][0]["flag"], 50.0);
        assert_eq!(panel["rounds"][0]["figures"][0][0], 1.5);
        assert_eq!(panel["rows"][0]["cells"][0]["figure"]["median"], 1.5);
        assert_eq!(panel["rows"][0]["regime"], "near");
        assert_eq!(json["processors"], 2);
    }
}
