//! An answer of SQL as a table of text.
//!
//! Owns: its lines. Promises: each value is one line and is made plain; numbers are on the right of their columns. Must
//! not: leave a value out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::plain::{json, plain};
use super::Answer;

/// The lines of an answer.
pub(super) fn table(answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(affected) = answer.affected {
        lines.push(counted(affected, "row", "written"));
    } else if answer.columns.is_empty() {
        lines.push("done".to_owned());
    }
    if answer.columns.is_empty() {
        return lines;
    }
    let names = answer.columns.iter().map(|column| plain(&column.name));
    let mut cells: Vec<Vec<String>> = vec![names.collect()];
    for row in &answer.rows {
        cells.push(row.iter().map(|value| text(value.as_deref())).collect());
    }
    let mut widths = vec![0; answer.columns.len()];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let is_number = |at: usize| matches!(&*answer.columns[at].kind, "integer" | "double");
    for (number, row) in cells.iter().enumerate() {
        let padded =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(at, (cell, &width))| match is_number(at) && number > 0 {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
        let padded: Vec<_> = padded.collect();
        lines.push(format!("| {} |", padded.join(" | ")));
        if number == 0 {
            let rules: Vec<_> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
            lines.push(format!("|{}|", rules.join("|")));
        }
    }
    lines.push(format!(
        "({})",
        counted(answer.rows.len() as u64, "row", "")
    ));
    lines
}

fn counted(count: u64, what: &str, done: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural} {done}")
        .trim_end()
        .to_owned()
}

/// What the protocol has beside JSON's own values.
#[derive(Deserialize)]
enum Typed {
    #[serde(rename = "$binary")]
    Binary(String),
    #[serde(rename = "$integer")]
    Integer(String),
}

/// A value: bytes as MySQL writes them, everything else as it is.
fn text(value: Option<&RawValue>) -> String {
    let Some(value) = value else {
        return "NULL".to_owned();
    };
    if let Ok(text) = serde_json::from_str::<String>(value.get()) {
        return plain(&text);
    }
    match serde_json::from_str(value.get()) {
        Ok(Typed::Integer(digits)) => plain(&digits),
        Ok(Typed::Binary(base64)) => {
            let bytes = BASE64.decode(base64).unwrap_or_default();
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            format!("0x{}", digits.collect::<String>())
        }
        Err(_) => json(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(answer: &str) -> Vec<String> {
        table(&serde_json::from_str(answer).unwrap())
    }

    #[test]
    fn an_answer_is_a_table() {
        let answer = r#"{"columns": [{"name": "n", "type": "integer"}, {"name": "of", "type": "string"},
            {"name": "b", "type": "binary"}], "rows": [[1, "one\n", {"$binary": "aGk="}], [-10, null, null]]}"#;
        let expected = [
            "| n   | of    | b      |",
            "|-----|-------|--------|",
            "|   1 | one\\n | 0x6869 |",
            "| -10 | NULL  | NULL   |",
            "(2 rows)",
        ];
        assert_eq!(lines(answer), expected);
        let written = r#"{"columns": [], "rows": [], "affected": 1}"#;
        assert_eq!(lines(written), ["1 row written"]);
        assert_eq!(lines(r#"{"columns": [], "rows": []}"#), ["done"]);
    }
}
