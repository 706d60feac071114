//! How data is counted in capacity units.
//!
//! Owns: the sizes of values and cells, and the rounding. Promises: pure arithmetic that cannot overflow for sizes that
//! fit the limits. Must not: know rates or reservations; whoever answers adds up what it read and wrote.

use super::limits::{CAPACITY_UNIT_BYTES, TIMESTAMP_BYTES};
use crate::value::Value;

/// What an operation used, in units of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Units of reading.
    pub read: u32,
    /// Units of writing.
    pub write: u32,
}

impl Capacity {
    /// Reading `bytes`: a row that is not there costs one unit.
    #[must_use]
    pub fn read(bytes: u64) -> Capacity {
        Capacity {
            read: units(bytes).max(1),
            write: 0,
        }
    }

    /// Writing `bytes` of a row; with a condition also reading the `checked` bytes of the row it looks at.
    #[must_use]
    pub fn write(bytes: u64, checked: Option<u64>) -> Capacity {
        Capacity {
            read: checked.map_or(0, |bytes| units(bytes).max(1)),
            write: units(bytes).max(1),
        }
    }

    /// Deleting a row, whatever its size.
    #[must_use]
    pub fn delete(conditional: bool) -> Capacity {
        Capacity {
            read: u32::from(conditional),
            write: 1,
        }
    }
}

/// Begun units of 4 KiB.
#[must_use]
pub fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(CAPACITY_UNIT_BYTES)).unwrap_or(u32::MAX)
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

/// What a version of an attribute counts for: name, value and timestamp.
#[must_use]
pub fn version_bytes(name: &str, value: &Value) -> usize {
    name.len() + value_bytes(value) + TIMESTAMP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_begun_blocks_of_4_kib() {
        for (bytes, expected) in [
            (0, 0),
            (1, 1),
            (4096, 1),
            (4097, 2),
            (8192, 2),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(units(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn operations_cost_what_they_touch() {
        let capacity = |read, write| Capacity { read, write };
        assert_eq!(Capacity::read(0), capacity(1, 0));
        assert_eq!(Capacity::read(4097), capacity(2, 0));
        assert_eq!(Capacity::write(4097, None), capacity(0, 2));
        assert_eq!(Capacity::write(1, Some(0)), capacity(1, 1));
        assert_eq!(Capacity::write(1, Some(8193)), capacity(3, 1));
        assert_eq!(Capacity::delete(false), capacity(0, 1));
        assert_eq!(Capacity::delete(true), capacity(1, 1));
    }

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
            assert_eq!(version_bytes("name", &value), bytes + 4 + 8);
        }
    }
}
