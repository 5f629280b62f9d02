//! The text for the terminal. Pure functions of a report; called by `command`.

use crate::report::{Cell, Outcome, Report, Row};
use crate::statistics::{DRIFT_MAX, Regime, Spread};
use std::fmt::Write;

/// Widest line; series that do not fit become a table below.
const WIDTH: usize = 118;

/// What everything means; shown once.
const LEGEND: &str = "\
Medians of the rounds, +- half the distance between the quartiles (or both of them, a..b); x: divided by the base's
figure, round by round, also where these are shares. The base: --base, yamabiko unless given, or the first that takes
part; in the same variant, if it has that. -: no figure; in the first column: no value plays a part.";

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for one in report
        .implementations
        .iter()
        .filter(|one| !one.library.is_empty())
    {
        let _ = writeln!(text, "{}: {}", one.name, one.library);
    }
    let load = report
        .load
        .map(|l| l.map_or("?".into(), |l| format!("{l:.2}")));
    let model = report
        .model
        .as_deref()
        .map_or(String::new(), |model| format!(" ({model})"));
    let _ = writeln!(
        text,
        "processors: {}{model}; load before and after: {}, {}",
        report.processors, load[0], load[1]
    );
    if let Some(warning) = report.warning() {
        let _ = writeln!(text, "{warning}");
    }
    let _ = writeln!(text, "{LEGEND}");
    for outcome in &report.panels {
        panel(&mut text, outcome);
    }
    text
}

/// What a panel is about.
pub(crate) fn title(outcome: &Outcome) -> String {
    let name = match outcome.experiment == outcome.panel {
        true => outcome.panel.to_owned(),
        false => format!("{} {}", outcome.experiment, outcome.panel),
    };
    let better = match outcome.unit.less_is_better {
        true => "less is better",
        false => "more is better",
    };
    let ranks = match outcome.ranks {
        Some(1) => "1 rank; ".to_owned(),
        Some(ranks) => format!("{ranks} ranks; "),
        None => String::new(),
    };
    let unit = outcome.unit.name;
    format!("{name}: {}; {ranks}{unit}, {better}", outcome.about)
}

fn panel(text: &mut String, outcome: &Outcome) {
    let _ = writeln!(text, "\n{}", title(outcome));
    let rows = outcome.rows();
    for regime in Regime::ALL {
        let rows: Vec<_> = rows.iter().filter(|row| row.regime == regime).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "  {}", heading(outcome, regime));
            blocks(text, outcome, &rows);
        }
    }
    if rows.is_empty() {
        let _ = writeln!(text, "  nothing was measured");
    }
    if let Some(why) = outcome.why_absent(&rows) {
        let _ = writeln!(text, "  -: {why}");
    }
    for (regime, found) in &outcome.measured.lacking {
        let (regime, wanted) = (regime.name(), outcome.wanted);
        let _ = writeln!(
            text,
            "  {regime}: {found} of {wanted} rounds; the machine was not seen so for longer"
        );
    }
    printed(text, outcome);
    let failures = outcome.series.iter().zip(&outcome.measured.failures);
    for (series, why) in failures.filter_map(|(series, why)| Some((series, why.as_ref()?))) {
        let first = why.lines().next().unwrap_or_default();
        let _ = writeln!(text, "  {} failed: {first}", series.name());
    }
}

/// What a paper prints for it, on the machine it was written on: a line for each value.
fn printed(text: &mut String, outcome: &Outcome) {
    let mut values: Vec<_> = outcome.printed.iter().map(|one| one.value).collect();
    values.dedup();
    for value in values {
        let of_value = outcome.printed.iter().filter(|one| one.value == value);
        let figures: Vec<_> = of_value
            .map(|one| format!("{} {}", one.what, one.figure))
            .collect();
        let at = match value {
            None => " for its best case".to_owned(),
            Some(_) if outcome.values == [0] => String::new(),
            Some(value) => format!(" for {value} {}", outcome.axis),
        };
        let mut line = format!("  the paper prints{at}: ");
        for (i, figure) in figures.iter().enumerate() {
            let end = if i + 1 == figures.len() { "" } else { ", " };
            if line.chars().count() + figure.chars().count() + end.len() > WIDTH {
                let _ = writeln!(text, "{}", line.trim_end());
                line = "    ".into();
            }
            line.push_str(figure);
            line.push_str(end);
        }
        let _ = writeln!(text, "{line}");
    }
}

