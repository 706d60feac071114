//! `fill`: the tables of a document, made from results.
//!
//! Owns: the markers between which a document's tables are, and a profile's table. Promises: nothing outside of them
//! changes, and a document without a place for a result is an error, so that no figure grows old unnoticed. Must not:
//! measure.
//!
//! A place is `<!-- NAME -->`, what was filled in, `<!-- /NAME -->`, each marker a line of its own. NAME is `peers`,
//! `growth`, or a profile's.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::exit::{Stop, Verdict};
use crate::outcome::Outcome;
use crate::report::quantity;
use crate::result::AnyResult;

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
///
/// # Errors
///
/// A file that cannot be read or is no result, a document without the place.
pub fn run(args: &Fill) -> Result<Verdict, Stop> {
    let wrong = |error: &dyn std::fmt::Display| {
        Stop::Usage(format!("{}: {error}", args.document.display()))
    };
    let mut text = fs::read_to_string(&args.document).map_err(|error| wrong(&error))?;
    for result in &args.results {
        let (name, table) = match AnyResult::load(result)? {
            AnyResult::Profile(outcome) => (outcome.profile.clone(), profile(&outcome)),
            AnyResult::Growth(curves) => ("growth".to_owned(), curves.markdown()),
            AnyResult::Peers(rows) => ("peers".to_owned(), rows.markdown()),
        };
        text = filled(&text, &name, &table)
            .ok_or_else(|| wrong(&format_args!("no place for {name}")))?;
    }
    fs::write(&args.document, text).map_err(|error| wrong(&error))?;
    Ok(Verdict::Held)
}

/// Latencies by kind of operation, and what was checked.
fn profile(outcome: &Outcome) -> String {
    let mut out =
        "| | a second | p50 | p99 | p99.9 | worst |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
    let ms = |micros: u64| format!("{:.2} ms", micros as f64 / 1e3);
    for (name, latency) in &outcome.latencies {
        let rate = latency.count as f64 / outcome.seconds.max(0.001);
        let shown = [latency.p50, latency.p99, latency.p999, latency.max].map(ms);
        // Writing into a String can't fail.
        let _ = writeln!(out, "| {name} | {rate:.0} | {} |", shown.join(" | "));
    }
    let used = |name: &str| {
        let figure = outcome.figures.get(name);
        figure.map_or_else(|| "–".to_owned(), quantity)
    };
    let processor = outcome.machine.processor.as_deref();
    let _ = write!(
        out,
        "\n{:.0} s, seed {}, {} cores ({}); server {} and generator {} of one core; {} checks, {} faults{}.",
        outcome.seconds,
        outcome.seed,
        outcome.machine.cores,
        processor.unwrap_or("unknown processor"),
        used("server_cpu_share"),
        used("generator_cpu_share"),
        outcome.checks.made.values().sum::<u64>(),
        outcome.checks.faults,
        if outcome.validity.valid {
            ""
        } else {
            "; **not valid**"
        },
    );
    out
}

/// The text with the place of that name filled anew; nothing if it has none.
fn filled(text: &str, name: &str, table: &str) -> Option<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = text.find(&open)? + open.len();
    let end = start + text[start..].find(&close)?;
    let (before, after) = (&text[..start], &text[end..]);
    Some(format!("{before}\n{}\n\n{after}", table.trim()))
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
