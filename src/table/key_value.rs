//! The columns of primary keys and what may stand in them.
//!
//! Owns: their types and values, and the bytes of one. Promises: the order of values is that of their bytes. Must not:
//! check anything; `primary_key.rs` does.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ordered;

/// The type of a primary key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// A signed 64-bit integer.
    Integer,
    /// UTF-8 text, ordered by its bytes.
    String,
    /// Bytes.
    Binary,
}

/// A primary key column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: KeyType,
    /// Whether the server numbers it.
    #[serde(default)]
    pub auto_increment: bool,
}

/// The value of a primary key column, or what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// Below every value; in bounds of ranges only.
    InfMin,
    /// A signed 64-bit integer.
    Integer(i64),
    /// UTF-8 text.
    String(String),
    /// Bytes.
    Binary(Bytes),
    /// Above every value; in bounds of ranges only.
    InfMax,
    /// To be numbered by the server; in writes only.
    AutoIncrement,
}

/// A primary key as a caller gives it: names and values in the table's order.
pub type PrimaryKey = Vec<(String, KeyValue)>;

impl KeyValue {
    pub(super) fn kind(&self) -> Option<KeyType> {
        match self {
            KeyValue::Integer(_) => Some(KeyType::Integer),
            KeyValue::String(_) => Some(KeyType::String),
            KeyValue::Binary(_) => Some(KeyType::Binary),
            KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => None,
        }
    }

    /// Whether it is a bound and no value.
    #[must_use]
    pub fn is_infinite(&self) -> bool {
        matches!(self, KeyValue::InfMin | KeyValue::InfMax)
    }

    /// How many bytes it counts: 8 for an integer.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            KeyValue::String(text) => text.len(),
            KeyValue::Binary(bytes) => bytes.len(),
            _ => 8,
        }
    }

    pub(super) fn push(&self, out: &mut Vec<u8>) {
        match self {
            KeyValue::InfMin => ordered::push_inf_min(out),
            KeyValue::Integer(number) => ordered::push_i64(out, *number),
            KeyValue::String(text) => ordered::push_string(out, text),
            KeyValue::Binary(bytes) => ordered::push_binary(out, bytes),
            KeyValue::InfMax => ordered::push_inf_max(out),
            KeyValue::AutoIncrement => unreachable!("numbered before it is encoded"),
        }
    }
}

/// Whether a row has to be there for a write to take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// Whatever.
    #[default]
    Ignore,
    /// It must be there.
    Exist,
    /// It must not be there.
    NotExist,
}
