//! `compare`: two results of the same profile, figure beside figure.
//!
//! Owns: what "better" and "worse" mean between two runs. Promises: different profiles, formats or broken runs are
//! never compared silently; a figure is worse only beyond the tolerance. Must not: judge a figure that only tells.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::exit::{Stop, Verdict};
use crate::outcome::{Better, Figure, Outcome};
use crate::report;
use crate::summary::quantity;

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

/// How two values of a figure stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Beyond the tolerance in the good direction.
    Better,
    /// Beyond it in the bad one.
    Worse,
    /// Within it.
    Same,
    /// There is no good direction.
    Told,
    /// One result does not have it.
    Missing,
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The figure's name.
    pub name: String,
    /// In the first result.
    pub before: Option<Figure>,
    /// In the second one.
    pub after: Option<Figure>,
    /// Second through first.
    pub ratio: Option<f64>,
    /// What that means.
    pub change: Change,
}

/// Reads, compares, prints.
pub fn run(args: &Compare) -> Result<Verdict, Stop> {
    let (before, after) = (Outcome::load(&args.before)?, Outcome::load(&args.after)?);
    let lines = compare(&before, &after, args.tolerance / 100.0)?;
    report::say(&text(&before, &after, &lines));
    let worse = lines.iter().any(|line| line.change == Change::Worse);
    Ok(
        match (
            before.held() && after.held(),
            before.validity.valid && after.validity.valid,
        ) {
            (true, true) if worse => Verdict::Worse,
            (held, valid) => Verdict::of(held, valid),
        },
    )
}

/// Every figure that one of the two has. `tolerance` is a share, 0.1 = 10 %.
pub fn compare(before: &Outcome, after: &Outcome, tolerance: f64) -> Result<Vec<Line>, Stop> {
    if before.profile != after.profile {
        let (one, other) = (&before.profile, &after.profile);
        return Err(Stop::Usage(format!(
            "{one} and {other} are different profiles"
        )));
    }
    let names: BTreeSet<&String> = before.figures.keys().chain(after.figures.keys()).collect();
    let line = |name: &String| {
        let (before, after) = (before.figures.get(name), after.figures.get(name));
        let ratio = before
            .zip(after)
            .and_then(|(before, after)| (before.value != 0.0).then(|| after.value / before.value));
        Line {
            name: name.clone(),
            before: before.cloned(),
            after: after.cloned(),
            ratio,
            change: change(before, after, tolerance),
        }
    };
    Ok(names.into_iter().map(line).collect())
}

fn change(before: Option<&Figure>, after: Option<&Figure>, tolerance: f64) -> Change {
    let (Some(before), Some(after)) = (before, after) else {
        return Change::Missing;
    };
    let gain = match after.better {
        Better::Neither => return Change::Told,
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

fn text(before: &Outcome, after: &Outcome, lines: &[Line]) -> String {
    let mut out = String::new();
    let name =
        |outcome: &Outcome, other: &str| outcome.label.clone().unwrap_or_else(|| other.to_owned());
    let (one, two) = (name(before, "before"), name(after, "after"));
    let _ = writeln!(
        out,
        "{:<32} {one:>14} {two:>14} {:>8}",
        before.profile, "ratio"
    );
    for line in lines {
        let show =
            |figure: &Option<Figure>| figure.as_ref().map_or_else(|| "-".to_owned(), quantity);
        let ratio = line
            .ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let word = match line.change {
            Change::Better => "better",
            Change::Worse => "WORSE",
            Change::Missing => "only in one",
            Change::Same | Change::Told => "",
        };
        let (before, after) = (show(&line.before), show(&line.after));
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
    for setting in differing(before, after) {
        let show = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
        let (was, is) = (before.settings.get(&setting), after.settings.get(&setting));
        let _ = writeln!(out, "other setting: {setting} {} → {}", show(was), show(is));
    }
    if before.machine != after.machine {
        let _ = writeln!(
            out,
            "other machine: the figures can't be held against each other"
        );
    }
    out.truncate(out.trim_end().len());
    out
}

/// Settings that change what is measured and are not the same.
fn differing(before: &Outcome, after: &Outcome) -> Vec<String> {
    // Where it runs and what it is called is no difference of the load.
    const PLACES: &[&str] = &["url", "label", "seed"];
    let names: BTreeSet<&String> = before
        .settings
        .keys()
        .chain(after.settings.keys())
        .collect();
    let differs = |name: &&&String| {
        before.settings.get(**name) != after.settings.get(**name)
            && !PLACES.contains(&name.as_str())
    };
    names
        .iter()
        .filter(differs)
        .map(|name| (*name).clone())
        .collect()
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
        let changes: Vec<_> = lines
            .iter()
            .map(|line| (line.name.as_str(), line.change))
            .collect();
        let expected = [
            ("cpu", Change::Told),
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
        assert_eq!(
            change(Some(&figure(0.0)), Some(&figure(0.0)), 0.1),
            Change::Same
        );
        assert_eq!(
            change(Some(&figure(0.0)), Some(&figure(1.0)), 0.1),
            Change::Worse
        );
        assert_eq!(
            change(Some(&figure(1.0)), Some(&figure(0.0)), 0.1),
            Change::Better
        );
    }
}
