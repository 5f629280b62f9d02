//! What a kernel prints, read strictly: it may be broken, and figures that were misread would be worse than
//! none. The form is described in `kernels/bench.h`. Called by `kernels`.

use crate::process::printable;
use crate::{Result, experiment::Unit};

/// Longest name of a library, in characters.
const NAME_MAX: usize = 200;
/// Longest line that an error shows, in characters.
const SHOWN_MAX: usize = 120;

/// What a kernel said.
#[derive(Debug, PartialEq)]
pub struct Said {
    /// What it ran on.
    pub library: String,
    /// A figure for each value of the axis; not a number where there was none to be had.
    pub figures: Vec<f64>,
}

/// Reads the output of a kernel that was asked about `values`.
///
/// # Errors
/// When a line is anything but what has to stand there.
pub fn parse(text: &str, values: &[u64], unit: Unit) -> Result<Said> {
    let mut lines = text.split_terminator('\n');
    let mut next = |expected: &str| {
        lines
            .next()
            .ok_or_else(|| format!("printed nothing where `{expected}` was expected"))
    };
    let line = next("library NAME")?;
    let name = line.strip_prefix("library ").map(tidy);
    let library = name.filter(|name| !name.is_empty());
    let library = library.ok_or_else(|| wrong(line, "library NAME"))?;
    let mut figures = Vec::new();
    for value in values {
        let expected = format!("point {value} FIGURE");
        let line = next(&expected)?;
        let found = line
            .strip_prefix(&format!("point {value} "))
            .and_then(|number| figure(number, unit));
        figures.push(found.ok_or_else(|| wrong(line, &expected))?);
    }
    let line = next("end")?;
    if line != "end" {
        return Err(wrong(line, "end"));
    }
    match lines.next() {
        None => Ok(Said { library, figures }),
        Some(line) => Err(wrong(line, "nothing more")),
    }
}

/// A figure; not a number where the kernel says that there is none to be had.
fn figure(text: &str, unit: Unit) -> Option<f64> {
    if text == "-" {
        return Some(f64::NAN);
    }
    let number = text.parse().ok();
    number
        .filter(|figure: &f64| figure.is_finite() && (*figure > 0.0 || unit.zero && *figure == 0.0))
}

fn wrong(line: &str, expected: &str) -> String {
    let line: String = printable(line).chars().take(SHOWN_MAX).collect();
    format!("printed `{line}` where `{expected}` was expected")
}

/// A name without control characters and runs of blanks.
fn tidy(name: &str) -> String {
    let name = printable(name);
    let words: Vec<_> = name.split_whitespace().collect();
    words.join(" ").chars().take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{MICROSECONDS, PERCENT_GAINED};
    use proptest::prelude::*;

    #[test]
    fn output_is_read() {
        let text = "library X\t  1.0 \npoint 8 0.25\npoint 64 1e3\nend\n";
        let said = parse(text, &[8, 64], MICROSECONDS).unwrap();
        assert_eq!(said.library, "X 1.0");
        assert_eq!(said.figures, [0.25, 1000.0]);
    }

    #[test]
    fn other_output_is_refused() {
        let refused = |text: &str| parse(text, &[8, 64], MICROSECONDS).unwrap_err();
        assert!(refused("").contains("nothing where `library NAME`"));
        assert!(refused("warning: no card\nlibrary X\n").contains("`warning: no card`"));
        assert!(refused("library \n").contains("`library NAME`"));
        assert!(refused("library X\n").contains("nothing where `point 8 FIGURE`"));
        assert!(refused("library X\npoint 16 1\n").contains("`point 8 FIGURE`"));
        assert!(refused("library X\npoint 8 1\npoint 8 1\n").contains("`point 64 FIGURE`"));
        for figure in ["x", "", "0", "-1", "nan", "inf", "1 2", " 1", "1\r"] {
            let text = format!("library X\npoint 8 {figure}\npoint 64 1\nend\n");
            assert!(refused(&text).contains("`point 8 FIGURE`"), "{figure:?}");
        }
        let good = "library X\npoint 8 1\npoint 64 1\n";
        assert!(refused(good).contains("`end`"));
        assert!(refused(&format!("{good}point 512 1\nend\n")).contains("`end`"));
        assert!(refused(&format!("{good}end\nend\n")).contains("nothing more"));
    }

    #[test]
    fn only_a_share_may_be_nothing() {
        let text = "library X\npoint 8 0\nend\n";
        assert!(parse(text, &[8], MICROSECONDS).is_err());
        assert_eq!(parse(text, &[8], PERCENT_GAINED).unwrap().figures, [0.0]);
    }

    #[test]
    fn there_may_be_no_figure_to_be_had() {
        let text = "library X\npoint 8 -\npoint 64 2\nend\n";
        let figures = parse(text, &[8, 64], MICROSECONDS).unwrap().figures;
        assert!(figures[0].is_nan() && figures[1] == 2.0);
    }

    #[test]
    fn what_is_shown_cannot_move_the_cursor() {
        let long = format!("\u{1b}[2J{}", "y".repeat(100_000));
        let why = parse(&long, &[8], MICROSECONDS).unwrap_err();
        assert!(why.len() < 300 && !why.contains('\u{1b}'));
        let said = parse(
            &format!("library A\u{1b}[2J{long}\nend\n"),
            &[],
            MICROSECONDS,
        )
        .unwrap();
        assert!(said.library.len() <= NAME_MAX && !said.library.contains('\u{1b}'));
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in "(library|point|end|[0-9]| |\n|\\PC){0,60}") {
            let _ = parse(&text, &[8], MICROSECONDS);
        }

        #[test]
        fn what_was_printed_is_what_is_read(
            points in proptest::collection::vec((0..u64::MAX, 1e-9..1e12_f64), 0..20),
        ) {
            let mut text = String::from("library L\n");
            for (value, figure) in &points {
                text += &format!("point {value} {figure}\n");
            }
            text += "end\n";
            let values: Vec<_> = points.iter().map(|p| p.0).collect();
            let figures: Vec<_> = points.iter().map(|p| p.1).collect();
            prop_assert_eq!(parse(&text, &values, MICROSECONDS).unwrap().figures, figures);
        }
    }
}