/// The line above the tables of a regime.
pub(crate) fn heading(outcome: &Outcome, regime: Regime) -> String {
    let rounds = outcome.rounds(regime);
    let all = || rounds.iter().flat_map(|round| &round.calibrations);
    let shown = |spread: Option<Spread>| spread.map_or("?".into(), |s| figure(&s, 2));
    let flag = match Spread::of(all().map(|c| c.flag)) {
        // Time slices, not cache lines.
        Some(flag) if flag.median > 1e5 => format!("{} ms", digits(flag.median * 1e-6)),
        flag => format!("{} ns", shown(flag)),
    };
    let memcpy = shown(Spread::of(all().map(|c| c.memcpy)));
    let count = rounds.len();
    let s = if count == 1 { "" } else { "s" };
    let left_out = match (regime, outcome.left_out()) {
        (_, 0) => String::new(),
        (Regime::Unsteady, _) => format!(
            "; the machine changed by more than {:.0} % in each, or was too busy: take no figure for sure",
            100.0 * DRIFT_MAX
        ),
        (_, n) => format!("; {n} left out because the machine changed meanwhile"),
    };
    let name = regime.name();
    format!("{name}: {count} round{s}; flag {flag}, memcpy {memcpy} GB/s{left_out}")
}

/// As many series beside each other as fit, the others below.
fn blocks(text: &mut String, outcome: &Outcome, rows: &[&Row]) {
    let value = |value: u64| match value {
        0 if outcome.values == [0] => "-".to_owned(),
        value => value.to_string(),
    };
    let first = column(
        outcome.axis.to_owned(),
        rows.iter().map(|row| value(row.value)),
    );
    let columns: Vec<Vec<String>> = outcome
        .series
        .iter()
        .enumerate()
        .map(|(i, series)| {
            let cells = rows
                .iter()
                .map(|row| row.cells[i].as_ref().map_or("-".into(), cell));
            column(series.name(), cells)
        })
        .collect();
    let mut left = columns.as_slice();
    while !left.is_empty() {
        let mut width = 4 + widest(&first);
        let mut fits = |column: &Vec<String>| {
            width += 3 + widest(column);
            width <= WIDTH
        };
        let count = left.iter().take_while(|column| fits(column)).count();
        // One that is too wide for itself is shown all the same.
        let (now, later) = left.split_at(count.max(1));
        left = later;
        for (line, start) in first.iter().enumerate() {
            let mut shown = format!("    {start:>width$}", width = widest(&first));
            for column in now {
                let _ = write!(shown, "   {:<width$}", column[line], width = widest(column));
            }
            let _ = writeln!(text, "{}", shown.trim_end());
        }
    }
}

fn column(head: String, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(head).chain(cells).collect()
}

fn widest(column: &[String]) -> usize {
    column
        .iter()
        .map(|cell| cell.chars().count())
        .max()
        .unwrap_or(0)
}

fn cell(cell: &Cell) -> String {
    let own = figure(&cell.figure, cell.rounds);
    match &cell.ratio {
        Some(ratio) => format!("{own}  x{}", figure(ratio, cell.rounds)),
        None => own,
    }
}

/// A median and, if there is more than one figure behind it, how sure it is: both quartiles where they are far
/// away.
fn figure(spread: &Spread, figures: usize) -> String {
    let median = digits(spread.median);
    match spread.relative() {
        _ if figures < 2 => median,
        Some(relative) if relative < 1.0 => format!("{median} +-{:.0}%", 100.0 * relative),
        None if spread.upper == 0.0 => median,
        _ => format!(
            "{median} ({}..{})",
            digits(spread.lower),
            digits(spread.upper)
        ),
    }
}

