//! A result as lines for people.
//!
//! Owns: the text on standard output. Promises: what the run is worth comes first: whether it is valid and whether all
//! held. Must not: leave out a fault or a reason.

use std::fmt::Write as _;

use crate::outcome::{Figure, Latency, Outcome};

/// All of it.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing into a String can't fail.
    let _ = write_all(&mut out, outcome);
    out.truncate(out.trim_end().len());
    out
}

fn write_all(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (profile, seconds, seed) = (&outcome.profile, outcome.seconds, outcome.seed);
    let label = outcome
        .label
        .as_deref()
        .map_or(String::new(), |label| format!(" ({label})"));
    writeln!(
        out,
        "{profile}{label}: {seconds:.1} s measured, seed {seed}"
    )?;
    for reason in &outcome.validity.reasons {
        writeln!(out, "INVALID: {reason}")?;
    }
    for (name, figure) in &outcome.figures {
        writeln!(out, "  {name:<32} {}", quantity(figure))?;
    }
    for (name, latency) in &outcome.latencies {
        writeln!(out, "  {name} latency: {}", line(latency))?;
    }
    if let Some(lateness) = outcome.validity.lateness {
        let (share, worst) = (lateness.share() * 100.0, lateness.worst_micros as f64 / 1e3);
        let sent = lateness.sent;
        writeln!(
            out,
            "  schedule: {sent} operations sent, {share:.2} % late, worst {worst:.1} ms"
        )?;
    }
    let made: Vec<String> = outcome
        .checks
        .made
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let faults = outcome.checks.faults;
    writeln!(out, "  checked: {}; {faults} faults", made.join(", "))?;
    for fault in &outcome.checks.told {
        writeln!(out, "FAULT: {fault}")?;
    }
    Ok(())
}

/// A figure with its unit.
#[must_use]
pub fn quantity(figure: &Figure) -> String {
    let (value, unit) = (figure.value, figure.unit.as_str());
    match unit {
        "bytes" | "bytes/h" if value.abs() >= 1e4 => {
            let (scaled, scale) = match value.abs() {
                large if large >= 1e9 => (value / 1e9, "GB"),
                large if large >= 1e6 => (value / 1e6, "MB"),
                _ => (value / 1e3, "KB"),
            };
            let rest = unit.strip_prefix("bytes").unwrap_or_default();
            format!("{scaled:.2} {scale}{rest}")
        }
        _ => {
            let digits = if value.abs() >= 1_000.0 || value.fract() == 0.0 {
                0
            } else {
                2
            };
            let unit = if unit == "1" { "" } else { unit };
            let gap = if unit.is_empty() || unit.starts_with(['1', '/']) {
                ""
            } else {
                " "
            };
            format!(
                "{value:.digits$}{gap}{}",
                unit.strip_prefix('1').unwrap_or(unit)
            )
        }
    }
}

fn line(latency: &Latency) -> String {
    let ms = |micros: u64| micros as f64 / 1_000.0;
    format!(
        "p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms, {} measured",
        ms(latency.p50),
        ms(latency.p90),
        ms(latency.p99),
        ms(latency.p999),
        ms(latency.max),
        latency.count
    )
}
