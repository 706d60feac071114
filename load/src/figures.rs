//! Figures with their units, tables of them, and the results that are tables.
//!
//! Owns: how a number is shown, everywhere; the file format of `growth` and `tideline-peers`. Promises: three digits or
//! more, and no more than a figure is worth; what could not be measured is a dash. Must not: know what was measured.

use indicatif::HumanCount;
use serde::{Deserialize, Serialize};

use crate::exit::Verdict;
use crate::machine::Machine;

/// A value with its unit, rounded, thousands grouped, bytes in KB, MB or GB.
pub fn quantity(value: f64, unit: &str) -> String {
    let size = value.abs();
    let bytes = unit.strip_prefix("bytes").filter(|_| size >= 1e4);
    if let Some(rest) = bytes {
        let (scaled, scale) = match size {
            1e9.. => (value / 1e9, "GB"),
            1e6.. => (value / 1e6, "MB"),
            _ => (value / 1e3, "KB"),
        };
        return format!("{scaled:.2} {scale}{rest}");
    }
    let number = match size {
        100.0.. => grouped(value),
        _ if value.fract() == 0.0 => grouped(value),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    // "1" is the unit of counts, "1/s" that of rates.
    match unit.strip_prefix('1').unwrap_or(unit) {
        rest if rest.is_empty() || rest.starts_with('/') => number + rest,
        unit => format!("{number} {unit}"),
    }
}

/// 1234567.4 → 1,234,567.
fn grouped(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", HumanCount(value.abs().round() as u64))
}

/// What a measurement ran on: 2 cores (AMD EPYC).
pub fn cores(machine: &Machine) -> String {
    let processor = machine.processor.as_deref();
    let processor = processor.unwrap_or("unknown processor");
    format!("{} cores ({processor})", machine.cores)
}

/// One place in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A value and its unit.
    Figure(f64, String),
    /// Words.
    Text(String),
    /// What could not be measured.
    Absent,
}

impl Cell {
    /// A figure, if there is one.
    pub fn figure(value: Option<f64>, unit: &str) -> Cell {
        let finite = value.filter(|value| value.is_finite());
        finite.map_or(Cell::Absent, |value| Cell::Figure(value, unit.to_owned()))
    }

    /// As it is shown.
    pub fn text(&self) -> String {
        match self {
            Cell::Figure(value, unit) => quantity(*value, unit),
            Cell::Text(text) => text.clone(),
            Cell::Absent => "–".to_owned(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

/// Rows of cells below titles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The titles.
    pub columns: Vec<String>,
    /// As many cells in each as there are titles.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// One without rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
        let columns = columns.into_iter().map(str::to_owned).collect();
        let rows = Vec::new();
        Table { columns, rows }
    }

    /// As Markdown that can be read in a terminal, too; figures to the right, words to the left.
    pub fn markdown(&self) -> String {
        let mut lines = vec!["|".to_owned(); self.rows.len() + 2];
        for (column, title) in self.columns.iter().enumerate() {
            let cells = || self.rows.iter().map(|row| &row[column]);
            let is_right = cells().any(|cell| matches!(cell, Cell::Figure(..)));
            let texts: Vec<String> = cells().map(Cell::text).collect();
            let sizes = texts.iter().chain([title]).map(|text| text.chars().count());
            let width = sizes.max().unwrap_or(0).max(3);
            let mut rule = "-".repeat(width);
            if is_right {
                rule.replace_range(width - 1.., ":");
            }
            let all = [title, &rule].into_iter().chain(&texts);
            for (line, text) in lines.iter_mut().zip(all) {
                let gap = " ".repeat(width - text.chars().count());
                let (before, after) = if is_right { (&*gap, "") } else { ("", &*gap) };
                *line += &format!(" {before}{text}{after} |");
            }
        }
        lines.join("\n") + "\n"
    }
}

/// A result that is tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// The tables.
    pub tables: Vec<Table>,
}

impl Sheet {
    /// One without tables.
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

    /// The tables, and below them what they are worth.
    pub fn markdown(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(Table::markdown).collect();
        format!("{}\n{}", tables.join("\n"), self.worth())
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
            let row = [Cell::figure(Some(at), "1"), Cell::figure(p99, "ms")];
            table.rows.push([&row[..], &["x".into()]].concat());
        }
        let expected = "\
| n: messages |     p99 |     |
| ----------: | ------: | --- |
|          10 | 1.50 ms | x   |
|   1,000,000 |       – | x   |
|           1 |       – | x   |
";
        assert_eq!(table.markdown(), expected);
        let json = serde_json::to_string(&table).expect("JSON");
        let read: Table = serde_json::from_str(&json).expect("the same");
        assert_eq!(read, table);
    }

    #[test]
    fn a_sheet_says_what_it_is_worth() {
        let mut sheet = Sheet::new("Measured here".into());
        assert_eq!(sheet.verdict(), Verdict::Held);
        sheet.invalid = vec!["x".into(), "y".into()];
        assert_eq!(sheet.verdict(), Verdict::Invalid);
        sheet.faults = vec!["z".into()];
        assert_eq!(sheet.verdict(), Verdict::Broken);
        let text = sheet.markdown();
        let worth = "Measured here; 1 faults. Not to be believed: x; y.";
        assert!(text.ends_with(worth), "{text}");
    }
}
