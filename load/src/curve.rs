//! Curves: the same figures measured again and again while one thing grows.
//!
//! Owns: the format of `growth`'s result, and its tables. Promises: what a picture or a table needs is in it, so that
//! both can be made again from the file. Must not: know what is measured, or how.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exit::Stop;
use crate::machine::Machine;
use crate::outcome::{Better, Figure};
use crate::summary::quantity;

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

impl Step {
    /// One without figures yet.
    #[must_use]
    pub fn at(at: u64) -> Step {
        Step {
            at,
            figures: Vec::new(),
        }
    }

    /// Enters a figure; what was not to be had stays absent.
    pub fn enter(&mut self, name: &str, value: Option<f64>, unit: &str) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            self.figures.push(Reading { name, value, unit });
        }
    }

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
        let (value, unit) = (self.value, self.unit.as_str());
        match unit {
            "1/s" => format!("{}/s", grouped(value.round() as u64)),
            "ms" | "µs" | "s" => {
                let digits = [100.0, 10.0].iter().filter(|most| value < **most).count();
                format!("{value:.digits$} {unit}")
            }
            _ => quantity(&Figure {
                value: value.round(),
                unit: self.unit.clone(),
                better: Better::Neither,
            }),
        }
    }
}

impl Curve {
    /// The names of the figures, in order; the last size has all of them.
    #[must_use]
    pub fn figures(&self) -> Vec<&str> {
        let last = self.steps.last().into_iter();
        last.flat_map(|step| step.figures.iter().map(|reading| reading.name.as_str()))
            .collect()
    }
}

impl Curves {
    /// The curves as Markdown, a table for each: a line per size.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for curve in &self.curves {
            let figures = curve.figures();
            let _ = writeln!(
                out,
                "| {}: {} | {} |",
                curve.name,
                curve.along,
                figures.join(" | ")
            );
            let _ = writeln!(out, "|{}", "---:|".repeat(figures.len() + 1));
            for step in &curve.steps {
                let cell = |name: &&str| {
                    step.reading(name)
                        .map_or_else(|| "–".to_owned(), Reading::text)
                };
                let cells: Vec<String> = figures.iter().map(cell).collect();
                let _ = writeln!(out, "| {} | {} |", grouped(step.at), cells.join(" | "));
            }
            out.push('\n');
        }
        let Machine {
            cores, processor, ..
        } = &self.machine;
        let processor = processor.as_deref().unwrap_or("unknown processor");
        let _ = write!(
            out,
            "Measured on {cores} cores ({processor}) with the generator beside the server, {} s a figure; {} faults.",
            self.seconds,
            self.faults.len()
        );
        if !self.invalid.is_empty() {
            let _ = write!(out, " Not to be believed: {}.", self.invalid.join("; "));
        }
        out
    }

    /// Writes it as JSON.
    pub fn save(&self, file: &Path) -> Result<(), Stop> {
        let write = || fs::write(file, serde_json::to_string_pretty(self)? + "\n");
        write().map_err(|error: std::io::Error| Stop::Own(format!("{}: {error}", file.display())))
    }
}

/// 1234567 → 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_per_size_and_a_dash_for_what_is_absent() {
        let (mut small, mut large) = (Step::at(10), Step::at(1_000_000));
        small.enter("appends", Some(5_000.0), "1/s");
        large.enter("appends", Some(4_000.0), "1/s");
        large.enter("page p99", Some(1.5), "ms");
        large.enter("odd", Some(f64::NAN), "ms");
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
