//! Defined columns: attributes with a declared type.
//!
//! Owns: their types (whose names are a format on disk). Must not: check a list of them (`mod.rs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The declared type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "column_type")]
pub enum ColumnType {
    /// A signed 64-bit integer.
    Integer,
    /// A double.
    Double,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// Bytes.
    Binary,
}

/// An attribute column with a declared type, so that an index may hold it. The type does not bind what rows hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
}
