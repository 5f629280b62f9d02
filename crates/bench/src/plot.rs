//! A drawing of an experiment: a plot for each panel, as SVG. Colours tell implementations apart, marks variants,
//! and lines regimes: near and the only ones are solid, far are dashed, unsteady dotted. Bars reach from quartile
//! to quartile. Called by `command`.

use crate::Result;
use crate::report::{Outcome, Row};
use crate::statistics::Regime;
use crate::table::digits;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Size of a plot.
const PLOT: (u32, u32) = (620, 430);

/// Colours that people who see fewer of them can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// What a line of a plot looks like.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    mark: usize,
    regime: Regime,
}

/// A point: value of the axis, lower quartile, median, upper quartile.
type Point = (f64, [f64; 3]);

/// A line of a plot.
struct Line {
    name: String,
    look: Look,
    points: Vec<Point>,
}

/// Draws the panels of an experiment.
///
/// # Errors
/// When it cannot be drawn.
pub fn svg(panels: &[&Outcome]) -> Result<String> {
    let columns = if panels.len() > 1 { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns).max(1);
    let size = (PLOT.0 * columns as u32, PLOT.1 * rows as u32);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let fail = |e: DrawingAreaErrorKind<_>| format!("cannot draw: {e}");
        root.fill(&WHITE).map_err(fail)?;
        for (area, outcome) in root.split_evenly((rows, columns)).iter().zip(panels) {
            plot(area, outcome).map_err(|e| format!("cannot draw {}: {e}", outcome.panel))?;
        }
        root.present().map_err(fail)?;
    }
    Ok(text)
}

fn plot(area: &Area<'_>, outcome: &Outcome) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let lines = lines(outcome);
    let better = if outcome.unit.less_is_better {
        "less"
    } else {
        "more"
    };
    let ranks = outcome.ranks.map_or(String::new(), |n| {
        format!(", {n} rank{}", if n == 1 { "" } else { "s" })
    });
    let title = format!("{} {}{ranks}", outcome.experiment, outcome.panel);
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64);
    let across = around(lines.iter().flat_map(|l| &l.points).map(|p| p.0));
    let up = around(lines.iter().flat_map(|l| &l.points).flat_map(|p| p.1));
    let unit = format!("{} ({better} is better)", outcome.unit.name);
    if outcome.unit.share {
        let most = if up.end > 50.0 { 105.0 } else { up.end };
        let chart = builder.build_cartesian_2d(across.log_scale(), 0.0..most)?;
        draw(chart, outcome, &unit, &lines)
    } else {
        let chart = builder.build_cartesian_2d(across.log_scale(), up.log_scale())?;
        draw(chart, outcome, &unit, &lines)
    }
}

fn draw<'a, 'b: 'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    outcome: &Outcome,
    unit: &str,
    lines: &[Line],
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    SVGBackend<'b>: DrawingBackend<ErrorType: 'static>,
{
    let axis = if outcome.values == [0] {
        ""
    } else {
        outcome.axis
    };
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc(unit)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| digits(*y))
        .label_style(("sans-serif", 13))
        .light_line_style(WHITE)
        .draw()?;
    for line in lines {
        let Look { colour, regime, .. } = line.look;
        let middle: Vec<_> = line.points.iter().map(|p| (p.0, p.1[1])).collect();
        let stroke = colour.stroke_width(2);
        let drawn = match regime.dashes() {
            None => chart.draw_series(LineSeries::new(middle.iter().copied(), stroke))?,
            Some((dash, gap)) => {
                let points = middle.clone().into_iter();
                chart.draw_series(DashedLineSeries::new(points, dash, gap, stroke))?
            }
        };
        let look = line.look;
        drawn
            .label(line.name.as_str())
            .legend(move |(x, y)| mark((x + 8, y), look));
        chart.draw_series(line.points.iter().map(|(x, [lower, _, upper])| {
            PathElement::new(vec![(*x, *lower), (*x, *upper)], colour.stroke_width(1))
        }))?;
        chart.draw_series(middle.iter().map(|&at| mark(at, look)))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
}

impl Regime {
    /// Length of dashes and gaps, in pixels, if a line is not solid.
    fn dashes(self) -> Option<(u32, u32)> {
        match self {
            Regime::Near | Regime::Any => None,
            Regime::Far => Some((8, 5)),
            Regime::Unsteady => Some((2, 4)),
        }
    }
}

