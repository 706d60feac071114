//! Defined columns: attributes with a declared type.
//!
//! Owns: their types (whose names are a format on disk). Must not: check a list of them (`mod.rs`).

use serde::{Deserialize, Serialize};

/// The type of a defined column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// A signed 64-bit integer.
    Integer,
    /// A finite double.
    Double,
    /// True or false.
    Boolean,
    /// UTF-8 text.
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
