//! Rows as callers get them, and what of a row a read asks for.
//!
//! Owns: the documented order on reads (versions that live, versions asked, columns, filter) and the sizes that
//! capacity units are counted from. Promises: a filter sees the selected cells only. Must not: fetch rows.

use std::sync::Arc;

use super::Error;
use super::key_value::KeyValue;
use super::row::Cell;
use super::schema::{Table, check_column_name};
use super::versions::Judged;
use crate::model::{Value, ValueRef};

/// The most column names that a request may have.
pub const COLUMNS_MAX: usize = 1024;
/// Versions are times in [0, this) ms.
pub const VERSION_END: i64 = i64::MAX / 1_000;

/// One version of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundCell {
    /// Its column.
    pub name: String,
    /// Its version, ms since 1970.
    pub version: i64,
    /// Its value.
    pub value: Value,
}

/// A row: the values of its primary key in the table's order, and cells: columns in the order of their names, versions
/// newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRow {
    /// The primary key.
    pub key: Vec<KeyValue>,
    /// The cells.
    pub cells: Vec<FoundCell>,
}

/// Decides whether a row passes, and may take cells out of it.
pub type RowFilter = Arc<dyn Fn(&Table, &mut FoundRow) -> bool + Send + Sync>;

/// What of a row is asked for.
#[derive(Clone, Default)]
pub struct Selection {
    /// These columns only; empty = all. A primary key column makes every row qualify.
    pub columns: Vec<String>,
    /// Columns from this name on.
    pub start: Option<String>,
    /// Columns before this name.
    pub end: Option<String>,
    /// So many of the newest versions.
    pub max_versions: Option<i64>,
    /// Versions from the first (inclusive) to the second (exclusive).
    pub versions: Option<(i64, i64)>,
    /// Rows that it refuses are not returned.
    pub filter: Option<RowFilter>,
}

impl Selection {
    /// The documented checks; brings the columns into order.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if self.max_versions.is_none() && self.versions.is_none() {
            return Err(Error::NoVersions);
        }
        if let Some(asked) = self.max_versions.filter(|asked| *asked <= 0) {
            return Err(Error::InvalidVersionsAsked(asked));
        }
        if let Some((start, end)) = self.versions
            && !((0..VERSION_END).contains(&start) && (0..=VERSION_END).contains(&end))
        {
            return Err(Error::VersionOutOfRange);
        }
        if self.columns.len() > COLUMNS_MAX {
            return Err(Error::ColumnCount {
                limit: COLUMNS_MAX,
                count: self.columns.len(),
            });
        }
        for name in &self.columns {
            check_column_name(name)?;
        }
        self.columns.sort_unstable();
        self.columns.dedup();
        Ok(())
    }

    /// The columns that all depends on, in order; `None` = also whether the row is there at all.
    pub(super) fn named_columns(&self, table: &Table) -> Option<Vec<&str>> {
        let is_key = |name: &String| table.is_key_column(name);
        (!self.columns.is_empty() && !self.columns.iter().any(is_key))
            .then(|| self.columns.iter().map(String::as_str).collect())
    }

    /// What a read gives of a row that is there, and how many bytes that counts. A row is given if something asked for
    /// is in it, if a primary key column is asked for, or if it has no cells at all and no column is asked for by name.
    pub(super) fn apply(
        &self,
        table: &Table,
        key: Vec<KeyValue>,
        judged: &Judged<'_>,
    ) -> (Option<FoundRow>, usize) {
        let cells = self.cells(&judged.living);
        let mut row = FoundRow { key, cells };
        let size = row.size(table);
        let qualifies = !row.cells.is_empty()
            || self.columns.iter().any(|name| table.is_key_column(name))
            || (judged.living.is_empty() && self.columns.is_empty());
        let passes = qualifies
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| filter(table, &mut row));
        (passes.then_some(row), size)
    }

    fn cells(&self, living: &[Cell<'_>]) -> Vec<FoundCell> {
        let mut cells: Vec<FoundCell> = Vec::new();
        let (mut column, mut versions) = (None, 0);
        for cell in living {
            if !self.names(cell.name)
                || self
                    .versions
                    .is_some_and(|(start, end)| cell.version < start || cell.version >= end)
            {
                continue;
            }
            if column.replace(cell.name) != Some(cell.name) {
                versions = 0;
            }
            versions += 1;
            if self.max_versions.is_none_or(|max| versions <= max) {
                cells.push(FoundCell::from(cell));
            }
        }
        cells
    }

    fn names(&self, name: &str) -> bool {
        let listed = || {
            self.columns
                .binary_search_by(|other| other.as_str().cmp(name))
        };
        (self.columns.is_empty() || listed().is_ok())
            && self.start.as_deref().is_none_or(|start| name >= start)
            && self.end.as_deref().is_none_or(|end| name < end)
    }
}

impl From<&Cell<'_>> for FoundCell {
    fn from(cell: &Cell<'_>) -> FoundCell {
        FoundCell {
            name: cell.name.to_owned(),
            version: cell.version,
            value: cell.value.to_value(),
        }
    }
}

impl FoundRow {
    /// The whole row, all versions that live.
    pub(super) fn whole(key: Vec<KeyValue>, judged: &Judged<'_>) -> FoundRow {
        FoundRow {
            key,
            cells: judged.living.iter().map(FoundCell::from).collect(),
        }
    }

    /// How many bytes it counts.
    pub(super) fn size(&self, table: &Table) -> usize {
        let cells = self
            .cells
            .iter()
            .map(|cell| cell_size(&cell.name, (&cell.value).into()));
        key_size(table, &self.key) + cells.sum::<usize>()
    }
}

/// How many bytes a primary key counts: names and values.
pub(super) fn key_size(table: &Table, key: &[KeyValue]) -> usize {
    table.key_names_size() + key.iter().map(KeyValue::size).sum::<usize>()
}

/// How many bytes a cell counts: name, version, value.
pub(super) fn cell_size(name: &str, value: ValueRef<'_>) -> usize {
    name.len() + 8 + value_size(value)
}

/// How many bytes a value counts.
pub(super) fn value_size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::String(text) | ValueRef::Json(text) => text.len(),
        ValueRef::Binary(bytes) => bytes.len(),
        ValueRef::Integer(_) | ValueRef::Double(_) => 8,
        ValueRef::Boolean(_) => 1,
    }
}

/// Capacity units that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// For reading.
    pub read: u32,
    /// For writing.
    pub write: u32,
}

/// Bytes as capacity units of 4 KiB, at least one.
#[must_use]
pub(super) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(4_096))
        .unwrap_or(u32::MAX)
        .max(1)
}
