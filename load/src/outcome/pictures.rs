//! Pictures (SVG): panels of lines one above the other, with a common x axis; and those of a profile's result: latency
//! by percentile, what happened over time, what the processes used.
//!
//! Owns: how a picture looks (light ground, a grid that stays behind the lines, colours that the colour-blind can tell
//! apart, units on every axis), and what is in a profile's. Promises: any finite points can be drawn, also none or one.
//! Must not: smooth or leave out a point.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::data::fitting_range;
use plotters::prelude::*;

use super::figures::quantity;
use super::report;
use crate::exit::{Stop, Verdict};
use crate::outcome::{Outcome, Samples};

pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
}

/// What runs to the right.
pub(crate) enum Axis {
    /// Since the measurement began.
    Seconds,
    /// 1 / (1 - quantile), by its logarithm: each step to the right is a nine more.
    Percentile,
    /// How much of this there is, by its logarithm, and so is what runs up: what grows as this does is a straight line.
    Size(String),
}

/// One panel: its label and its lines.
pub(crate) struct Panel(String, pub(crate) Vec<Line>);

/// One line: its name and its points.
pub(crate) struct Line(pub(crate) String, pub(crate) Points);

pub(crate) type Points = Vec<(f64, f64)>;

/// Lines of no more points than this show each of them.
const DOTTED: usize = 12;
const WIDTH: u32 = 900;
const TITLE: u32 = 56;
const LEGEND: u32 = 22;
/// Height of each panel if there is one, if there are two, and if there are more.
const PANEL: [u32; 3] = [420, 260, 185];
const INK: RGBColor = RGBColor(50, 50, 60);
const GREY: RGBColor = RGBColor(110, 110, 120);
const GRID: RGBColor = RGBColor(226, 228, 232);
/// Okabe and Ito's.
const COLOURS: [[u8; 3]; 7] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [60, 60, 60],
];

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Panel {
    pub(crate) fn new(label: &str, mut lines: Vec<Line>) -> Panel {
        for line in &mut lines {
            line.1.retain(|(x, y)| x.is_finite() && y.is_finite());
        }
        Panel(label.to_owned(), lines)
    }

    /// Lines with their colours.
    fn lines(&self) -> impl Iterator<Item = (&Line, RGBColor)> {
        let colours = COLOURS.iter().map(|[r, g, b]| RGBColor(*r, *g, *b));
        self.1.iter().zip(colours.cycle())
    }

    /// From where to where its points go to the right, and up: those above 0.
    fn spans(&self) -> [Range<f64>; 2] {
        let points = self.1.iter().flat_map(|line| &line.1);
        let (x, y): (Vec<f64>, Vec<f64>) = points.copied().unzip();
        [x, y].map(|values| fitting_range(values.iter().filter(|value| **value > 0.0)))
    }
}

/// Draws a picture into a file, if its panels have lines.
pub(crate) fn save(picture: &Picture, file: &Path) -> Result<(), Stop> {
    if picture.panels.iter().all(|panel| panel.1.is_empty()) {
        return Ok(());
    }
    let drawn = svg(picture);
    let drawn = drawn.map_err(|error| Stop::Own(format!("{}: {error}", file.display())))?;
    report::write(file, &drawn)
}

fn svg(picture: &Picture) -> Result<String, Box<dyn Error>> {
    let panels = &picture.panels;
    let count = panels.len();
    let height = TITLE + PANEL[count.min(PANEL.len()) - 1] * count as u32;
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (top, rest) = root.split_vertically(TITLE);
        top.draw_text(&picture.title, &text(19.0, INK), (18, 10))?;
        top.draw_text(&picture.subtitle, &text(13.0, GREY), (18, 35))?;
        let areas = rest.split_evenly((count, 1));
        for (at, (panel, area)) in panels.iter().zip(&areas).enumerate() {
            draw_panel(panel, &picture.x, at + 1 == count, area)?;
        }
        root.present()?;
    }
    Ok(out)
}

