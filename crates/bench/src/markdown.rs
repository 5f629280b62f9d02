//! The report as Markdown, for a document that shows it: the medians alone, the best of each line marked. Pure functions; called by
//! `command`.

use std::cmp::Ordering;
use std::fmt::Write;

use crate::report::{Cell, Outcome, Report, Row};
use crate::statistics::Regime;
use crate::table::{digits, heading, title};

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let model = report
        .model
        .as_deref()
        .map_or(String::new(), |model| format!(" ({model})"));
    let processors = report.processors;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "On {processors} processors{model}; medians, the best of a line is marked.\n"
    );
    for one in &report.implementations {
        if !one.library.is_empty() {
            let _ = writeln!(text, "* {}: {}", one.name, one.library);
        }
    }
    for outcome in &report.panels {
        panel(&mut text, outcome);
    }
    text
}

fn panel(text: &mut String, outcome: &Outcome) {
    let _ = writeln!(text, "\n**{}**", title(outcome));
    let rows = outcome.rows();
    for regime in Regime::ALL {
        let rows: Vec<_> = rows.iter().filter(|row| row.regime == regime).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "\n{}\n", heading(outcome, regime));
            table(text, outcome, &rows);
        }
    }
    if let Some(why) = outcome.why_absent(&rows) {
        let _ = writeln!(text, "\n–: {why}");
    }
}

fn table(text: &mut String, outcome: &Outcome, rows: &[&Row]) {
    let series = outcome.series.iter();
    let names: Vec<_> = series.map(|series| series.name()).collect();
    let _ = writeln!(text, "| {} | {} |", outcome.axis, names.join(" | "));
    let _ = writeln!(text, "|--:|{}", "--:|".repeat(names.len()));
    for row in rows {
        let best = best(outcome.unit.less_is_better, &row.cells);
        let cells: Vec<_> = row
            .cells
            .iter()
            .enumerate()
            .map(|(i, cell)| match cell {
                None => "–".to_owned(),
                Some(cell) if best == Some(i) => format!("**{}**", digits(cell.figure.median)),
                Some(cell) => digits(cell.figure.median),
            })
            .collect();
        let value = match row.value {
            0 if outcome.values == [0] => "–".to_owned(),
            value => value.to_string(),
        };
        let _ = writeln!(text, "| {value} | {} |", cells.join(" | "));
    }
}

/// Which of several is the best; none where there is only one.
fn best(less_is_better: bool, cells: &[Option<Cell>]) -> Option<usize> {
    let figures = cells.iter().enumerate();
    let mut figures: Vec<_> = figures
        .filter_map(|(i, cell)| Some((cell.as_ref()?.figure.median, i)))
        .collect();
    figures.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let found = match less_is_better {
        true => figures.first(),
        false => figures.last(),
    };
    found.filter(|_| figures.len() > 1).map(|&(_, i)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{outcome, report, round};

    #[test]
    fn the_best_is_marked() {
        let near = |a, b| round(Regime::Near, &[Some(a), b]);
        let both = outcome(&["ours", "theirs"], vec![near(1.0, Some(2.0))]);
        let told = text(&report(vec![both]));
        assert!(
            told.contains("| bytes | ours | theirs |\n|--:|--:|--:|\n"),
            "{told}"
        );
        assert!(told.contains("| 8 | **1.00** | 2.00 |\n"), "{told}");
        assert!(told.contains("latency: one way; 2 ranks; us"), "{told}");
        let alone = outcome(&["ours", "theirs"], vec![near(1.0, None)]);
        let told = text(&report(vec![alone]));
        assert!(told.contains("| 8 | 1.00 | – |\n"), "{told}");
    }
}
