//! `fill`: the tables of a document, made from results.
//!
//! Owns: the markers between which a document's tables are, and a profile's table. Promises: nothing outside of them
//! changes, and a document without a place for a result is an error, so that no figure grows old unnoticed. Must not:
//! measure.
//!
//! A place is `<!-- NAME -->`, what was filled in, `<!-- /NAME -->`, each marker a line of its own. NAME is `peers`,
//! `growth`, or a profile's.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::{Stop, Verdict};
use crate::figures::{Cell, Sheet, Table, cores, quantity};
use crate::outcome::Outcome;

/// Arguments of `fill`.
#[derive(Clone, Debug, clap::Args)]
pub struct Fill {
    /// The document (Markdown) with `<!-- peers -->` … `<!-- /peers -->` and the like
    pub document: PathBuf,
    /// Results of `tideline-peers`, `growth` or a profile (JSON)
    #[arg(required = true)]
    pub results: Vec<PathBuf>,
}

/// Reads all, writes the document once.
pub fn run(args: &Fill) -> Result<Verdict, Stop> {
    let wrong = |error: &dyn Display| wrong(&args.document, error);
    let mut text = fs::read_to_string(&args.document).map_err(|error| wrong(&error))?;
    for result in &args.results {
        let (name, tables) = read(result)?;
        text = filled(&text, &name, &tables)
            .ok_or_else(|| wrong(&format_args!("no place for {name}")))?;
    }
    fs::write(&args.document, text).map_err(|error| wrong(&error))?;
    Ok(Verdict::Held)
}

fn wrong(file: &Path, error: &dyn Display) -> Stop {
    Stop::Usage(format!("{}: {error}", file.display()))
}

/// A result's name and its tables.
fn read(file: &Path) -> Result<(String, String), Stop> {
    let text = fs::read_to_string(file).map_err(|error| wrong(file, &error))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(file, &error))?;
    if value.get("tables").is_none() {
        let outcome = Outcome::load(file)?;
        return Ok((outcome.profile.clone(), profile(&outcome)));
    }
    let sheet: Sheet = serde_json::from_value(value).map_err(|error| wrong(file, &error))?;
    Ok((sheet.name.clone(), sheet.markdown()))
}

/// Latencies by kind of operation, and what was checked.
fn profile(outcome: &Outcome) -> String {
    let mut table = Table::new(["", "a second", "p50", "p99", "p99.9", "worst"]);
    for (name, latency) in &outcome.latencies {
        let rate = latency.count as f64 / outcome.seconds.max(0.001);
        let ms = |micros: u64| Cell::figure(Some(micros as f64 / 1e3), "ms");
        let times = [latency.p50, latency.p99, latency.p999, latency.max].map(ms);
        let first = [Cell::Text(name.clone()), Cell::figure(Some(rate), "1")];
        table.rows.push([&first[..], &times].concat());
    }
    let used = |name: &str| match outcome.figures.get(name) {
        Some(figure) => quantity(figure.value, &figure.unit),
        None => Cell::Absent.text(),
    };
    let valid = if outcome.validity.valid {
        ""
    } else {
        "; **not valid**"
    };
    format!(
        "{}\n{:.0} s, seed {}, {}; server {} and generator {} of one core; {} checks, {} faults{valid}.",
        table.markdown(),
        outcome.seconds,
        outcome.seed,
        cores(&outcome.machine),
        used("server_cpu_share"),
        used("generator_cpu_share"),
        outcome.checks.made.values().sum::<u64>(),
        outcome.checks.faults,
    )
}

/// The text with the place of that name filled anew; nothing if it has none.
fn filled(text: &str, name: &str, tables: &str) -> Option<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = text.find(&open)? + open.len();
    let end = start + text[start..].find(&close)?;
    let (before, after) = (&text[..start], &text[end..]);
    Some(format!("{before}\n{}\n\n{after}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_changes_and_filling_twice_is_filling_once() {
        let text = "# a\n<!-- peers -->\nold\n<!-- /peers -->\nrest <!-- growth -->\n";
        let once = filled(text, "peers", "| new |\n").expect("a place");
        assert_eq!(
            once,
            "# a\n<!-- peers -->\n\n| new |\n\n<!-- /peers -->\nrest <!-- growth -->\n"
        );
        assert_eq!(filled(&once, "peers", "| new |\n"), Some(once.clone()));
        // No place, and one that is never closed.
        assert_eq!(filled(&once, "mixed", "x"), None);
        assert_eq!(filled(&once, "growth", "x"), None);
    }
}