fn draw_panel(panel: &Panel, axis: &Axis, last: bool, area: &Area<'_>) -> Drawn {
    let (top, area) = area.split_vertically(LEGEND);
    legend(panel, &top)?;
    let [x, y] = panel.spans();
    let linear = |span: &Range<f64>| 0.0..span.end * 1.12;
    // A little room on both sides, so that the outermost dots are whole.
    let log = |span: &Range<f64>| {
        let low = if span.start > 0.0 { span.start } else { 1.0 };
        (low / 1.15..span.end.max(low * 1.5) * 1.15).log_scale()
    };
    let frame = (panel, axis, last);
    match axis {
        Axis::Seconds => draw_lines(frame, &area, linear(&x), linear(&y)),
        Axis::Percentile => draw_lines(frame, &area, log(&x), linear(&y)),
        Axis::Size(_) => draw_lines(frame, &area, log(&x), log(&y)),
    }
}

fn draw_lines<X, Y>(
    (panel, axis, last): (&Panel, &Axis, bool),
    area: &Area<'_>,
    x: impl AsRangedCoord<CoordDescType = X, Value = f64>,
    y: impl AsRangedCoord<CoordDescType = Y, Value = f64>,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin_right(24)
        .margin_left(12)
        .margin_bottom(if last { 6 } else { 0 })
        .margin_top(4)
        .x_label_area_size(if last { 44 } else { 24 })
        .y_label_area_size(76)
        .build_cartesian_2d(x, y)?;
    let label = match axis {
        Axis::Seconds => "seconds since measuring began",
        Axis::Percentile => "percentile",
        Axis::Size(what) => what,
    };
    chart
        .configure_mesh()
        .x_desc(if last { label } else { "" })
        .y_desc(&panel.0)
        .x_label_formatter(&|value| match axis {
            Axis::Percentile => percentile(*value),
            _ => quantity(*value, "1"),
        })
        .y_label_formatter(&|value| quantity(*value, "1"))
        .x_labels(10)
        .y_labels(6)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(text(12.0, INK))
        .axis_desc_style(text(13.0, INK))
        .draw()?;
    for (line, colour) in panel.lines() {
        let points = || line.1.iter().copied();
        chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        if line.1.len() <= DOTTED {
            chart.draw_series(points().map(|at| Circle::new(at, 3, colour.filled())))?;
        }
    }
    Ok(())
}

/// The names of the lines in a row above the panel, where no line runs through them.
fn legend(panel: &Panel, area: &Area<'_>) -> Drawn {
    let mut x = 88;
    for (Line(name, _), colour) in panel.lines() {
        let stroke = [(x, 14), (x + 18, 14)];
        area.draw(&PathElement::new(stroke, colour.stroke_width(3)))?;
        area.draw_text(name, &text(12.0, INK), (x + 24, 8))?;
        // About what a letter takes; the picture's reader chooses the font.
        x += 48 + i32::try_from(name.chars().count()).unwrap_or(0) * 7;
    }
    Ok(())
}

