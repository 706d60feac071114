//! `compare`: two results of the same profile, figure beside figure.
//!
//! Owns: what "better" and "worse" mean between two runs. Promises: different profiles, formats or broken runs are
//! never compared silently; a figure is worse only beyond the tolerance. Must not: judge a figure that has no good
//! direction.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::exit::{Stop, Verdict};
use crate::outcome::{Better, Figure, Outcome};
use crate::report;
use crate::report::quantity;

/// Arguments of `compare`.
#[derive(Clone, Debug, clap::Args)]
pub struct Compare {
    /// The result that counts as 1
    pub before: PathBuf,
    /// The one that is held against it
    pub after: PathBuf,
    /// Differences up to so many per cent are noise
    #[arg(long, default_value_t = 10.0)]
    pub tolerance: f64,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Beyond the tolerance in the good direction.
    Better,
    /// Beyond it in the bad one.
    Worse,
    /// Within it, or there is no good direction.
    Same,
    /// One result does not have it.
    Missing,
}

/// One line of a comparison.
struct Line<'a> {
    name: &'a str,
    /// In the first result and in the second.
    figures: [Option<&'a Figure>; 2],
    /// Second through first.
    ratio: Option<f64>,
    change: Change,
}

/// Reads, compares, prints.
pub fn run(args: &Compare) -> Result<Verdict, Stop> {
    let (before, after) = (Outcome::load(&args.before)?, Outcome::load(&args.after)?);
    let lines = compare(&before, &after, args.tolerance / 100.0)?;
    report::say(&text(&before, &after, &lines));
    let worse = lines.iter().any(|line| line.change == Change::Worse);
    let held = before.held() && after.held();
    Ok(
        match Verdict::of(held, before.validity.valid && after.validity.valid) {
            Verdict::Held if worse => Verdict::Worse,
            verdict => verdict,
        },
    )
}

/// Every figure that one of the two has. `tolerance` is a share, 0.1 = 10 %.
fn compare<'a>(
    before: &'a Outcome,
    after: &'a Outcome,
    tolerance: f64,
) -> Result<Vec<Line<'a>>, Stop> {
    if before.profile != after.profile {
        let (one, other) = (&before.profile, &after.profile);
        return Err(Stop::Usage(format!(
            "{one} and {other} are different profiles"
        )));
    }
    let names: BTreeSet<&String> = before.figures.keys().chain(after.figures.keys()).collect();
    let line = |name: &'a String| {
        let figures = [before, after].map(|outcome| outcome.figures.get(name));
        let (ratio, change) = match figures {
            [Some(before), Some(after)] => {
                let ratio = (before.value != 0.0).then(|| after.value / before.value);
                (ratio, change(before, after, tolerance))
            }
            _ => (None, Change::Missing),
        };
        Line {
            name,
            figures,
            ratio,
            change,
        }
    };
    Ok(names.into_iter().map(line).collect())
}

fn change(before: &Figure, after: &Figure, tolerance: f64) -> Change {
    let gain = match after.better {
        Better::Neither => return Change::Same,
        Better::Higher => after.value - before.value,
        Better::Lower => before.value - after.value,
    };
    // From 0 every step is beyond any share; to 0 it is 100 %.
    match gain / before.value.abs().max(f64::MIN_POSITIVE) {
        share if share > tolerance => Change::Better,
        share if share < -tolerance => Change::Worse,
        _ => Change::Same,
    }
}

