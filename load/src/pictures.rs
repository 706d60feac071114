//! Pictures (SVG): panels of lines one above the other, with a common x axis; and those of a profile's result: latency
//! by percentile, what happened over time, what the processes used.
//!
//! Owns: how a picture looks (light ground, a grid that stays behind the lines, colours that the colour-blind can tell
//! apart, units on every axis), and what is in a profile's. Promises: any finite points can be drawn, also none or one.
//! Must not: smooth or leave out a point.

use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::exit::Stop;
use crate::outcome::{Outcome, Samples, Seconds};

/// A picture.
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
}

/// What runs to the right.
pub(crate) enum Axis {
    /// Time since the measurement began.
    Seconds,
    /// 1 / (1 - quantile), by its logarithm: each step to the right is a nine more.
    Percentile,
    /// How much of this there is, by its logarithm.
    Size(String),
}

/// One panel.
pub(crate) struct Panel {
    label: String,
    pub(crate) lines: Vec<Line>,
    y: Range<f64>,
    logarithmic: bool,
}

/// One line.
pub(crate) struct Line {
    pub(crate) name: String,
    points: Vec<(f64, f64)>,
}

/// Lines of no more points than this show each of them.
const DOTTED: usize = 12;
/// Values that are further apart than this are drawn by their logarithm.
const SPREAD: f64 = 30.0;
const WIDTH: u32 = 900;
const TITLE: u32 = 56;
const LEGEND: u32 = 22;
/// Height of each panel if there is one, if there are two, and if there are more.
const PANEL: [u32; 3] = [420, 260, 185];
const INK: RGBColor = RGBColor(50, 50, 60);
const GREY: RGBColor = RGBColor(110, 110, 120);
const GRID: RGBColor = RGBColor(226, 228, 232);
/// Okabe and Ito's.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Line {
    pub(crate) fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        Line {
            name: name.to_owned(),
            points: points.into_iter().filter(finite).collect(),
        }
    }
}

impl Panel {
    /// From zero, or logarithmic if the values are far apart.
    pub(crate) fn new(label: &str, lines: impl IntoIterator<Item = Line>) -> Panel {
        let mut panel = Panel::from_zero(label, lines);
        let values = panel.lines.iter().flat_map(|line| &line.points);
        let positive = values.map(|(_, y)| *y).filter(|y| *y > 0.0);
        let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        if high > low * SPREAD {
            let top = (high * 1.2).log10().ceil().min(high.log10() + 0.6);
            panel.label += " (log)";
            panel.y = 10_f64.powf(low.log10().floor())..10_f64.powf(top);
            panel.logarithmic = true;
        }
        panel
    }

    fn from_zero(label: &str, lines: impl IntoIterator<Item = Line>) -> Panel {
        let lines: Vec<Line> = lines.into_iter().collect();
        let values = lines.iter().flat_map(|line| &line.points);
        let high = values.map(|(_, y)| *y).fold(0.0, f64::max);
        Panel {
            label: label.to_owned(),
            lines,
            y: 0.0..if high > 0.0 { high * 1.12 } else { 1.0 },
            logarithmic: false,
        }
    }
}

/// Draws a picture into a file, if it has lines.
pub(crate) fn save(picture: &Picture, file: &Path) -> Result<(), Stop> {
    if picture.panels.iter().all(|panel| panel.lines.is_empty()) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(file);
    let write = || -> Drawn {
        fs::create_dir_all(folder)?;
        Ok(fs::write(file, svg(picture)?)?)
    };
    write().map_err(|error| Stop::Own(format!("{}: {error}", file.display())))
}

fn svg(picture: &Picture) -> Result<String, Box<dyn Error>> {
    let count = picture.panels.len().max(1);
    let height = TITLE + PANEL[count.min(PANEL.len()) - 1] * count as u32;
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (top, rest) = root.split_vertically(TITLE);
        top.draw_text(&picture.title, &text(19.0, INK), (18, 10))?;
        top.draw_text(&picture.subtitle, &text(13.0, GREY), (18, 35))?;
        let areas = rest.split_evenly((count, 1));
        for (at, (panel, area)) in picture.panels.iter().zip(&areas).enumerate() {
            draw_panel(panel, &picture.x, at + 1 == count, area)?;
        }
        root.present()?;
    }
    Ok(out)
}

