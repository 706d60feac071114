//! One picture: panels of lines one above the other, with a common x axis.
//!
//! Owns: how a picture looks (light ground, a grid that stays behind the lines, colours that the colour-blind can tell
//! apart, units on every axis). Promises: any finite points can be drawn, also none or one. Must not: know results.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// A picture.
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) x: Scale,
    pub(super) panels: Vec<Panel>,
}

/// What runs to the right.
#[derive(Clone)]
pub(super) enum Scale {
    /// Time since the measurement began.
    Seconds,
    /// 1 / (1 - quantile), by its logarithm: each step to the right is a nine more.
    Percentile,
    /// How much of this there is, by its logarithm.
    Size(String),
}

/// One panel.
pub(super) struct Panel {
    label: String,
    pub(super) lines: Vec<Line>,
    y: Range<f64>,
    logarithmic: bool,
}

/// One line.
pub(super) struct Line {
    name: String,
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
    pub(super) fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        Line {
            name: name.to_owned(),
            points: points.into_iter().filter(finite).collect(),
        }
    }
}

impl Panel {
    /// Linear, from zero.
    pub(super) fn from_zero(label: &str, lines: Vec<Line>) -> Panel {
        let high = values(&lines).fold(0.0, f64::max);
        Panel {
            label: label.to_owned(),
            lines,
            y: 0.0..if high > 0.0 { high * 1.12 } else { 1.0 },
            logarithmic: false,
        }
    }

    /// As `from_zero`, or logarithmic if the values are far apart.
    pub(super) fn spread(label: &str, lines: Vec<Line>) -> Panel {
        let positive = || values(&lines).filter(|value| *value > 0.0);
        let low = positive().fold(f64::MAX, f64::min);
        let high = positive().fold(0.0, f64::max);
        if high <= low * SPREAD {
            return Panel::from_zero(label, lines);
        }
        let top = (high * 1.2).log10().ceil().min(high.log10() + 0.6);
        Panel {
            label: format!("{label} (log)"),
            lines,
            y: 10_f64.powf(low.log10().floor())..10_f64.powf(top),
            logarithmic: true,
        }
    }
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines
        .iter()
        .flat_map(|line| line.points.iter().map(|at| at.1))
}

/// Draws it.
pub(super) fn svg(picture: &Picture) -> Result<String, Box<dyn Error>> {
    let count = picture.panels.len().max(1);
    let height = TITLE + PANEL[count.min(PANEL.len()) - 1] * count as u32;
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (top, rest) = root.split_vertically(TITLE);
        top.draw_text(&picture.title, &text(19.0, INK), (18, 10))?;
        top.draw_text(&picture.subtitle, &text(13.0, GREY), (18, 35))?;
        for (at, area) in rest.split_evenly((count, 1)).iter().enumerate() {
            if let Some(panel) = picture.panels.get(at) {
                draw(panel, &picture.x, at + 1 == count, area)?;
            }
        }
        root.present()?;
    }
    Ok(out)
}

fn draw(panel: &Panel, scale: &Scale, last: bool, area: &Area<'_>) -> Drawn {
    let (top, area) = area.split_vertically(LEGEND);
    legend(panel, &top)?;
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let most = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let x = match scale {
        Scale::Seconds => 0.0..most.max(1.0),
        Scale::Percentile => 1.0..most.max(100.0),
        Scale::Size(_) => {
            let least = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
            let least = least.clamp(1.0, most.max(1.0));
            // A little room on both sides, so that the outermost dots are whole.
            least / 1.15..most.max(least * 1.5) * 1.15
        }
    };
    let (y, frame) = (panel.y.clone(), (panel, scale, last));
    match (scale, panel.logarithmic) {
        (Scale::Seconds, false) => mesh(frame, &area, x, y),
        (Scale::Seconds, true) => mesh(frame, &area, x, y.log_scale()),
        (_, false) => mesh(frame, &area, x.log_scale(), y),
        (_, true) => mesh(frame, &area, x.log_scale(), y.log_scale()),
    }
}

fn mesh<X, Y>(
    (panel, scale, last): (&Panel, &Scale, bool),
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
    let (label, shown): (_, fn(f64) -> String) = match scale {
        Scale::Seconds => ("seconds since measuring began", number),
        Scale::Percentile => ("percentile", percentile),
        Scale::Size(what) => (what.as_str(), number),
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
            for x in [Scale::Seconds, Scale::Percentile, Scale::Size("n".into())] {
                let line = || vec![Line::new("a <b> & c", points.clone())];
                let picture = Picture {
                    title: "t".into(),
                    subtitle: String::new(),
                    x,
                    panels: vec![Panel::from_zero("y", line()), Panel::spread("z", line())],
                };
                let svg = svg(&picture).expect("drawn");
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            }
        }
    }
}
