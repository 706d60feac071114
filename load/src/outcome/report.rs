//! What a run shows: lines for people, results as JSON.
//!
//! Owns: output. Promises: results go to standard output, everything else to standard error; what a run is worth comes
//! first, and no fault or reason is left out. Must not: decide whether a run held.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use super::figures::quantity;
use crate::exit::{Stop, Verdict};
use crate::outcome::Outcome;

/// A line on standard output. A closed pipe is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What a process ends with; says why, if it could not do its work.
pub fn ended(name: &str, ended: Result<Verdict, Stop>) -> ExitCode {
    let stopped = |stop: Stop| {
        note(&format!("{name}: {stop}"));
        stop.number()
    };
    ExitCode::from(ended.map_or_else(stopped, Verdict::number))
}

/// Writes a result as JSON, if a file was asked for.
pub fn save(result: &impl Serialize, file: Option<&Path>) -> Result<(), Stop> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(result);
    let text = text.map_err(|error| Stop::Own(format!("a result: {error}")))?;
    write(file, &(text + "\n"))
}

/// Writes a file, and makes its folder.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), Stop> {
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::write(file, text));
    written.map_err(|error| Stop::Own(format!("{}: {error}", file.display())))
}

/// A result as lines.
pub fn text(outcome: &Outcome) -> String {
    let (validity, checks) = (&outcome.validity, &outcome.checks);
    let (title, seconds, seed) = (outcome.title(), outcome.seconds, outcome.seed);
    let mut lines = vec![format!("{title}: {seconds:.1} s measured, seed {seed}")];
    let reasons = validity.reasons.iter();
    lines.extend(reasons.map(|reason| format!("INVALID: {reason}")));
    for (name, figure) in &outcome.figures {
        let shown = quantity(figure.value, &figure.unit);
        lines.push(format!("  {name:<32} {shown}"));
    }
    if let Some(lateness) = validity.lateness {
        let (share, worst) = (lateness.share() * 100.0, lateness.worst_micros as f64 / 1e3);
        let sent = lateness.sent;
        lines.push(format!(
            "  schedule: {sent} operations sent, {share:.2} % late, worst {worst:.1} ms"
        ));
    }
    let made = checks.made.iter();
    let made = Vec::from_iter(made.map(|(kind, count)| format!("{count} {kind}"))).join(", ");
    lines.push(format!("  checked: {made}; {} faults", checks.faults));
    lines.extend(checks.told.iter().map(|fault| format!("FAULT: {fault}")));
    lines.join("\n")
}
