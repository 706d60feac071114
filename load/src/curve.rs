//! Curves: the same figures measured again and again while one thing grows.
//!
//! Owns: the format of `growth`'s result and of its plan, and the tables. Promises: the result holds what its pictures
//! and tables need, so that both can be made again from the file. Must not: know what is measured, or how.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::amount::{amount, grouped};
use crate::machine::Machine;
use crate::outcome::{Better, Figure};
use crate::report::quantity;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// All curves of one measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curves {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of this tool.
    pub tool: String,
    /// What it ran on.
    pub machine: Machine,
    /// Length of each measurement.
    pub seconds: f64,
    /// Promises that were broken on the way.
    pub faults: Vec<String>,
    /// What makes figures unbelievable, with the step that it happened in.
    pub invalid: Vec<String>,
    /// The curves, in the order of the tables.
    pub curves: Vec<Curve>,
}

/// What happens to figures while one thing grows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// What is held against what: "timelines of 10 messages".
    pub name: String,
    /// What grows: "messages", "subscribers".
    pub along: String,
    /// From little to much.
    pub steps: Vec<Step>,
}

/// The figures at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The size.
    pub at: u64,
    /// The figures, in the order of the columns.
    pub figures: Vec<Reading>,
}

/// One figure at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// A name for people, the same at each size.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what, as in results of profiles.
    pub unit: String,
}

/// What `growth.toml` says: the curves to measure and the pictures of them. It explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plans {
    pub(crate) curve: Vec<CurvePlan>,
    pub(crate) picture: Vec<PicturePlan>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvePlan {
    pub(crate) of: String,
    pub(crate) name: String,
    pub(crate) along: String,
    pub(crate) sizes: Vec<u64>,
    pub(crate) run: Vec<String>,
    pub(crate) figures: Vec<(String, String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PicturePlan {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) along: String,
    pub(crate) label: String,
    pub(crate) panels: Vec<(String, Vec<String>, f64)>,
}

pub(crate) fn plans() -> Plans {
    toml::from_str(include_str!("growth.toml")).expect("a file of this tool, read by a test")
}

impl Step {
    /// A figure of this size.
    #[must_use]
    pub fn reading(&self, name: &str) -> Option<&Reading> {
        self.figures.iter().find(|reading| reading.name == name)
    }
}

impl Reading {
    /// With its unit, to three digits or so: more are noise.
    #[must_use]
    pub fn text(&self) -> String {
        match self.unit.as_str() {
            "1/s" => format!("{}/s", grouped(self.value)),
            unit @ ("ms" | "µs" | "s") => amount(self.value, unit),
            unit => quantity(&Figure {
                value: self.value.round(),
                unit: unit.to_owned(),
                better: Better::Neither,
            }),
        }
    }
}

impl Curves {
    /// The curves as Markdown, a table for each: a line per size.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out: String = self.curves.iter().map(table).collect();
        let (cores, seconds, faults) = (self.machine.cores, self.seconds, self.faults.len());
        let processor = self.machine.processor.as_deref();
        let processor = processor.unwrap_or("unknown processor");
        let _ = write!(
            out,
            "Measured on {cores} cores ({processor}) with the generator beside the server, {seconds} s a figure; {faults} faults."
        );
        if !self.invalid.is_empty() {
            let _ = write!(out, " Not to be believed: {}.", self.invalid.join("; "));
        }
        out
    }
}

/// The last size has all figures, in the order of the columns.
fn table(curve: &Curve) -> String {
    let last = curve.steps.last().map(|step| step.figures.as_slice());
    let names = last
        .unwrap_or_default()
        .iter()
        .map(|last| last.name.as_str());
    let names: Vec<&str> = names.collect();
    let mut out = format!(
        "| {}: {} | {} |\n",
        curve.name,
        curve.along,
        names.join(" | ")
    );
    let _ = writeln!(out, "|{}", "---:|".repeat(names.len() + 1));
    for step in &curve.steps {
        let cell = |name: &&str| step.reading(name).map_or_else(|| "–".into(), Reading::text);
        let cells: Vec<String> = names.iter().map(cell).collect();
        let _ = writeln!(
            out,
            "| {} | {} |",
            grouped(step.at as f64),
            cells.join(" | ")
        );
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_per_size_and_a_dash_for_what_is_absent() {
        let step = |at, figures: &[(&str, f64, &str)]| Step {
            at,
            figures: figures
                .iter()
                .map(|(name, value, unit)| Reading {
                    name: (*name).into(),
                    value: *value,
                    unit: (*unit).into(),
                })
                .collect(),
        };
        let small = step(10, &[("appends", 5_000.0, "1/s")]);
        let large = step(
            1_000_000,
            &[("appends", 4_000.0, "1/s"), ("page p99", 1.5, "ms")],
        );
        let curves = Curves {
            format: FORMAT,
            tool: "0".into(),
            machine: Machine::default(),
            seconds: 2.0,
            faults: Vec::new(),
            invalid: vec!["x".into()],
            curves: vec![Curve {
                name: "n".into(),
                along: "messages".into(),
                steps: vec![small, large],
            }],
        };
        let text = curves.markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| n: messages | appends | page p99 |");
        assert_eq!(lines[1], "|---:|---:|---:|");
        assert!(
            lines[2].starts_with("| 10 | 5,000/s") && lines[2].ends_with("| – |"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("| 1,000,000 | 4,000/s | 1.50 ms |"),
            "{text}"
        );
        assert!(text.ends_with("0 faults. Not to be believed: x."), "{text}");
    }
}
