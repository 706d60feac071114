//! A result as lines for people.
//!
//! Owns: the text on standard output. Promises: what the run is worth comes first: whether it is valid and whether all
//! held. Must not: leave out a fault or a reason.

use crate::outcome::{Figure, Latency, Outcome};

/// All of it.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let Outcome {
        profile,
        seconds,
        seed,
        ..
    } = outcome;
    let label = outcome.label.as_deref().map(|label| format!(" ({label})"));
    let label = label.unwrap_or_default();
    let mut lines = vec![format!(
        "{profile}{label}: {seconds:.1} s measured, seed {seed}"
    )];
    let reasons = outcome.validity.reasons.iter();
    lines.extend(reasons.map(|reason| format!("INVALID: {reason}")));
    let figures = outcome.figures.iter();
    lines.extend(figures.map(|(name, figure)| format!("  {name:<32} {}", quantity(figure))));
    let latencies = outcome.latencies.iter();
    lines.extend(latencies.map(|(name, latency)| format!("  {name} latency: {}", line(latency))));
    if let Some(lateness) = outcome.validity.lateness {
        let (share, worst) = (lateness.share() * 100.0, lateness.worst_micros as f64 / 1e3);
        let sent = lateness.sent;
        lines.push(format!(
            "  schedule: {sent} operations sent, {share:.2} % late, worst {worst:.1} ms"
        ));
    }
    let made = outcome.checks.made.iter();
    let made: Vec<String> = made
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let faults = outcome.checks.faults;
    lines.push(format!("  checked: {}; {faults} faults", made.join(", ")));
    let told = outcome.checks.told.iter();
    lines.extend(told.map(|fault| format!("FAULT: {fault}")));
    lines.join("\n")
}

/// A figure with its unit.
#[must_use]
pub fn quantity(figure: &Figure) -> String {
    let (value, unit) = (figure.value, figure.unit.as_str());
    let is_large = value.abs() >= 1e4;
    if let Some(rest) = unit.strip_prefix("bytes").filter(|_| is_large) {
        let (scaled, scale) = match value.abs() {
            large if large >= 1e9 => (value / 1e9, "GB"),
            large if large >= 1e6 => (value / 1e6, "MB"),
            _ => (value / 1e3, "KB"),
        };
        return format!("{scaled:.2} {scale}{rest}");
    }
    let is_rough = value.abs() >= 1_000.0 || value.fract() == 0.0;
    let digits = if is_rough { 0 } else { 2 };
    let unit = unit.strip_prefix('1').unwrap_or(unit);
    let gap = if unit.is_empty() || unit.starts_with('/') {
        ""
    } else {
        " "
    };
    format!("{value:.digits$}{gap}{unit}")
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
