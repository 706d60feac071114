//! How long things are as bytes on the wire, without writing them.
//!
//! Owns: the size of an entry, which by definition is that of its compact JSON text, and upper bounds for pages. Promises: exact for JSON
//! with integers as numbers; never too low for any encoding. Must not: allocate, but for doubles.

use super::entry::{Columns, Entry};
use crate::value::Value;

/// The length of an entry's compact JSON text, with big integers as numbers: its size, by definition.
pub(crate) fn json_bytes(columns: &Columns) -> usize {
    let inner: usize = columns
        .iter()
        .map(|(name, value)| text_json_bytes(name) + 1 + value_json_bytes(value))
        .sum();
    2 + inner + columns.len().saturating_sub(1)
}

fn value_json_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text_json_bytes(text),
        Value::Integer(number) => {
            let digits = number
                .unsigned_abs()
                .checked_ilog10()
                .map_or(1, |log| log as usize + 1);
            digits + usize::from(*number < 0)
        }
        Value::Double(number) => serde_json::to_string(number).map_or(0, |text| text.len()),
        Value::Boolean(true) => 4,
        Value::Boolean(false) => 5,
        Value::Binary(bytes) => bytes.len().div_ceil(3) * 4 + r#"{"$binary":""}"#.len(),
        Value::Json(text) => text.len(),
    }
}

/// The length of a text as a JSON string, quotes and escapes included, as serde_json writes it.
pub(crate) fn text_json_bytes(text: &str) -> usize {
    // Counts what is longer than itself; branch-free, so that long texts are counted a vector at a time.
    let escapes: usize = text
        .bytes()
        .map(|byte| usize::from(byte < 0x20) * 5 + usize::from(byte == b'"' || byte == b'\\'))
        .sum();
    let short = if escapes == 0 {
        0
    } else {
        text.bytes()
            .filter(|byte| matches!(byte, 8 | 9 | 10 | 12 | 13))
            .count()
            * 4
    };
    text.len() + 2 + escapes - short
}

impl Entry {
    /// At most so many bytes in any encoding.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        // A name or text takes 2 bytes of quotes in JSON and up to 5 of header in MessagePack; an integer at most 34 (as
        // `$integer`); a double 25; binary is longer in base64; a nested number grows from `1,` to 9 bytes at worst from `1e5,`.
        let value = |value: &Value| match value {
            Value::String(text) => text_json_bytes(text) + 3,
            Value::Integer(_) | Value::Double(_) => 36,
            Value::Json(text) => text.len() * 3 + 5,
            other => value_json_bytes(other) + 5,
        };
        8 + self
            .0
            .iter()
            .map(|(name, held)| text_json_bytes(name) + 5 + value(held))
            .sum::<usize>()
    }
}
