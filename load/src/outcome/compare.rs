//! `compare`: two results of the same profile, figure beside figure.
//!
//! Owns: what "better" and "worse" mean between two runs. Promises: different profiles, formats or broken runs are
//! never compared silently; a figure is worse only beyond the tolerance. Must not: judge a figure that has no good
//! direction.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::figures::{ABSENT, Table, quantity};
use super::report;
use crate::exit::{Stop, Verdict};
use crate::outcome::{Better, Figure, Outcome};

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

/// Reads, compares, prints.
pub fn run(args: &Compare) -> Result<Verdict, Stop> {
    let both = [Outcome::load(&args.before)?, Outcome::load(&args.after)?];
    let changes = changes(&both, args.tolerance / 100.0)?;
    report::say(&text(&both, &changes));
    let is_worse = |(_, change): &Change<'_>| *change == Some(Ordering::Less);
    let compared = match changes.iter().any(is_worse) {
        true => Verdict::Worse,
        false => Verdict::Held,
    };
    Ok(both
        .iter()
        .map(Outcome::verdict)
        .fold(compared, Verdict::max))
}

/// A figure, and whether it is better (`Greater`), worse (`Less`) or within the tolerance; nothing if one result does
/// not have it.
type Change<'a> = (&'a str, Option<Ordering>);

/// What became of every figure that one of the two has. `tolerance` is a share, 0.1 = 10 %.
fn changes(both: &[Outcome; 2], tolerance: f64) -> Result<Vec<Change<'_>>, Stop> {
    let [one, other] = both.each_ref().map(|outcome| &outcome.profile);
    if one != other {
        let what = format!("{one} and {other} are different profiles");
        return Err(Stop::Usage(what));
    }
    let names: BTreeSet<&String> = both.iter().flat_map(|one| one.figures.keys()).collect();
    let changed = |name: &String| {
        let [before, after] = both.each_ref().map(|one| one.figures.get(name));
        Some(change(before?, after?, tolerance))
    };
    Ok(names
        .into_iter()
        .map(|name| (&**name, changed(name)))
        .collect())
}

fn change(before: &Figure, after: &Figure, tolerance: f64) -> Ordering {
    let gain = match after.better {
        Better::Neither => return Ordering::Equal,
        Better::Higher => after.value - before.value,
        Better::Lower => before.value - after.value,
    };
    // From 0 every step is beyond any share; to 0 it is 100 %.
    match gain / before.value.abs().max(f64::MIN_POSITIVE) {
        share if share > tolerance => Ordering::Greater,
        share if share < -tolerance => Ordering::Less,
        _ => Ordering::Equal,
    }
}

/// The figures side by side, and below what else there is to know.
fn text(both: &[Outcome; 2], changes: &[Change<'_>]) -> String {
    let [before, after] = both;
    let label =
        |outcome: &Outcome, other: &str| outcome.label.clone().unwrap_or_else(|| other.into());
    let labels = [label(before, "before"), label(after, "after")];
    let mut table = Table::new([&*before.profile, &labels[0], &labels[1], "ratio", ""]);
    for (name, change) in changes {
        let word = match change {
            Some(Ordering::Greater) => "better",
            Some(Ordering::Less) => "WORSE",
            Some(Ordering::Equal) => "",
            None => "only in one",
        };
        let figures = both.each_ref().map(|one| one.figures.get(*name));
        let ratio = match figures {
            [Some(was), Some(is)] if was.value != 0.0 => format!("{:.3}", is.value / was.value),
            _ => ABSENT.to_owned(),
        };
        let text = |figure: &Figure| quantity(figure.value, &figure.unit);
        let [was, is] = figures.map(|figure| figure.map_or_else(|| ABSENT.into(), text));
        table
            .rows
            .push(vec![(*name).into(), was, is, ratio, word.into()]);
    }
    let mut lines = vec![table.markdown()];
    for (outcome, which) in both.iter().zip(&labels) {
        let reasons = outcome.validity.reasons.iter();
        lines.extend(reasons.map(|reason| format!("{which} is INVALID: {reason}")));
        if !outcome.held() {
            lines.push(format!("{which} has {} FAULTS", outcome.checks.faults));
        }
    }
    let names: BTreeSet<&String> = both.iter().flat_map(|one| one.settings.keys()).collect();
    for name in names {
        // A flag that was not given is null, or absent where the profile did not have it yet.
        let [was, is] = both
            .each_ref()
            .map(|one| one.settings.get(name).unwrap_or(&Value::Null));
        if was != is {
            lines.push(format!("other setting: {name} {was} → {is}"));
        }
    }
    if before.machine != after.machine {
        lines.push("other machine: the figures can't be held against each other".into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::run::setup::plain;

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
        let both = [before, after];
        let found = changes(&both, 0.1).expect("the same profile");
        let expected = [
            ("cpu", Some(Ordering::Equal)),
            ("gone", None),
            ("new", None),
            ("p99", Some(Ordering::Greater)),
            ("rate", Some(Ordering::Less)),
        ];
        assert_eq!(found, expected);
        let lenient = changes(&both, 0.3).expect("the same profile");
        assert_eq!(lenient[4].1, Some(Ordering::Equal));
        let shown = text(&both, &found);
        assert!(
            shown.contains("WORSE") && shown.contains("0.800"),
            "{shown}"
        );
    }

    #[test]
    fn different_profiles_are_not_compared() {
        let both = [outcome("append", &[]), outcome("history", &[])];
        assert!(matches!(changes(&both, 0.1), Err(Stop::Usage(_))));
    }

    #[test]
    fn from_zero_every_step_counts() {
        let figure = |value| Figure {
            value,
            unit: "1".into(),
            better: Better::Lower,
        };
        assert_eq!(change(&figure(0.0), &figure(0.0), 0.1), Ordering::Equal);
        assert_eq!(change(&figure(0.0), &figure(1.0), 0.1), Ordering::Less);
        assert_eq!(change(&figure(1.0), &figure(0.0), 0.1), Ordering::Greater);
    }
}
