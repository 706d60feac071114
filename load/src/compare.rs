//! `compare`: two results of the same profile, figure beside figure.
//!
//! Owns: what "better" and "worse" mean between two runs. Promises: different profiles, formats or broken runs are
//! never compared silently; a figure is worse only beyond the tolerance. Must not: judge a figure that has no good
//! direction.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::exit::{Stop, Verdict};
use crate::figures::{Cell, Table};
use crate::outcome::{Better, Figure, Outcome};
use crate::report;

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

/// What became of a figure: greater is beyond the tolerance in the good direction, less in the bad one, equal within
/// it or without a good direction; `None`: one result does not have it.
type Change = Option<Ordering>;

/// Where it runs and what it is called is no difference of the load.
const PLACES: [&str; 3] = ["url", "label", "seed"];

/// Reads, compares, prints.
pub fn run(args: &Compare) -> Result<Verdict, Stop> {
    let both = [Outcome::load(&args.before)?, Outcome::load(&args.after)?];
    let changes = changes(&both, args.tolerance / 100.0)?;
    report::say(&text(&both, &changes));
    let worse = changes
        .iter()
        .any(|(_, change)| *change == Some(Ordering::Less));
    let held = both.iter().all(Outcome::held);
    let valid = both.iter().all(|outcome| outcome.validity.valid);
    Ok(match Verdict::of(held, valid) {
        Verdict::Held if worse => Verdict::Worse,
        verdict => verdict,
    })
}

/// What became of every figure that one of the two has. `tolerance` is a share, 0.1 = 10 %.
fn changes<'a>(both: &'a [Outcome; 2], tolerance: f64) -> Result<Vec<(&'a str, Change)>, Stop> {
    let [before, after] = both;
    let (one, other) = (&before.profile, &after.profile);
    if one != other {
        let what = format!("{one} and {other} are different profiles");
        return Err(Stop::Usage(what));
    }
    let names: BTreeSet<&String> = both.iter().flat_map(|one| one.figures.keys()).collect();
    let changed = |name: &'a String| match figures(both, name) {
        [Some(before), Some(after)] => (&**name, Some(change(before, after, tolerance))),
        _ => (&**name, None),
    };
    Ok(names.into_iter().map(changed).collect())
}

fn figures<'a>(both: &'a [Outcome; 2], name: &str) -> [Option<&'a Figure>; 2] {
    both.each_ref().map(|outcome| outcome.figures.get(name))
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
fn text(both: &[Outcome; 2], changes: &[(&str, Change)]) -> String {
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
        let figures = figures(both, name);
        let ratio = match figures {
            [Some(was), Some(is)] if was.value != 0.0 => format!("{:.3}", is.value / was.value),
            _ => Cell::Absent.text(),
        };
        let cell = |figure: &Figure| Cell::figure(Some(figure.value), &figure.unit);
        let [was, is] = figures.map(|figure| figure.map_or(Cell::Absent, cell));
        let row = vec![(*name).into(), was, is, Cell::Text(ratio), word.into()];
        table.rows.push(row);
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
        let values = both.each_ref().map(|outcome| outcome.settings.get(name));
        if values[0] != values[1] && !PLACES.contains(&name.as_str()) {
            let [was, is] = values.map(|value| value.map_or_else(|| "–".into(), Value::to_string));
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
        use Ordering::{Equal, Greater, Less};
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
            ("cpu", Some(Equal)),
            ("gone", None),
            ("new", None),
            ("p99", Some(Greater)),
            ("rate", Some(Less)),
        ];
        assert_eq!(found, expected);
        let lenient = changes(&both, 0.3).expect("the same profile");
        assert_eq!(lenient[4].1, Some(Equal));
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
