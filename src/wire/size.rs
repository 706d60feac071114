//! How long an entry can become on the wire, without writing it.
//!
//! Owns: the upper bound by which pages are cut. Promises: never too low for any encoding. Must not: say what an
//! entry's size is; by definition that is [`crate::model::json_bytes`].

use super::entry::Entry;
use crate::model::{Value, json_text_bytes};

impl Entry {
    /// At most so many bytes in any encoding.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        // A name or text takes 2 bytes of quotes in JSON and up to 5 of header in MessagePack; an integer at most 34
        // (as `$integer`); a double 25; binary is longer in base64; a nested number grows from `1,` to 9 bytes at worst
        // from `1e5,`.
        let value = |value: &Value| match value {
            Value::String(text) => json_text_bytes(text) + 3,
            Value::Integer(_) | Value::Double(_) => 36,
            Value::Json(text) => text.len() * 3 + 5,
            other => other.json_bytes() + 5,
        };
        8 + self
            .0
            .iter()
            .map(|(name, held)| json_text_bytes(name) + 5 + value(held))
            .sum::<usize>()
    }
}
