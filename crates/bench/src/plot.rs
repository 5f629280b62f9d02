//! A drawing of an experiment: a plot for each panel, as SVG. Colours tell implementations apart, marks variants,
//! and lines regimes: near and the only ones are solid, far are dashed, unsteady dotted. Bars reach from quartile
//! to quartile. Called by `command`.

use crate::Result;
use crate::report::{Outcome, Row};
use crate::statistics::Regime;
use plotters::coord::combinators::BindKeyPoints;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::ops::Range;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Size of a plot without its legend, in pixels.
const PLOT: (u32, u32) = (570, 420);
/// Least width of the legend, which stands beside: series may be anywhere in the plot. It is as wide as its longest name.
const LEGEND: u32 = 240;
/// Where names begin in the legend, and what is left free behind them, in pixels.
const LEGEND_NAMES: u32 = 44;
const LEGEND_MARGIN: u32 = 8;
/// Pixels that a character of a name takes at most, on average: sans-serif fonts differ, and the reader's has the say.
const LEGEND_CHARACTER: u32 = 8;

/// Where the legend begins, how far down it may reach, and from one line to the next, in pixels.
const LEGEND_TOP: i32 = 56;
const LEGEND_HEIGHT: i32 = PLOT.1 as i32 - LEGEND_TOP - 8;
const LEGEND_STEP: i32 = 20;

/// Colours that people who see fewer of them can tell apart (Okabe and Ito), and four more (Tol).
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(136, 34, 85),
    RGBColor(51, 34, 136),
    RGBColor(153, 153, 51),
    RGBColor(119, 119, 119),
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
    let lines: Vec<_> = panels.iter().map(|panel| lines(panel)).collect();
    let width = PLOT.0 + legend_width(lines.iter().flatten());
    let size = (width * columns as u32, PLOT.1 * rows as u32);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let fail = |e: DrawingAreaErrorKind<_>| format!("cannot draw: {e}");
        root.fill(&WHITE).map_err(fail)?;
        let areas = root.split_evenly((rows, columns));
        for ((area, outcome), lines) in areas.iter().zip(panels).zip(&lines) {
            plot(area, outcome, lines)
                .map_err(|e| format!("cannot draw {}: {e}", outcome.panel))?;
        }
        root.present().map_err(fail)?;
    }
    Ok(text)
}

/// What is wrong with a drawing.
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Pixels that a legend with the names of these lines takes.
fn legend_width<'a>(lines: impl Iterator<Item = &'a Line>) -> u32 {
    let longest = lines.map(|line| line.name.chars().count() as u32).max();
    let names = longest.unwrap_or(0) * LEGEND_CHARACTER;
    LEGEND.max(LEGEND_NAMES + names + LEGEND_MARGIN)
}

fn plot(area: &Area<'_>, outcome: &Outcome, lines: &[Line]) -> Drawn {
    let better = if outcome.unit.less_is_better {
        "less"
    } else {
        "more"
    };
    let ranks = match outcome.ranks {
        Some(1) => ", 1 rank".into(),
        Some(ranks) => format!(", {ranks} ranks"),
        None => String::new(),
    };
    let title = format!("{} {}{ranks}", outcome.experiment, outcome.panel);
    let (left, right) = area.split_horizontally(PLOT.0);
    let mut builder = ChartBuilder::on(&left);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64);
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = around(points().map(|p| p.0));
    let values = outcome.values.iter().map(|value| (*value as f64).max(1.0));
    let across = across.log_scale().with_key_points(values.collect());
    let up = around(points().flat_map(|p| p.1));
    let unit = format!("{} ({better} is better)", outcome.unit.name);
    if outcome.unit.zero {
        let most = if outcome.unit.share && up.end > 50.0 {
            105.0
        } else {
            up.end
        };
        let chart = builder.build_cartesian_2d(across, 0.0..most)?;
        draw(chart, outcome, &unit, lines)?;
    } else {
        let marks = ticks(&up);
        let chart = builder.build_cartesian_2d(across, up.log_scale().with_key_points(marks))?;
        draw(chart, outcome, &unit, lines)?;
    }
    legend(&right, lines)
}

