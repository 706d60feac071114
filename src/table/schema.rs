//! What a table is: its name, primary key columns, defined columns, options, reserved throughput.
//!
//! Owns: definitions and the documented checks of a new one. Promises: a definition in the catalog was checked. Must
//! not: store anything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::TableId;

use super::Error;
use super::key_value::{KeyColumn, KeyType};
use super::options::TableOptions;
use super::virtual_table::VirtualRows;

/// The most bytes of a table's or column's name.
pub const NAME_BYTES_MAX: usize = 255;
/// The most primary key columns.
pub const KEY_COLUMNS_MAX: usize = 4;
/// The most defined columns.
pub const DEFINED_COLUMNS_MAX: usize = 32;
/// The most reserved capacity units.
pub const CAPACITY_UNITS_MAX: i64 = 100_000;

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

/// An attribute column with a declared type, for those who need one (indexes). It does not bind what rows hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
}

/// Reserved throughput: kept and given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Capacity units for reading.
    pub read: i64,
    /// Capacity units for writing.
    pub write: i64,
}

/// A table as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// Its primary key columns, in order.
    pub primary_key: Vec<KeyColumn>,
    /// Its defined columns.
    pub defined_columns: Vec<DefinedColumn>,
    /// Its options.
    pub options: TableOptions,
    /// Its reserved throughput.
    pub reserved: Throughput,
}

/// A table as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Never used again after the table is gone.
    pub id: TableId,
    /// Its name.
    pub name: String,
    /// Its primary key columns, in order; the first is the partition key.
    pub primary_key: Vec<KeyColumn>,
    /// Its defined columns.
    #[serde(default)]
    pub defined_columns: Vec<DefinedColumn>,
    /// Its options.
    pub options: TableOptions,
    /// Its reserved throughput.
    pub reserved: Throughput,
    /// When it was created, µs since 1970.
    pub created_us: u64,
    /// When reserved throughput was last raised, µs since 1970.
    pub increased_us: u64,
    /// When reserved throughput was last lowered, µs since 1970; 0 = never.
    #[serde(default)]
    pub decreased_us: u64,
    /// What makes its rows, if it is a virtual table.
    #[serde(skip)]
    pub virtual_rows: Option<Arc<dyn VirtualRows>>,
}

impl Table {
    /// Whether it takes no writes.
    pub(super) fn is_read_only(&self) -> bool {
        self.virtual_rows.is_some()
    }

    /// Which primary key column the server numbers.
    pub(super) fn numbered(&self) -> Option<usize> {
        self.primary_key
            .iter()
            .position(|column| column.auto_increment)
    }

    /// Whether a primary key column has this name.
    #[must_use]
    pub fn is_key_column(&self, name: &str) -> bool {
        self.primary_key.iter().any(|column| column.name == name)
    }

    /// The bytes of all primary key columns' names.
    pub(super) fn key_names_size(&self) -> usize {
        self.primary_key
            .iter()
            .map(|column| column.name.len())
            .sum()
    }
}

impl NewTable {
    /// The documented checks.
    pub(super) fn check(&self) -> Result<(), Error> {
        check_table_name(&self.name)?;
        if self.primary_key.is_empty() || self.primary_key.len() > KEY_COLUMNS_MAX {
            return Err(Error::KeyColumnCount(self.primary_key.len()));
        }
        for (at, column) in self.primary_key.iter().enumerate() {
            check_column_name(&column.name)?;
            if self.primary_key[..at]
                .iter()
                .any(|other| other.name == column.name)
            {
                return Err(Error::DuplicateKeyColumn(column.name.clone()));
            }
        }
        let numbered = || {
            self.primary_key
                .iter()
                .filter(|column| column.auto_increment)
        };
        if numbered().any(|column| column.kind != KeyType::Integer) {
            return Err(Error::AutoIncrementNotInteger);
        }
        if numbered().count() > 1 {
            return Err(Error::AutoIncrementCount);
        }
        if self.primary_key[0].auto_increment {
            return Err(Error::AutoIncrementFirst {
                table: self.name.clone(),
            });
        }
        self.options.check()?;
        check_throughput(self.reserved)?;
        check_defined(&self.primary_key, &self.defined_columns)
    }
}

pub(super) fn check_throughput(reserved: Throughput) -> Result<(), Error> {
    for units in [reserved.read, reserved.write] {
        if !(0..=CAPACITY_UNITS_MAX).contains(&units) {
            return Err(Error::InvalidCapacityUnit(units));
        }
    }
    Ok(())
}

pub(super) fn check_defined(key: &[KeyColumn], defined: &[DefinedColumn]) -> Result<(), Error> {
    if defined.len() > DEFINED_COLUMNS_MAX {
        return Err(Error::DefinedColumnCount(defined.len()));
    }
    for (at, column) in defined.iter().enumerate() {
        check_column_name(&column.name)?;
        if key.iter().any(|other| other.name == column.name) {
            return Err(Error::DuplicateWithKey(column.name.clone()));
        }
        if defined[..at].iter().any(|other| other.name == column.name) {
            return Err(Error::DuplicateDefinedColumn(column.name.clone()));
        }
    }
    Ok(())
}

/// Table names are strict: letters, digits and `_`, no digit first.
pub(super) fn check_table_name(name: &str) -> Result<(), Error> {
    let is_fit = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || char == '_');
    if is_fit {
        Ok(())
    } else {
        Err(Error::InvalidTableName(name.to_owned()))
    }
}

/// Column names are nearly free.
pub(super) fn check_column_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('#') {
        return Err(Error::InvalidColumnName(name.to_owned()));
    }
    Ok(())
}
