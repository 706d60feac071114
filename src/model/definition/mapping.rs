//! Mappings: which columns of a table SQL shows, and under which name.
//!
//! Owns: what a mapping is (its JSON is a format on disk), its limits, and why one is refused. Must not: know SQL.

use serde::{Deserialize, Serialize};

use crate::{ColumnType, Definition, KeyType};

/// A column that a mapping shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedColumn {
    /// Its name in the table.
    pub name: String,
    /// Its type; cells of another one show as NULL.
    pub kind: ColumnType,
    /// Kept and given back.
    #[serde(default)]
    pub is_not_null: bool,
}

/// How a mapping is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingOptions {
    /// The search index through which alone rows are found; `None` = as it seems best.
    #[serde(default)]
    pub index: Option<String>,
    /// Whether rows are never found by a search index.
    #[serde(default)]
    pub is_strong: bool,
    /// Kept and given back: aggregates are exact.
    #[serde(default)]
    pub allows_inaccurate_aggregation: bool,
}

/// A mapping of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The table's own name, or of one that names a search index another one.
    pub name: String,
    /// Key columns too, in their order.
    pub columns: Vec<MappedColumn>,
    /// How it is read.
    #[serde(default)]
    pub options: MappingOptions,
}

/// The most mappings of a table.
pub const MAPPINGS_MAX: usize = 16;
/// The most columns of a mapping.
pub const MAPPED_COLUMNS_MAX: usize = 1_024;

/// Why a mapping is not as it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidMapping {
    /// A table, an index or a mapping has this name.
    Exists(String),
    /// There is no mapping of this name.
    Missing(String),
    /// So many mappings are all that a table may have.
    Quota(usize),
    /// From one column to so many are what a mapping may have.
    ColumnCount(usize),
    /// Two columns have this name.
    DuplicateColumn(String),
    /// The mapping has no such column.
    NoColumn(String),
    /// A column of the primary key is not there, or is of another type.
    KeyColumn(String),
    /// A column of the primary key stays.
    KeyColumnStays(String),
    /// The table has no search index of this name.
    NoIndex(String),
}

impl Mapping {
    /// Checks it against its table.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, table: &Definition) -> Result<(), InvalidMapping> {
        if !(1..=MAPPED_COLUMNS_MAX).contains(&self.columns.len()) {
            return Err(InvalidMapping::ColumnCount(MAPPED_COLUMNS_MAX));
        }
        for (at, column) in self.columns.iter().enumerate() {
            if self.columns[..at]
                .iter()
                .any(|other| other.name == column.name)
            {
                return Err(InvalidMapping::DuplicateColumn(column.name.clone()));
            }
        }
        for key in &table.primary_key {
            let kind = match key.kind {
                KeyType::Integer => ColumnType::Integer,
                KeyType::String => ColumnType::String,
                KeyType::Binary => ColumnType::Binary,
            };
            let fits = |column: &MappedColumn| column.name == key.name && column.kind == kind;
            if !self.columns.iter().any(fits) {
                return Err(InvalidMapping::KeyColumn(key.name.clone()));
            }
        }
        match &self.options.index {
            Some(name) if !table.search_indexes.iter().any(|index| index.name == *name) => {
                Err(InvalidMapping::NoIndex(name.clone()))
            }
            _ => Ok(()),
        }
    }
}