fn text(before: &Outcome, after: &Outcome, lines: &[Line<'_>]) -> String {
    let mut out = String::new();
    let label =
        |outcome: &Outcome, other: &str| outcome.label.clone().unwrap_or_else(|| other.into());
    let (one, two) = (label(before, "before"), label(after, "after"));
    // Writing into a String can't fail.
    let _ = writeln!(
        out,
        "{:<32} {one:>14} {two:>14} {:>8}",
        before.profile, "ratio"
    );
    for line in lines {
        let dash = || "-".to_owned();
        let [before, after] = line
            .figures
            .map(|figure| figure.map_or_else(dash, quantity));
        let ratio = line.ratio.map_or_else(dash, |ratio| format!("{ratio:.3}"));
        let word = match line.change {
            Change::Better => "better",
            Change::Worse => "WORSE",
            Change::Missing => "only in one",
            Change::Same => "",
        };
        let _ = writeln!(
            out,
            "{:<32} {before:>14} {after:>14} {ratio:>8} {word}",
            line.name
        );
    }
    for (outcome, which) in [(before, &one), (after, &two)] {
        for reason in &outcome.validity.reasons {
            let _ = writeln!(out, "{which} is INVALID: {reason}");
        }
        if !outcome.held() {
            let _ = writeln!(out, "{which} has {} FAULTS", outcome.checks.faults);
        }
    }
    // Where it runs and what it is called is no difference of the load.
    const PLACES: [&str; 3] = ["url", "label", "seed"];
    let settings = before.settings.keys().chain(after.settings.keys());
    for name in settings.collect::<BTreeSet<_>>() {
        let values = [before, after].map(|outcome| outcome.settings.get(name));
        if values[0] != values[1] && !PLACES.contains(&name.as_str()) {
            let [was, is] = values.map(|value| value.map_or_else(|| "-".into(), Value::to_string));
            let _ = writeln!(out, "other setting: {name} {was} → {is}");
        }
    }
    if before.machine != after.machine {
        out.push_str("other machine: the figures can't be held against each other\n");
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::setup::plain;

    fn outcome(profile: &str, figures: &[(&str, f64, Better)]) -> Outcome {
        let setup = plain();
        let run = Run::new(&setup, "ws://nowhere".into(), None);
        for (name, value, better) in figures {
            run.figure(name, *value, "1/s", *better);
        }
        run.outcome(profile, &setup).expect("a result")
    }

    #[test]
    fn better_and_worse_follow_the_figures_direction() {
        use Better::{Higher, Lower, Neither};
        let before = outcome(
            "append",
            &[
                ("rate", 100.0, Higher),
                ("p99", 10.0, Lower),
                ("cpu", 1.0, Neither),
                ("gone", 1.0, Lower),
            ],
        );
        let after = outcome(
            "append",
            &[
                ("rate", 80.0, Higher),
                ("p99", 5.0, Lower),
                ("cpu", 9.0, Neither),
                ("new", 1.0, Lower),
            ],
        );
        let lines = compare(&before, &after, 0.1).expect("the same profile");
        let changes: Vec<_> = lines.iter().map(|line| (line.name, line.change)).collect();
        let expected = [
            ("cpu", Change::Same),
            ("gone", Change::Missing),
            ("new", Change::Missing),
            ("p99", Change::Better),
            ("rate", Change::Worse),
        ];
        assert_eq!(changes, expected);
        assert_eq!(lines[4].ratio, Some(0.8));
        let lenient = compare(&before, &after, 0.3).expect("the same profile");
        assert_eq!(lenient[4].change, Change::Same);
        let shown = text(&before, &after, &lines);
        assert!(
            shown.contains("WORSE") && shown.contains("0.800"),
            "{shown}"
        );
    }

    #[test]
    fn different_profiles_are_not_compared() {
        let (one, other) = (outcome("append", &[]), outcome("history", &[]));
        assert!(matches!(compare(&one, &other, 0.1), Err(Stop::Usage(_))));
    }

    #[test]
    fn from_zero_every_step_counts() {
        let figure = |value| Figure {
            value,
            unit: "1".into(),
            better: Better::Lower,
        };
        assert_eq!(change(&figure(0.0), &figure(0.0), 0.1), Change::Same);
        assert_eq!(change(&figure(0.0), &figure(1.0), 0.1), Change::Worse);
        assert_eq!(change(&figure(1.0), &figure(0.0), 0.1), Change::Better);
    }
}
