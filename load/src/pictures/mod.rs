//! Pictures of a result: latency by percentile, what happened over time, what the processes used.
//!
//! Owns: which pictures there are and what is in them. Promises: they are made from the result alone, so that `draw`
//! makes the same ones from a file. Must not: smooth or leave out a point.

mod chart;
mod curves;

use std::fs;
use std::path::Path;

use self::chart::{Line, Panel, Picture, Scale};
pub use self::curves::draw_curves;
use crate::exit::Stop;
use crate::outcome::{Outcome, Samples, Seconds};

/// Draws all pictures that the result has data for: `latency.svg`, `time.svg`, `resources.svg`.
pub fn draw(outcome: &Outcome, folder: &Path) -> Result<(), Stop> {
    let failed =
        |error: &dyn std::fmt::Display| Stop::Own(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let pictures = [
        ("latency.svg", latency(outcome)),
        ("time.svg", time(outcome)),
        ("resources.svg", resources(outcome)),
    ];
    for (name, picture) in pictures {
        if picture.panels.iter().any(|panel| !panel.lines.is_empty()) {
            let svg = chart::svg(&picture).map_err(|error| failed(&error))?;
            fs::write(folder.join(name), svg).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// Settings that say at once what the load was.
const TOLD: &[(&str, &str)] = &[
    ("connections", "connections"),
    ("in_flight", "in flight"),
    ("rate", "a second"),
    ("subscribers", "subscribers"),
    ("timelines", "timelines"),
    ("size", "bytes of text"),
];

/// What stands above each picture.
fn title(outcome: &Outcome, what: &str) -> (String, String) {
    let own = |label: &&str| *label != outcome.profile;
    let name = outcome.label.as_deref().filter(own).map_or_else(
        || outcome.profile.clone(),
        |label| format!("{} ({label})", outcome.profile),
    );
    let number = |name: &str| outcome.settings.get(name)?.as_f64();
    // Messages on the way are no choice of an open loop.
    let closed = number("rate").is_none();
    let mut parts: Vec<String> = TOLD
        .iter()
        .filter(|(name, _)| closed || *name != "in_flight")
        .filter_map(|(name, words)| Some(format!("{} {words}", number(name)?)))
        .collect();
    parts.push(format!("{} cores", outcome.machine.cores));
    if !outcome.validity.valid {
        parts.push("INVALID".to_owned());
    }
    if !outcome.held() {
        parts.push(format!("{} FAULTS", outcome.checks.faults));
    }
    (format!("{name}: {what}"), parts.join(", "))
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn latency(outcome: &Outcome) -> Picture {
    let line = |(name, latency): (&String, &crate::outcome::Latency)| {
        // Up to where the share above is one operation: beyond, the curve is its maximum for ever.
        let most = latency.count as f64;
        let points = latency.curve.iter().map(|(quantile, value, _)| {
            let above = 1.0 / (1.0 - quantile).max(1.0 / most);
            (above, ms(*value))
        });
        (latency.count > 0).then(|| Line::new(name, points.collect()))
    };
    let lines: Vec<Line> = outcome.latencies.iter().filter_map(line).collect();
    let (title, subtitle) = title(outcome, "latency by percentile");
    Picture {
        title,
        subtitle,
        x: Scale::Percentile,
        panels: vec![Panel::spread("latency, ms", lines)],
    }
}

fn time(outcome: &Outcome) -> Picture {
    let column = |values: &[u64], of: fn(u64) -> f64| -> Vec<(f64, f64)> {
        // A second's values stand at its end, when it is known.
        values
            .iter()
            .enumerate()
            .map(|(at, value)| (at as f64 + 1.0, of(*value)))
            .collect()
    };
    let series: Vec<(&String, &Seconds)> = outcome.series.latencies.iter().collect();
    let rates = series
        .iter()
        .map(|(name, seconds)| Line::new(name, column(&seconds.count, |count| count as f64)));
    let latencies: Vec<Line> = match series.as_slice() {
        [(name, only)] => [("p50", &only.p50), ("p99", &only.p99), ("max", &only.max)]
            .into_iter()
            .map(|(which, values)| Line::new(&format!("{name} {which}"), column(values, ms)))
            .collect(),
        several => several
            .iter()
            .map(|(name, seconds)| Line::new(&format!("{name} p99"), column(&seconds.p99, ms)))
            .collect(),
    };
    let (title, subtitle) = title(outcome, "over time");
    Picture {
        title,
        subtitle,
        x: Scale::Seconds,
        panels: vec![
            Panel::spread("operations a second", rates.collect()),
            Panel::spread("latency, ms", latencies),
        ],
    }
}

fn resources(outcome: &Outcome) -> Picture {
    let samples = &outcome.series.samples;
    let line = |name: &str, key: &str, of: fn(f64) -> f64| {
        let Samples { at, value } = samples.get(key)?;
        let points = at.iter().zip(value).map(|(at, value)| (*at, of(*value)));
        Some(Line::new(name, points.collect()))
    };
    let megabytes: fn(f64) -> f64 = |bytes| bytes / 1e6;
    let both = |what: &str, of| -> Vec<Line> {
        let one = |who: &str| line(who, &format!("{who}_{what}"), of);
        ["server", "generator"]
            .into_iter()
            .filter_map(one)
            .collect()
    };
    let cpu = ["server", "generator"].into_iter().filter_map(|who| {
        let used = samples.get(&format!("{who}_cpu_seconds"))?;
        Some(Line::new(who, shares(used)))
    });
    let gauges = samples
        .keys()
        .filter(|name| !name.starts_with("server_") && !name.starts_with("generator_"))
        .filter_map(|name| line(&name.replace('_', " "), name, |value| value));
    let mut panels = vec![
        Panel::from_zero("processor, % of one core", cpu.collect()),
        Panel::from_zero("resident memory, MB", both("resident_bytes", megabytes)),
    ];
    panels.push(Panel::from_zero("counted by the load", gauges.collect()));
    panels.push(Panel::from_zero(
        "open files, sockets too",
        both("descriptors", |count| count),
    ));
    panels.retain(|panel| !panel.lines.is_empty());
    let (title, subtitle) = title(outcome, "what it used");
    Picture {
        title,
        subtitle,
        x: Scale::Seconds,
        panels,
    }
}

/// Seconds of processor time so far → per cent of one core between two samples.
fn shares(used: &Samples) -> Vec<(f64, f64)> {
    let samples: Vec<(f64, f64)> = used
        .at
        .iter()
        .copied()
        .zip(used.value.iter().copied())
        .collect();
    let steps = samples.windows(2).filter(|two| two[1].0 - two[0].0 > 0.2);
    steps
        .map(|two| {
            (
                two[1].0,
                (two[1].1 - two[0].1) * 100.0 / (two[1].0 - two[0].0),
            )
        })
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