fn text(size: f64, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

/// 1 → 0 %, 10 → 90 %, 100 → 99 %, …
fn percentile(above: f64) -> String {
    let above = 10_f64.powf(above.log10().round().max(0.0));
    format!("{} %", 100.0 - 100.0 / above)
}

/// Draws what a result has data for: `latency.svg`, `time.svg`, `resources.svg`.
pub fn draw(outcome: &Outcome, folder: &Path) -> Result<(), Stop> {
    use Axis::{Percentile, Seconds};
    let draw = |file: &str, what: &str, x: Axis, panels: Vec<Panel>| {
        let picture = Picture {
            title: format!("{}: {what}", outcome.title()),
            subtitle: load(outcome),
            x,
            panels,
        };
        save(&picture, &folder.join(file))
    };
    draw(
        "latency.svg",
        "latency by percentile",
        Percentile,
        latency(outcome),
    )?;
    draw("time.svg", "over time", Seconds, time(outcome))?;
    draw("resources.svg", "what it used", Seconds, resources(outcome))
}

/// What the load was, and what is wrong with the run.
fn load(outcome: &Outcome) -> String {
    let number = |name: &str| outcome.settings.get(name)?.as_f64();
    // Messages on the way are no choice of an open loop.
    let loops = number("rate").map_or("in_flight", |_| "rate");
    let mut parts = Vec::new();
    for name in ["connections", loops, "subscribers", "timelines", "size"] {
        let value = number(name).map(|value| quantity(value, "1"));
        parts.extend(value.map(|value| format!("{} {value}", name.replace('_', " "))));
    }
    parts.push(format!("{} cores", outcome.machine.cores));
    parts.extend(match outcome.verdict() {
        Verdict::Broken => Some("FAULTS".to_owned()),
        Verdict::Invalid => Some("INVALID".to_owned()),
        Verdict::Held | Verdict::Worse => None,
    });
    parts.join(", ")
}

fn latency(outcome: &Outcome) -> Vec<Panel> {
    let lines = outcome.latencies.iter().map(|(name, latency)| {
        // Up to where the share above is one operation: beyond, the curve is its maximum for ever.
        let least = 1.0 / latency.count.max(1) as f64;
        let above = |quantile: f64| 1.0 / (1.0 - quantile).max(least);
        let points = latency.curve.iter();
        let points =
            points.map(|(quantile, micros, _)| (above(*quantile), *micros as f64 / 1_000.0));
        Line(name.clone(), points.collect())
    });
    let lines = lines.filter(|line| !line.1.is_empty());
    vec![Panel::new("latency, ms", lines.collect())]
}

fn time(outcome: &Outcome) -> Vec<Panel> {
    // A second's values stand at its end, when it is known.
    let line = |name: &str, values: &[u64], unit: f64| {
        let ends = (1..).map(f64::from);
        let values = values.iter().map(|value| *value as f64 / unit);
        Line(name.to_owned(), ends.zip(values).collect())
    };
    let (mut rates, mut latencies) = (Vec::new(), Vec::new());
    for (name, seconds) in &outcome.series.latencies {
        rates.push(line(name, &seconds.count, 1.0));
        latencies.push(line(name, &seconds.p99, 1_000.0));
    }
    vec![
        Panel::new("operations a second", rates),
        Panel::new("p99 of the second, ms", latencies),
    ]
}

fn resources(outcome: &Outcome) -> Vec<Panel> {
    let mut panels = BTreeMap::<&str, Vec<Line>>::new();
    for (name, samples) in &outcome.series.samples {
        let points = |unit: f64| {
            let points = samples.at.iter().zip(&samples.value);
            points.map(|(at, value)| (*at, value / unit)).collect()
        };
        let (who, what) = name.split_once('_').unwrap_or((name, ""));
        let (panel, points) = match what {
            "cpu_seconds" => ("processor, % of one core", shares(samples)),
            "resident_bytes" => ("resident memory, MB", points(1e6)),
            "descriptors" => ("open files, sockets too", points(1.0)),
            "written_bytes" => continue,
            _ => ("counted by the load", points(1.0)),
        };
        let line = Line(who.to_owned(), points);
        panels.entry(panel).or_default().push(line);
    }
    let panels = panels.into_iter();
    panels
        .map(|(label, lines)| Panel::new(label, lines))
        .collect()
}

/// Seconds of processor time so far → per cent of one core between two samples.
fn shares(used: &Samples) -> Points {
    let at = used.at.windows(2).zip(used.value.windows(2));
    at.filter(|(at, _)| at[1] - at[0] > 0.2)
        .map(|(at, value)| (at[1], (value[1] - value[0]) * 100.0 / (at[1] - at[0])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_nine_more() {
        let shown: Vec<String> = [1.0, 10.0, 100.0, 10_000.0].map(percentile).into();
        assert_eq!(shown, ["0 %", "90 %", "99 %", "99.99 %"]);
    }

    #[test]
    fn nothing_and_one_point_and_odd_values_can_be_drawn() {
        for points in [
            vec![],
            vec![(1.0, 0.0)],
            vec![(0.0, f64::NAN), (3.0, 1e12), (4.0, 1e-9), (5.0, -1.0)],
        ] {
            for x in [Axis::Seconds, Axis::Percentile, Axis::Size("n".into())] {
                let line = Line("a <b> & c".into(), points.clone());
                let picture = Picture {
                    title: "t".into(),
                    subtitle: String::new(),
                    x,
                    panels: vec![Panel::new("y", vec![line])],
                };
                let svg = svg(&picture).expect("drawn");
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            }
        }
    }

    #[test]
    fn processor_time_becomes_shares() {
        let used = Samples {
            at: vec![0.0, 1.0, 3.0, 3.01],
            value: vec![5.0, 5.5, 8.5, 8.5],
        };
        assert_eq!(shares(&used), [(1.0, 50.0), (3.0, 150.0)]);
    }
}
