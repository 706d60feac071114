//! Pictures of a result: latency by percentile, what happened over time, what the processes used; of curves: what each
//! figure does while one thing grows.
//!
//! Owns: which pictures there are and what is in them. Promises: they are made from the result alone, so that `draw`
//! makes the same ones from a file. Must not: smooth or leave out a point.

mod chart;

use std::fs;
use std::path::Path;

use self::chart::{Line, Panel, Picture, Scale};
use crate::curve::{self, Curve, Curves, PicturePlan, Step};
use crate::exit::Stop;
use crate::outcome::{Outcome, Samples, Seconds};

/// Draws the pictures of a result that it has data for: `latency.svg`, `time.svg`, `resources.svg`.
pub fn draw(outcome: &Outcome, folder: &Path) -> Result<(), Stop> {
    let pictures = [
        ("latency", latency(outcome)),
        ("time", time(outcome)),
        ("resources", resources(outcome)),
    ];
    save(
        folder,
        pictures.map(|(name, picture)| (format!("{name}.svg"), picture)),
    )
}

/// Draws `growth.svg` (by messages) and `growth-subscribers.svg`, as far as there are curves for them.
pub fn draw_curves(curves: &Curves, folder: &Path) -> Result<(), Stop> {
    let drawn = |plan: PicturePlan| (plan.file.clone(), costs(plan, curves));
    save(folder, curve::plans().picture.into_iter().map(drawn))
}