/// The mark of a point, in the plot or (where coordinates are pixels) in the legend.
fn mark<'a, C: Clone + 'static>(at: C, look: Look) -> DynElement<'static, SVGBackend<'a>, C> {
    let (filled, hollow) = (look.colour.filled(), look.colour.stroke_width(2));
    match look.mark % 4 {
        0 => Circle::new(at, 4, filled).into_dyn(),
        1 => TriangleMarker::new(at, 6, filled).into_dyn(),
        2 => Cross::new(at, 4, hollow).into_dyn(),
        _ => Circle::new(at, 4, hollow).into_dyn(),
    }
}

/// The lines of a plot: a series in a regime, where it has figures.
fn lines(outcome: &Outcome) -> Vec<Line> {
    let rows = outcome.rows();
    let mut names: Vec<&str> = Vec::new();
    let mut variants: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for (i, series) in outcome.series.iter().enumerate() {
        let colour = place(&mut names, &series.implementation);
        let mark = place(&mut variants, series.variant);
        for regime in Regime::ALL {
            let of_regime = rows.iter().filter(|row| row.regime == regime);
            let points: Vec<_> = of_regime.filter_map(|row| point(row, i)).collect();
            if points.is_empty() {
                continue;
            }
            let name = match regime {
                Regime::Any => series.name(),
                regime => format!("{} ({})", series.name(), regime.name()),
            };
            let look = Look {
                colour: COLOURS[colour % COLOURS.len()],
                mark,
                regime,
            };
            lines.push(Line { name, look, points });
        }
    }
    lines
}

/// The place of a word in a list, which gets it if it has it not.
fn place<'a>(list: &mut Vec<&'a str>, word: &'a str) -> usize {
    let found = list.iter().position(|known| *known == word);
    found.unwrap_or_else(|| {
        list.push(word);
        list.len() - 1
    })
}

/// The least value on logarithmic axes: those have no 0.
const LEAST: f64 = 1e-6;

fn point(row: &Row, series: usize) -> Option<Point> {
    let figure = row.cells[series]?.figure;
    let quartiles = [figure.lower, figure.median, figure.upper];
    Some(((row.value as f64).max(1.0), quartiles.map(|y| y.max(LEAST))))
}

/// A range around the values, with some room on a logarithmic axis; around 1 if there are none.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    match least <= most {
        true => least / 1.5..most * 1.5,
        false => 0.5..2.0,
    }
}

/// A value of the axis, in powers of 1024 where it is one: 64k, 1M.
fn short(value: f64) -> String {
    for (size, letter) in [(20, 'M'), (10, 'k')] {
        let of = value / f64::from(1 << size);
        if of >= 1.0 && of.fract() == 0.0 {
            return format!("{of:.0}{letter}");
        }
    }
    format!("{value:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::PERCENT_GAINED;
    use crate::report::tests::{outcome, round};

    #[test]
    fn both_regimes_are_drawn_apart() {
        let rounds = vec![
            round(Regime::Near, &[Some(0.1), Some(0.9)]),
            round(Regime::Far, &[Some(0.4), None]),
        ];
        let both = outcome(&["ours", "a<b"], rounds);
        let drawn = lines(&both);
        let names: Vec<_> = drawn.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["ours (near)", "ours (far)", "a<b (near)"]);
        assert_eq!(drawn[0].look.colour, drawn[1].look.colour);
        assert_ne!(drawn[0].look.colour, drawn[2].look.colour);
        let text = svg(&[&both]).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(
            text.contains("ours (far)") && text.contains("a&lt;b (near)"),
            "{text}"
        );
    }

    #[test]
    fn every_panel_is_drawn_even_an_empty_one() {
        let mut share = outcome(&["ours"], vec![round(Regime::Any, &[Some(0.0)])]);
        share.unit = PERCENT_GAINED;
        share.panel = "share";
        let mut single = outcome(&["ours"], vec![round(Regime::Any, &[Some(1.0)])]);
        single.values = vec![0];
        let text = svg(&[&share, &single, &outcome(&[], Vec::new())]).unwrap();
        assert!(
            text.contains("latency share") && text.contains("height=\"860\""),
            "{text}"
        );
    }

    #[test]
    fn sizes_are_short() {
        let shown = [8.0, 1024.0, 65536.0, 1048576.0, 1000.0, 1536.0].map(short);
        assert_eq!(shown, ["8", "1k", "64k", "1M", "1000", "1536"]);
    }

    #[test]
    fn ranges_have_room() {
        assert_eq!(around([3.0, 12.0].into_iter()), 2.0..18.0);
        assert_eq!(around(std::iter::empty()), 0.5..2.0);
    }
}
