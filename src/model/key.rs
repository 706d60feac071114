//! Primary keys: their columns, and the values that may be in them.
//!
//! Owns: the types of key columns and the order of their values. Must not: check a key (`check`, and against a table's
//! `table/format/primary_key.rs`).

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ValueRef;

/// The type of a key's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "key_type")]
pub enum KeyType {
    /// A signed 64-bit integer.
    Integer,
    /// Text, ordered by its bytes.
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

/// The value of a primary key column, or a mark in its place. The order is that of rows.
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

/// A primary key as a request gives it: names and values in the table's order.
pub type PrimaryKey = Vec<(String, KeyValue)>;

impl KeyValue {
    /// The type that a column with this value has; none for a mark.
    #[must_use]
    pub fn kind(&self) -> Option<KeyType> {
        match self {
            KeyValue::Integer(_) => Some(KeyType::Integer),
            KeyValue::String(_) => Some(KeyType::String),
            KeyValue::Binary(_) => Some(KeyType::Binary),
            KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => None,
        }
    }

    /// As the value of an attribute; none for a mark.
    #[must_use]
    pub fn as_value(&self) -> Option<ValueRef<'_>> {
        match self {
            KeyValue::Integer(number) => Some(ValueRef::Integer(*number)),
            KeyValue::String(text) => Some(ValueRef::String(text)),
            KeyValue::Binary(bytes) => Some(ValueRef::Binary(bytes)),
            KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => None,
        }
    }

    /// Whether it is below or above every value.
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
}

/// How many bytes a primary key counts: names and values.
#[must_use]
pub fn key_size(columns: &[KeyColumn], key: &[KeyValue]) -> usize {
    let names = columns.iter().map(|column| column.name.len());
    names.sum::<usize>() + key.iter().map(KeyValue::size).sum::<usize>()
}
