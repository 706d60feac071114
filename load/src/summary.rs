//! A result as lines for people.
//!
//! Owns: the text on standard output. Promises: what the run is worth comes first: whether it is valid and whether all
//! held. Must not: leave out a fault or a reason.

use crate::figures::quantity;
use crate::outcome::{Latency, Outcome};

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
    lines
        .extend(figures.map(|(name, figure)| {
            format!("  {name:<32} {}", quantity(figure.value, &figure.unit))
        }));
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
