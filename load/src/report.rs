//! What a run shows: lines for people, results as JSON.
//!
//! Owns: output. Promises: results go to standard output, everything else to standard error. Must not: decide whether a
//! run held.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::exit::{Stop, Verdict};

/// A line on standard output. A closed pipe is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What a process ends with; says why, if it could not do its work.
#[must_use]
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
    let write = || -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(result)?;
        text.push('\n');
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, text)
    };
    write().map_err(|error| Stop::Own(format!("{}: {error}", file.display())))
}