fn draw_panel(panel: &Panel, axis: &Axis, last: bool, area: &Area<'_>) -> Drawn {
    let (top, area) = area.split_vertically(LEGEND);
    legend(panel, &top)?;
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let most = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let x = match axis {
        Axis::Seconds => 0.0..most.max(1.0),
        Axis::Percentile => 1.0..most.max(100.0),
        Axis::Size(_) => {
            let least = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
            let least = least.clamp(1.0, most.max(1.0));
            // A little room on both sides, so that the outermost dots are whole.
            least / 1.15..most.max(least * 1.5) * 1.15
        }
    };
    let (y, frame) = (panel.y.clone(), (panel, axis, last));
    match (axis, panel.logarithmic) {
        (Axis::Seconds, false) => draw_lines(frame, &area, x, y),
        (Axis::Seconds, true) => draw_lines(frame, &area, x, y.log_scale()),
        (_, false) => draw_lines(frame, &area, x.log_scale(), y),
        (_, true) => draw_lines(frame, &area, x.log_scale(), y.log_scale()),
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
    let (label, shown): (_, fn(f64) -> String) = match axis {
        Axis::Seconds => ("seconds since measuring began", number),
        Axis::Percentile => ("percentile", percentile),
        Axis::Size(what) => (what.as_str(), number),
    };
    chart
        .configure_mesh()
        .x_desc(if last { label } else { "" })
        .y_desc(&panel.label)
        .x_label_formatter(&|value| shown(*value))
        .y_label_formatter(&|value| number(*value))
        .x_labels(10)
        .y_labels(6)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(text(12.0, INK))
        .axis_desc_style(text(13.0, INK))
        .draw()?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let points = || line.points.iter().map(|(x, y)| (*x, y.max(panel.y.start)));
        chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        if line.points.len() <= DOTTED {
            chart.draw_series(points().map(|at| Circle::new(at, 3, colour.filled())))?;
        }
    }
    Ok(())
}

/// The names of the lines in a row above the panel, where no line runs through them.
fn legend(panel: &Panel, area: &Area<'_>) -> Drawn {
    let mut x = 88;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let stroke = [(x, 14), (x + 18, 14)];
        area.draw(&PathElement::new(stroke, colour.stroke_width(3)))?;
        area.draw_text(&line.name, &text(12.0, INK), (x + 24, 8))?;
        // About what a letter takes; the picture's reader chooses the font.
        x += 48 + i32::try_from(line.name.chars().count()).unwrap_or(0) * 7;
    }
    Ok(())
}

