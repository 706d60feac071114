//! What a table is: its name, primary key columns, defined columns, options, reserved throughput.
//!
//! Owns: definitions, as they are asked for and as the catalog keeps them (their JSON is a format on disk). Promises:
//! what passed the checks here breaks no documented rule. Must not: store anything.

pub(super) mod defined;
pub(super) mod index;
pub(super) mod mapping;
pub(super) mod options;

use serde::{Deserialize, Serialize};

use super::limits::{
    CAPACITY_UNITS_MAX, DEFINED_COLUMNS_MAX, INDEXES_MAX, KEY_COLUMNS_MAX, SEARCH_INDEXES_MAX,
};
use super::search::{InvalidSearch, SearchIndex};
use super::series::SeriesPart;
use super::{
    DefinedColumn, Error, IndexDefinition, IndexMeta, KeyColumn, KeyType, Mapping, OptionsUpdate,
    Stream, StreamSpec, TableOptions,
};
use tideline_base::ids::TableId;

/// Reserved throughput: kept and given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Capacity units for reading.
    pub read: i64,
    /// Capacity units for writing.
    pub write: i64,
}

impl Throughput {
    /// Checks its range.
    pub fn check(self) -> Result<(), Error> {
        let is_fit = |units: &i64| (0..=CAPACITY_UNITS_MAX).contains(units);
        match [self.read, self.write]
            .into_iter()
            .find(|units| !is_fit(units))
        {
            Some(units) => Err(Error::InvalidCapacityUnit(units)),
            None => Ok(()),
        }
    }
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
    /// Its secondary indexes.
    pub indexes: Vec<IndexMeta>,
    /// Its stream, if it is to have one.
    pub stream: Option<StreamSpec>,
    /// Whether it takes local transactions.
    pub local_transactions: bool,
}

/// A table as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Never used again after the table is gone.
    pub id: TableId,
    /// Its name.
    pub name: String,
    /// Its primary key columns, in order; the first is the partition key.
    pub primary_key: Vec<KeyColumn>,
    /// Its defined columns.
    #[serde(default)]
    pub defined_columns: Vec<DefinedColumn>,
    /// Its secondary indexes.
    #[serde(default)]
    pub indexes: Vec<IndexDefinition>,
    /// Its search indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search_indexes: Vec<SearchIndex>,
    /// Its mappings for SQL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mappings: Vec<Mapping>,
    /// What it holds of a table of time series; such a table is not shown among tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesPart>,
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
    /// Its stream, if it has one.
    #[serde(default)]
    pub stream: Option<Stream>,
    /// Whether it takes local transactions.
    #[serde(default = "yes")]
    pub local_transactions: bool,
}

fn yes() -> bool {
    true
}

impl Definition {
    /// Checks the table's indexes against it.
    pub fn check_indexes(&self) -> Result<(), Error> {
        if self.indexes.len() > INDEXES_MAX {
            return Err(Error::IndexQuota(INDEXES_MAX));
        }
        for index in &self.indexes {
            index
                .meta
                .whole_key(&self.primary_key, &self.defined_columns)?;
        }
        match self.indexes.is_empty() {
            true => Ok(()),
            false => self.options.check_indexed(),
        }
    }

    /// Checks the table against its search indexes: a row there has one version of a column, and an update does not
    /// make a part of it live longer.
    pub fn check_search_indexes(&self) -> Result<(), Error> {
        let refused = |why| Err(Error::Search(why));
        if self.search_indexes.len() > SEARCH_INDEXES_MAX {
            return refused(InvalidSearch::IndexQuota(SEARCH_INDEXES_MAX));
        }
        let TableOptions {
            max_versions,
            time_to_live_s,
            allow_update,
            ..
        } = self.options;
        let expires = |index: &SearchIndex| index.time_to_live_s != -1;
        match self.search_indexes.is_empty() {
            true => Ok(()),
            false if max_versions != 1 => refused(InvalidSearch::Versions),
            false if time_to_live_s != -1 && allow_update => refused(InvalidSearch::TimeToLive),
            false if allow_update && self.search_indexes.iter().any(expires) => {
                refused(InvalidSearch::TimeToLive)
            }
            false => Ok(()),
        }
    }

    /// All names that it takes: its own and those of its indexes.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let indexes = self.indexes.iter().map(|index| &index.meta.name);
        std::iter::once(&self.name).chain(indexes)
    }
}

/// A change of a table: only what is given changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableUpdate {
    /// Its options.
    pub options: OptionsUpdate,
    /// Reserved units for reading.
    pub reserved_read: Option<i64>,
    /// Reserved units for writing.
    pub reserved_write: Option<i64>,
    /// The stream that it is to have; `Some(None)` = none.
    pub stream: Option<Option<StreamSpec>>,
}

impl TableUpdate {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == TableUpdate::default()
    }
}

/// Checks the primary key of a table called `table`; the columns' names are legal.
pub fn check_key_columns(table: &str, columns: &[KeyColumn]) -> Result<(), Error> {
    if !(1..=KEY_COLUMNS_MAX).contains(&columns.len()) {
        return Err(Error::KeyColumnCount);
    }
    for (at, KeyColumn { name, .. }) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == *name) {
            return Err(Error::DuplicateKeyColumn(name.clone()));
        }
    }
    let numbered = columns.iter().filter(|column| column.auto_increment);
    if numbered
        .clone()
        .any(|column| column.kind != KeyType::Integer)
    {
        return Err(Error::AutoIncrementNotInteger);
    }
    if numbered.count() > 1 {
        return Err(Error::AutoIncrementCount);
    }
    if columns[0].auto_increment {
        let table = table.to_owned();
        return Err(Error::AutoIncrementFirst { table });
    }
    Ok(())
}

/// Checks the defined columns of a table with this primary key; their names are legal.
pub fn check_defined_columns(key: &[KeyColumn], defined: &[DefinedColumn]) -> Result<(), Error> {
    if defined.len() > DEFINED_COLUMNS_MAX {
        return Err(Error::DefinedColumnCount);
    }
    for (at, DefinedColumn { name, .. }) in defined.iter().enumerate() {
        if key.iter().any(|column| column.name == *name) {
            return Err(Error::DuplicateWithKey(name.clone()));
        }
        if defined[..at].iter().any(|other| other.name == *name) {
            return Err(Error::DuplicateDefinedColumn(name.clone()));
        }
    }
    Ok(())
}
