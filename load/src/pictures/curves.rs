//! Pictures of curves: cost by messages that stand there, and by subscribers.
//!
//! Owns: which figures become panels. Promises: curves along the same thing are lines of one picture, so that they can
//! be held against each other. Must not: draw what a table says better: memory of connections is a line of a table.

use std::fs;
use std::path::Path;

use super::chart::{self, Line, Panel, Picture, Scale};
use crate::curve::{Curve, Curves};
use crate::exit::Stop;

/// One panel: its label, the figures that are its lines (with one, the lines are the curves), and what its unit is
/// divided by.
struct Plan {
    label: &'static str,
    figures: &'static [&'static str],
    scale: f64,
}

const fn plan(label: &'static str, figures: &'static [&'static str], scale: f64) -> Plan {
    Plan {
        label,
        figures,
        scale,
    }
}

const BY_MESSAGES: &[Plan] = &[
    plan("durable appends/s", &["appends"], 1.0),
    plan("CPU per append, µs", &["CPU of an append"], 1.0),
    plan("page p99, ms", &["page p99"], 1.0),
    plan("own memory, MB", &["memory of its own"], 1e6),
    plan("image on disk, MB", &["image on disk"], 1e6),
];
const BY_SUBSCRIBERS: &[Plan] = &[
    plan(
        "server CPU, µs",
        &["CPU of a message", "CPU of a delivery"],
        1.0,
    ),
    plan("delivery, ms", &["delivery p50", "delivery p99"], 1.0),
];

/// Draws `growth.svg` (by messages) and `growth-subscribers.svg`, as far as there are curves for them.
pub fn draw_curves(curves: &Curves, folder: &Path) -> Result<(), Stop> {
    let failed =
        |error: &dyn std::fmt::Display| Stop::Own(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    for (name, title, along, label, plans) in [
        (
            "growth.svg",
            "what history costs",
            "messages",
            "messages that stand there",
            BY_MESSAGES,
        ),
        (
            "growth-subscribers.svg",
            "what an audience costs",
            "subscribers",
            "subscribers of the timeline",
            BY_SUBSCRIBERS,
        ),
    ] {
        let drawn: Vec<&Curve> = curves
            .curves
            .iter()
            .filter(|curve| curve.along == along)
            .collect();
        if drawn.is_empty() {
            continue;
        }
        let cores = curves.machine.cores;
        let subtitle = match drawn.as_slice() {
            [only] => format!("{}, {cores} cores", only.name),
            _ => format!("{cores} cores, generator beside the server"),
        };
        let picture = Picture {
            title: title.to_owned(),
            subtitle,
            x: Scale::Size(label),
            panels: plans.iter().map(|plan| panel(plan, &drawn)).collect(),
        };
        let svg = chart::svg(&picture).map_err(|error| failed(&error))?;
        fs::write(folder.join(name), svg).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn panel(plan: &Plan, curves: &[&Curve]) -> Panel {
    let mut lines = Vec::new();
    for curve in curves {
        for figure in plan.figures {
            let point = |step: &crate::curve::Step| {
                Some((step.at as f64, step.reading(figure)?.value / plan.scale))
            };
            let points = curve.steps.iter().filter_map(point).collect();
            let name = match (curves.len(), plan.figures.len()) {
                (1, _) => (*figure).to_owned(),
                (_, 1) => curve.name.clone(),
                _ => format!("{figure}, {}", curve.name),
            };
            lines.push(Line::new(&name, points));
        }
    }
    Panel::spread(plan.label, lines)
}