fn save(folder: &Path, pictures: impl IntoIterator<Item = (String, Picture)>) -> Result<(), Stop> {
    let failed =
        |error: &dyn std::fmt::Display| Stop::Own(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    for (name, picture) in pictures {
        if picture.panels.iter().any(|panel| !panel.lines.is_empty()) {
            let svg = chart::svg(&picture).map_err(|error| failed(&error))?;
            fs::write(folder.join(name), svg).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// A picture of all curves along one thing, so that they can be compared.
fn costs(plan: PicturePlan, curves: &Curves) -> Picture {
    let along = |curve: &&Curve| curve.along == plan.along;
    let drawn: Vec<&Curve> = curves.curves.iter().filter(along).collect();
    let cores = curves.machine.cores;
    let subtitle = match drawn.as_slice() {
        [only] => format!("{}, {cores} cores", only.name),
        _ => format!("{cores} cores, generator beside the server"),
    };
    let panel = |(label, figures, unit): &(String, Vec<String>, f64)| {
        let lines = drawn.iter().flat_map(|curve| {
            figures.iter().map(|figure| {
                let name = match (drawn.len(), figures.len()) {
                    (1, _) => figure.clone(),
                    (_, 1) => curve.name.clone(),
                    _ => format!("{figure}, {}", curve.name),
                };
                let point =
                    |step: &Step| Some((step.at as f64, step.reading(figure)?.value / unit));
                Line::new(&name, curve.steps.iter().filter_map(point))
            })
        });
        Panel::spread(label, lines.collect())
    };
    Picture {
        title: plan.title,
        subtitle,
        x: Scale::Size(plan.label),
        panels: plan.panels.iter().map(panel).collect(),
    }
}

/// A picture of a result, with what the load was above it.
fn picture(outcome: &Outcome, what: &str, x: Scale, panels: Vec<Panel>) -> Picture {
    const SETTINGS: [(&str, &str); 6] = [
        ("connections", "connections"),
        ("in_flight", "in flight"),
        ("rate", "a second"),
        ("subscribers", "subscribers"),
        ("timelines", "timelines"),
        ("size", "bytes of text"),
    ];
    let own = outcome
        .label
        .as_ref()
        .filter(|label| **label != outcome.profile);
    let name = match own {
        Some(label) => format!("{} ({label})", outcome.profile),
        None => outcome.profile.clone(),
    };
    let number = |name: &str| outcome.settings.get(name)?.as_f64();
    // Messages on the way are no choice of an open loop.
    let closed = number("rate").is_none();
    let told = SETTINGS
        .iter()
        .filter(|(name, _)| closed || *name != "in_flight");
    let mut parts: Vec<String> = told
        .filter_map(|(name, words)| Some(format!("{} {words}", number(name)?)))
        .collect();
    parts.push(format!("{} cores", outcome.machine.cores));
    if !outcome.validity.valid {
        parts.push("INVALID".to_owned());
    }
    if !outcome.held() {
        parts.push(format!("{} FAULTS", outcome.checks.faults));
    }
    Picture {
        title: format!("{name}: {what}"),
        subtitle: parts.join(", "),
        x,
        panels,
    }
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn latency(outcome: &Outcome) -> Picture {
    let measured = outcome
        .latencies
        .iter()
        .filter(|(_, latency)| latency.count > 0);
    let lines = measured.map(|(name, latency)| {
        // Up to where the share above is one operation: beyond, the curve is its maximum for ever.
        let most = latency.count as f64;
        let points = latency.curve.iter().map(|(quantile, value, _)| {
            let above = 1.0 / (1.0 - quantile).max(1.0 / most);
            (above, ms(*value))
        });
        Line::new(name, points)
    });
    let panels = vec![Panel::spread("latency, ms", lines.collect())];
    picture(outcome, "latency by percentile", Scale::Percentile, panels)
}

fn time(outcome: &Outcome) -> Picture {
    // A second's values stand at its end, when it is known.
    let line = |name: &str, values: &[u64], of: fn(u64) -> f64| {
        let points = values.iter().enumerate();
        Line::new(
            name,
            points.map(|(at, value)| (at as f64 + 1.0, of(*value))),
        )
    };
    let series: Vec<(&String, &Seconds)> = outcome.series.latencies.iter().collect();
    let rates = series
        .iter()
        .map(|(name, seconds)| line(name, &seconds.count, |count| count as f64));
    let latencies: Vec<Line> = match series.as_slice() {
        [(name, only)] => [("p50", &only.p50), ("p99", &only.p99), ("max", &only.max)]
            .map(|(which, values)| line(&format!("{name} {which}"), values, ms))
            .into(),
        several => several
            .iter()
            .map(|(name, seconds)| line(&format!("{name} p99"), &seconds.p99, ms))
            .collect(),
    };
    let panels = vec![
        Panel::spread("operations a second", rates.collect()),
        Panel::spread("latency, ms", latencies),
    ];
    picture(outcome, "over time", Scale::Seconds, panels)
}

fn resources(outcome: &Outcome) -> Picture {
    const PROCESSES: [&str; 2] = ["server", "generator"];
    let samples = &outcome.series.samples;
    let line = |name: &str, key: &str, unit: f64| {
        let Samples { at, value } = samples.get(key)?;
        let points = at.iter().zip(value);
        Some(Line::new(
            name,
            points.map(|(at, value)| (*at, value / unit)),
        ))
    };
    let both = |what: &str, unit| {
        let of = |who: &&str| line(who, &format!("{who}_{what}"), unit);
        PROCESSES.iter().filter_map(of).collect()
    };
    let processor = PROCESSES.iter().filter_map(|who| {
        let used = samples.get(&format!("{who}_cpu_seconds"))?;
        Some(Line::new(who, shares(used)))
    });
    let counted = samples
        .keys()
        .filter(|name| {
            PROCESSES
                .iter()
                .all(|who| !name.starts_with(&format!("{who}_")))
        })
        .filter_map(|name| line(&name.replace('_', " "), name, 1.0));
    let mut panels = vec![
        Panel::from_zero("processor, % of one core", processor.collect()),
        Panel::from_zero("resident memory, MB", both("resident_bytes", 1e6)),
        Panel::from_zero("counted by the load", counted.collect()),
        Panel::from_zero("open files, sockets too", both("descriptors", 1.0)),
    ];
    panels.retain(|panel| !panel.lines.is_empty());
    picture(outcome, "what it used", Scale::Seconds, panels)
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
    fn processor_time_becomes_shares() {
        let used = Samples {
            at: vec![0.0, 1.0, 3.0, 3.01],
            value: vec![5.0, 5.5, 8.5, 8.5],
        };
        assert_eq!(shares(&used), [(1.0, 50.0), (3.0, 150.0)]);
    }
}
