//! Capacity units, and what the data of a request counts.
//!
//! Owns: the sizes of values and cells. Promises: pure arithmetic that cannot overflow for sizes that fit the limits.
//! Must not: know rates or reservations, or count what was read; the tables do.

use crate::model::Value;

/// What an operation used, in units of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Units of reading.
    pub read: u32,
    /// Units of writing.
    pub write: u32,
}

/// What a value counts for.
#[must_use]
pub fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) | Value::Json(text) => text.len(),
        Value::Integer(_) | Value::Double(_) => 8,
        Value::Boolean(_) => 1,
        Value::Binary(bytes) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_their_bytes() {
        for (value, bytes) in [
            (Value::String("äb".to_owned()), 3),
            (Value::Integer(i64::MAX), 8),
            (Value::Double(0.5), 8),
            (Value::Boolean(true), 1),
            (Value::Binary(bytes::Bytes::from_static(&[1, 2])), 2),
        ] {
            assert_eq!(value_bytes(&value), bytes);
        }
    }
}
