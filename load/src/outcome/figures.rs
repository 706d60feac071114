//! Figures with their units, tables of them, and what results of many measurements have in common.
//!
//! Owns: how a number is shown, everywhere; what the files of `growth` and `tideline-peers` have in common. Promises:
//! three digits or more, and no more than a figure is worth; what could not be measured is a dash. Must not: know what
//! was measured.

use indicatif::{DecimalBytes, HumanCount};
use serde::Serialize;

use crate::exit::Verdict;
use crate::run::machine::Machine;

/// A value with its unit, rounded, thousands grouped, many bytes in kB, MB or GB.
pub fn quantity(value: f64, unit: &str) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    if let Some(rest) = unit.strip_prefix("bytes").filter(|_| size >= 1e4) {
        return format!("{sign}{}{rest}", DecimalBytes(size as u64));
    }
    let number = if size >= 100.0 || size.fract() == 0.0 {
        format!("{sign}{}", HumanCount(size.round() as u64))
    } else {
        let digits = if size >= 10.0 { 1 } else { 2 };
        format!("{value:.digits$}")
    };
    // "1" is the unit of counts, "1/s" that of rates.
    match unit.strip_prefix('1').unwrap_or(unit) {
        rest if rest.is_empty() || rest.starts_with('/') => number + rest,
        unit => format!("{number} {unit}"),
    }
}

/// As a quantity; what could not be measured is a dash.
pub fn shown(value: Option<f64>, unit: &str) -> String {
    let finite = value.filter(|value| value.is_finite());
    finite.map_or_else(|| ABSENT.to_owned(), |value| quantity(value, unit))
}

/// Stands for what is not there.
pub const ABSENT: &str = "–";

/// Rows of texts below titles.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// The titles.
    pub columns: Vec<String>,
    /// As many texts in each as there are titles.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
        let columns = columns.into_iter().map(str::to_owned).collect();
        let rows = Vec::new();
        Table { columns, rows }
    }

    /// As Markdown that can be read in a terminal, too; the first column to the left, the others to the right.
    pub fn markdown(&self) -> String {
        let mut lines = vec!["|".to_owned(); self.rows.len() + 2];
        for (column, title) in self.columns.iter().enumerate() {
            let texts = self.rows.iter().map(|row| &row[column]);
            let sizes = texts
                .clone()
                .chain([title])
                .map(|text| text.chars().count());
            let width = sizes.max().unwrap_or(0).max(3);
            let rule = match column {
                0 => "-".repeat(width),
                _ => "-".repeat(width - 1) + ":",
            };
            for (line, text) in lines
                .iter_mut()
                .zip([title, &rule].into_iter().chain(texts))
            {
                *line += &match column {
                    0 => format!(" {text:<width$} |"),
                    _ => format!(" {text:>width$} |"),
                };
            }
        }
        lines.join("\n") + "\n"
    }
}

/// What results have in common that are made of many measurements.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sheet {
    /// The version of this tool.
    pub tool: String,
    /// What it ran on.
    pub machine: Machine,
    /// How it was measured, in words.
    pub how: String,
    /// Promises that were broken on the way.
    pub faults: Vec<String>,
    /// What makes figures unbelievable, with where it happened.
    pub invalid: Vec<String>,
}

impl Sheet {
    /// One that was measured so, here.
    pub fn new(how: String) -> Sheet {
        Sheet {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine::here(),
            how,
            ..Sheet::default()
        }
    }

    /// What it is worth.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.faults.is_empty(), self.invalid.is_empty())
    }

    /// How it was measured and what went wrong, in a line.
    pub fn worth(&self) -> String {
        let mut out = format!("{}; {} faults.", self.how, self.faults.len());
        if !self.invalid.is_empty() {
            out += &format!(" Not to be believed: {}.", self.invalid.join("; "));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_and_rounded() {
        for (value, unit, shown) in [
            (1_234_567.4, "1/s", "1,234,567/s"),
            (-100_000.0, "1", "-100,000"),
            (999.0, "bytes", "999 bytes"),
            (-2.5e6, "bytes/h", "-2.50 MB/h"),
            (12.34, "ms", "12.3 ms"),
            (1.234, "ms", "1.23 ms"),
            (6.0, "×", "6 ×"),
        ] {
            assert_eq!(quantity(value, unit), shown);
        }
    }

    #[test]
    fn a_table_is_aligned_and_has_a_dash_for_what_is_absent() {
        let mut table = Table::new(["n: messages", "p99", ""]);
        for (at, p99) in [(10.0, Some(1.5)), (1e6, Some(f64::NAN)), (1.0, None)] {
            let row = [shown(Some(at), "1"), shown(p99, "ms"), "x".to_owned()];
            table.rows.push(row.to_vec());
        }
        let expected = "\
| n: messages |     p99 |     |
| ----------- | ------: | --: |
| 10          | 1.50 ms |   x |
| 1,000,000   |       – |   x |
| 1           |       – |   x |
";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn a_sheet_says_what_it_is_worth() {
        let mut sheet = Sheet::new("Measured here".into());
        assert_eq!(sheet.verdict(), Verdict::Held);
        sheet.invalid = vec!["x".into(), "y".into()];
        assert_eq!(sheet.verdict(), Verdict::Invalid);
        sheet.faults = vec!["z".into()];
        assert_eq!(sheet.verdict(), Verdict::Broken);
        let worth = "Measured here; 1 faults. Not to be believed: x; y.";
        assert_eq!(sheet.worth(), worth);
    }
}