fn text(size: f64, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

/// 1 → 0 %, 10 → 90 %, 100 → 99 %, …
fn percentile(above: f64) -> String {
    match above.log10().round() as usize {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        nines => format!("99.{} %", "9".repeat(nines - 2)),
    }
}

/// A label that is as short as it can be.
fn number(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    format!("{short}{suffix}")
}

/// Draws what a result has data for: `latency.svg`, `time.svg`, `resources.svg`.
pub fn draw(outcome: &Outcome, folder: &Path) -> Result<(), Stop> {
    let name = match &outcome.label {
        Some(label) if *label != outcome.profile => format!("{} ({label})", outcome.profile),
        _ => outcome.profile.clone(),
    };
    let pictures = [
        (
            "latency",
            "latency by percentile",
            Axis::Percentile,
            latency(outcome),
        ),
        ("time", "over time", Axis::Seconds, time(outcome)),
        (
            "resources",
            "what it used",
            Axis::Seconds,
            resources(outcome),
        ),
    ];
    for (file, what, x, mut panels) in pictures {
        panels.retain(|panel| !panel.lines.is_empty());
        let picture = Picture {
            title: format!("{name}: {what}"),
            subtitle: load(outcome),
            x,
            panels,
        };
        save(&picture, &folder.join(format!("{file}.svg")))?;
    }
    Ok(())
}

/// What the load was, and what is wrong with the run.
fn load(outcome: &Outcome) -> String {
    const SETTINGS: [(&str, &str); 6] = [
        ("connections", "connections"),
        ("in_flight", "in flight"),
        ("rate", "a second"),
        ("subscribers", "subscribers"),
        ("timelines", "timelines"),
        ("size", "bytes of text"),
    ];
    let number = |name: &str| outcome.settings.get(name)?.as_f64();
    // Messages on the way are no choice of an open loop.
    let closed = number("rate").is_none();
    let settings = SETTINGS
        .iter()
        .filter(|(name, _)| closed || *name != "in_flight");
    let mut parts: Vec<String> = settings
        .filter_map(|(name, words)| Some(format!("{} {words}", number(name)?)))
        .collect();
    parts.push(format!("{} cores", outcome.machine.cores));
    if !outcome.validity.valid {
        parts.push("INVALID".to_owned());
    }
    if !outcome.held() {
        parts.push(format!("{} FAULTS", outcome.checks.faults));
    }
    parts.join(", ")
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn latency(outcome: &Outcome) -> Vec<Panel> {
    let measured = outcome.latencies.iter().filter(|(_, of)| of.count > 0);
    let lines = measured.map(|(name, latency)| {
        // Up to where the share above is one operation: beyond, the curve is its maximum for ever.
        let most = latency.count as f64;
        let above = |quantile: f64| 1.0 / (1.0 - quantile).max(1.0 / most);
        let points = latency.curve.iter();
        Line::new(
            name,
            points.map(|(quantile, value, _)| (above(*quantile), ms(*value))),
        )
    });
    vec![Panel::new("latency, ms", lines)]
}

fn time(outcome: &Outcome) -> Vec<Panel> {
    // A second's values stand at its end, when it is known.
    let line = |name: &str, values: &[u64], of: fn(u64) -> f64| {
        let points = values.iter().enumerate();
        Line::new(
            name,
            points.map(|(at, value)| (at as f64 + 1.0, of(*value))),
        )
    };
    let series: Vec<(&String, &Seconds)> = outcome.series.latencies.iter().collect();
    let rate =
        |(name, seconds): &(&String, &Seconds)| line(name, &seconds.count, |count| count as f64);
    let latencies: Vec<Line> = match series.as_slice() {
        [(name, only)] => [("p50", &only.p50), ("p99", &only.p99), ("max", &only.max)]
            .map(|(which, values)| line(&format!("{name} {which}"), values, ms))
            .into(),
        several => several
            .iter()
            .map(|(name, seconds)| line(&format!("{name} p99"), &seconds.p99, ms))
            .collect(),
    };
    vec![
        Panel::new("operations a second", series.iter().map(rate)),
        Panel::new("latency, ms", latencies),
    ]
}

fn resources(outcome: &Outcome) -> Vec<Panel> {
    let (mut processor, mut memory, mut files, mut counted) = (vec![], vec![], vec![], vec![]);
    for (name, samples) in &outcome.series.samples {
        let scaled = |unit: f64| {
            let points = samples.at.iter().zip(&samples.value);
            points.map(move |(at, value)| (*at, value / unit))
        };
        let who = ["server", "generator"].into_iter().find_map(|who| {
            let what = name.strip_prefix(who)?.strip_prefix('_')?;
            Some((who, what))
        });
        match who {
            Some((who, "cpu_seconds")) => processor.push(Line::new(who, shares(samples))),
            Some((who, "resident_bytes")) => memory.push(Line::new(who, scaled(1e6))),
            Some((who, "descriptors")) => files.push(Line::new(who, scaled(1.0))),
            Some(_) => {}
            None => counted.push(Line::new(&name.replace('_', " "), scaled(1.0))),
        }
    }
    vec![
        Panel::from_zero("processor, % of one core", processor),
        Panel::from_zero("resident memory, MB", memory),
        Panel::from_zero("counted by the load", counted),
        Panel::from_zero("open files, sockets too", files),
    ]
}

/// Seconds of processor time so far → per cent of one core between two samples.
fn shares(used: &Samples) -> Vec<(f64, f64)> {
    let at = used.at.windows(2).zip(used.value.windows(2));
    at.filter(|(at, _)| at[1] - at[0] > 0.2)
        .map(|(at, value)| (at[1], (value[1] - value[0]) * 100.0 / (at[1] - at[0])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        let shown: Vec<String> = [0.0, 0.25, 12.0, 9_999.0, 50_000.0, 2_500_000.0]
            .map(number)
            .into();
        assert_eq!(shown, ["0", "0.25", "12", "9999", "50k", "2.5M"]);
        let shown: Vec<String> = [1.0, 10.0, 100.0, 10_000.0].map(percentile).into();
        assert_eq!(shown, ["0 %", "90 %", "99 %", "99.99 %"]);
    }

    #[test]
    fn nothing_and_one_point_and_odd_values_can_be_drawn() {
        for points in [
            vec![],
            vec![(1.0, 0.0)],
            vec![(0.0, f64::NAN), (3.0, 1e12), (4.0, 1e-9)],
        ] {
            for x in [Axis::Seconds, Axis::Percentile, Axis::Size("n".into())] {
                let line = || vec![Line::new("a <b> & c", points.clone())];
                let picture = Picture {
                    title: "t".into(),
                    subtitle: String::new(),
                    x,
                    panels: vec![Panel::from_zero("y", line()), Panel::new("z", line())],
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