fn draw<'a, 'b: 'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    outcome: &Outcome,
    unit: &str,
    lines: &[Line],
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    SVGBackend<'b>: DrawingBackend<ErrorType: 'static>,
{
    let plays = outcome.values != [0];
    chart
        .configure_mesh()
        .x_desc(if plays { outcome.axis } else { "" })
        .y_desc(unit)
        .x_label_formatter(&|x| if plays { short(*x) } else { String::new() })
        .y_label_formatter(&|y| tick(*y))
        .label_style(("sans-serif", 13))
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(WHITE)
        .draw()?;
    for Line { look, points, .. } in lines {
        let middle: Vec<_> = points.iter().map(|p| (p.0, p.1[1])).collect();
        let stroke = look.colour.stroke_width(2);
        match look.regime.dashes() {
            None => chart.draw_series(LineSeries::new(middle.iter().copied(), stroke))?,
            Some((dash, gap)) => {
                let points = middle.clone().into_iter();
                chart.draw_series(DashedLineSeries::new(points, dash, gap, stroke))?
            }
        };
        chart.draw_series(points.iter().map(|(x, [lower, _, upper])| {
            PathElement::new(
                vec![(*x, *lower), (*x, *upper)],
                look.colour.stroke_width(1),
            )
        }))?;
        chart.draw_series(middle.iter().map(|&at| mark(at, *look)))?;
    }
    Ok(())
}

/// A piece of each line, and its name.
fn legend(area: &Area<'_>, lines: &[Line]) -> Drawn {
    let style = ("sans-serif", 13).into_text_style(area);
    // Closer where there are many.
    let step = (LEGEND_HEIGHT / lines.len().max(1) as i32).min(LEGEND_STEP);
    for (i, Line { name, look, .. }) in (0..).zip(lines) {
        let y = LEGEND_TOP + step * i;
        let (from, to) = ((4, y), (36, y));
        let stroke = look.colour.stroke_width(2);
        match look.regime.dashes() {
            None => area.draw(&PathElement::new(vec![from, to], stroke))?,
            Some((dash, gap)) => {
                let points = [from, to].into_iter();
                area.draw(&DashedPathElement::new(points, dash, gap, stroke))?;
            }
        }
        area.draw(&mark((20, y), *look))?;
        area.draw_text(name, &style, (LEGEND_NAMES as i32, y - 7))?;
    }
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

/// Round numbers in a range on a logarithmic axis: 1, 2 and 5 of each decade, or only 1 if there are many decades.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let steps: &[f64] = match range.end / range.start > 1e4 {
        true => &[1.0],
        false => &[1.0, 2.0, 5.0],
    };
    decades
        .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
        .filter(|tick| range.contains(tick))
        .collect()
}

/// A round number.
fn tick(number: f64) -> String {
    // Six decimals are more than any axis shows; what they add to a round number are zeros.
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').into()
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
            text.contains("latency share") && text.contains("height=\"840\""),
            "{text}"
        );
    }

    #[test]
    fn many_lines_fit_the_legend() {
        let names: Vec<_> = (0..30).map(|i| format!("line-{i}-")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let many = outcome(&names, vec![round(Regime::Near, &[Some(1.0); 30])]);
        let text = svg(&[&many]).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let lowest = lines.windows(2).filter(|two| two[1].contains("line-"));
        let heights: Vec<f64> = lowest
            .filter_map(|two| two[0].split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), names.len(), "{text}");
        assert!(
            heights.iter().all(|y| *y < f64::from(PLOT.1)),
            "{heights:?}"
        );
    }

    #[test]
    fn the_legend_is_as_wide_as_its_longest_name() {
        let width = |name: &str| {
            let one = outcome(&[name], vec![round(Regime::Near, &[Some(1.0)])]);
            legend_width(lines(&one).iter())
        };
        assert_eq!(width("ours"), LEGEND);
        let long = "yamabiko-softirq-steered iallreduce-blocking";
        let shown = format!("{long} (near)").len() as u32;
        assert!(width(long) >= LEGEND_NAMES + shown * LEGEND_CHARACTER);
        let short = outcome(&["ours"], vec![round(Regime::Near, &[Some(1.0)])]);
        let other = outcome(&[long], vec![round(Regime::Near, &[Some(1.0)])]);
        let text = svg(&[&short, &other]).unwrap();
        let all = 2 * (PLOT.0 + width(long));
        assert!(text.contains(&format!("width=\"{all}\"")), "{text}");
    }

    #[test]
    fn sizes_are_short() {
        let shown = [8.0, 1024.0, 65536.0, 1048576.0, 1000.0, 1536.0].map(short);
        assert_eq!(shown, ["8", "1k", "64k", "1M", "1000", "1536"]);
    }

    #[test]
    fn axes_have_round_numbers() {
        let shown = |range| ticks(&range).into_iter().map(tick).collect::<Vec<_>>();
        assert_eq!(shown(0.3..12.0), ["0.5", "1", "2", "5", "10"]);
        assert_eq!(shown(15.0..65.0), ["20", "50"]);
        assert_eq!(shown(0.002..300.0), ["0.01", "0.1", "1", "10", "100"]);
    }

    #[test]
    fn ranges_have_room() {
        assert_eq!(around([3.0, 12.0].into_iter()), 2.0..18.0);
        assert_eq!(around(std::iter::empty()), 0.5..2.0);
    }
}