/// Three digits, or all before the point.
pub(crate) fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        n if n >= 0.9995 => 2,
        n if n >= 0.09995 => 3,
        n if n > 0.0 => 4,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Printed;
    use crate::report::tests::{outcome, report, round};

    #[test]
    fn three_digits_are_enough() {
        let shown = [0.0, 0.01234, 0.1234, 1.234, 9.999, 12.34, 123.4, 12345.6].map(digits);
        let expected = [
            "0", "0.0123", "0.123", "1.23", "10.0", "12.3", "123", "12346",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn how_sure_a_figure_is() {
        let of =
            |sample: &[f64]| figure(&Spread::of(sample.iter().copied()).unwrap(), sample.len());
        assert_eq!(of(&[1.0]), "1.00");
        assert_eq!(of(&[1.0, 2.0, 3.0]), "2.00 +-25%");
        assert_eq!(of(&[1.0, 2.0, 30.0]), "2.00 (1.50..16.0)");
        assert_eq!(of(&[0.0, 0.0, 0.0]), "0");
        assert_eq!(of(&[0.0, 0.0, 8.0]), "0 (0..4.00)");
    }

    #[test]
    fn a_table_has_figures_and_ratios() {
        let near = |a, b| round(Regime::Near, &[Some(a), Some(b)]);
        let both = outcome(&["ours", "theirs"], vec![near(1.0, 2.0), near(1.0, 2.0)]);
        let text = text(&report(vec![both]));
        assert!(
            text.contains("latency: one way; 2 ranks; us, less is better"),
            "{text}"
        );
        assert!(
            text.contains("near: 2 rounds; flag 50.0 +-0% ns, memcpy 10.0 +-0% GB/s\n"),
            "{text}"
        );
        assert!(text.contains("bytes   ours        theirs\n"), "{text}");
        assert!(
            text.contains("8   1.00 +-0%   2.00 +-0%  x2.00 +-0%\n"),
            "{text}"
        );
        assert!(
            !text.contains("warning") && !text.contains("far:"),
            "{text}"
        );
    }

    #[test]
    fn a_regime_that_lacks_rounds_is_told() {
        let mut panel = outcome(&["ours"], vec![round(Regime::Near, &[Some(1.0)])]);
        panel.measured.lacking = vec![(Regime::Near, 1), (Regime::Far, 0)];
        let told = text(&report(vec![panel]));
        assert!(told.contains("  near: 1 of 2 rounds; "), "{told}");
        assert!(told.contains("  far: 0 of 2 rounds; "), "{told}");
    }

    #[test]
    fn rounds_left_out_are_told() {
        let rounds = vec![
            round(Regime::Near, &[Some(1.0)]),
            round(Regime::Unsteady, &[Some(1.0)]),
        ];
        let told = text(&report(vec![outcome(&["ours"], rounds)]));
        assert!(
            told.contains("near: 1 round;") && told.contains("; 1 left out"),
            "{told}"
        );
        let rounds = vec![round(Regime::Unsteady, &[Some(1.0)])];
        let told = text(&report(vec![outcome(&["ours"], rounds)]));
        assert!(
            told.contains("unsteady: 1 round;") && told.contains("more than 20 %"),
            "{told}"
        );
    }

    #[test]
    fn failures_are_told() {
        let mut panel = outcome(&["ours"], Vec::new());
        panel.measured.failures = vec![Some("it broke\nin many lines".into())];
        let told = text(&report(vec![panel]));
        assert!(told.contains("nothing was measured"), "{told}");
        assert!(
            told.contains("ours failed: it broke\n") && !told.contains("many"),
            "{told}"
        );
    }

    #[test]
    fn why_there_is_no_figure_is_told() {
        let rounds = vec![round(Regime::Near, &[Some(1.0), None])];
        let mut panel = outcome(&["ours", "theirs"], rounds);
        panel.absent = "it never came to that";
        let told = text(&report(vec![panel]));
        assert!(told.ends_with("  -: it never came to that\n"), "{told}");
        let mut whole = outcome(&["ours"], vec![round(Regime::Near, &[Some(1.0)])]);
        whole.absent = "it never came to that";
        assert!(!text(&report(vec![whole])).contains("never"));
        let mut broken = outcome(&["ours"], vec![round(Regime::Near, &[None])]);
        broken.absent = "it never came to that";
        broken.measured.failures[0] = Some("it broke".into());
        assert!(!text(&report(vec![broken])).contains("never"));
    }

    #[test]
    fn printed_figures_are_shown_below() {
        const PRINTED: &[Printed] = &[
            Printed::new("A", 8, 12.8),
            Printed::new("B", 8, 20.0),
            Printed::new("A", 64, 30.0),
            Printed::at_best("C", 0.5),
        ];
        let mut panel = outcome(&["ours"], vec![round(Regime::Near, &[Some(1.0)])]);
        panel.printed = PRINTED;
        let told = text(&report(vec![panel]));
        assert!(
            told.ends_with(
                "  the paper prints for 8 bytes: A 12.8, B 20\n  the paper prints for 64 bytes: A 30\n  \
                 the paper prints for its best case: C 0.5\n"
            ),
            "{told}"
        );
    }

    #[test]
    fn a_busy_machine_is_told() {
        let mut busy = report(Vec::new());
        busy.busy = vec![0.0, 1.5];
        assert!(text(&busy).contains("warning: others keep up to 1.5 of 2"));
    }

    #[test]
    fn lines_stay_narrow() {
        let names: Vec<_> = (0..9).map(|i| format!("an-implementation-{i}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let rounds = vec![round(Regime::Near, &[Some(1.0); 9])];
        const PRINTED: Printed = Printed::new("something with a rather long name", 8, 12.8);
        const MANY: &[Printed] = &[PRINTED; 9];
        let mut panel = outcome(&names, rounds);
        panel.printed = MANY;
        let told = text(&report(vec![panel]));
        assert_eq!(told.matches(PRINTED.what).count(), MANY.len());
        assert!(
            told.lines().all(|line| line.chars().count() <= WIDTH),
            "{told}"
        );
        assert!(names.iter().all(|name| told.contains(name)), "{told}");
    }
}
