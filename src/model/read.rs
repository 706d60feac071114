//! What a read asks for: of each row, and which rows of a range.
//!
//! Owns: selections and their documented order (versions that live, versions asked, columns, filter). Promises: a
//! filter sees the selected cells only. Must not: fetch rows.

use std::collections::BTreeSet;
use std::ops::Range;

use super::limits::{COLUMNS_MAX, VERSION_END};
use super::{
    Cell, Definition, Effort, Error, Filter, KeyColumn, KeyValue, PrimaryKey, RowRef, RowSink,
    check_column_name,
};

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys rising.
    Forward,
    /// Keys falling.
    Backward,
}

/// What of a row is asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These columns only; none = all. A primary key column makes every row qualify.
    pub columns: BTreeSet<String>,
    /// Columns from this name on.
    pub start: Option<String>,
    /// Columns before this name.
    pub end: Option<String>,
    /// So many of the newest versions.
    pub max_versions: Option<i64>,
    /// Versions of these times, ms.
    pub times: Option<Range<i64>>,
    /// What then has to hold of a row, or is left of it.
    pub filter: Option<Filter>,
}

/// What a read may spend on expressions, and whether anybody still waits for it.
pub struct Asking<'a> {
    /// Shared by all parts of one request.
    pub effort: &'a Effort,
    /// Whether it is a first try with little effort: if that is not enough, all is read again with more.
    pub is_light: bool,
    /// Asked before each expression.
    pub is_asked: &'a dyn Fn() -> bool,
}

impl<'a> Asking<'a> {
    /// A first try with little effort.
    #[must_use]
    pub fn light(effort: &'a Effort) -> Asking<'a> {
        Asking {
            effort,
            is_light: true,
            is_asked: &|| true,
        }
    }

    /// A read that goes on as long as somebody waits for it.
    #[must_use]
    pub fn whole(effort: &'a Effort, is_asked: &'a dyn Fn() -> bool) -> Asking<'a> {
        Asking {
            effort,
            is_light: false,
            is_asked,
        }
    }
}

impl Selection {
    /// All columns with so many of the newest versions; `None` = all of them.
    pub fn newest(max_versions: Option<i64>) -> Result<Selection, Error> {
        match max_versions {
            Some(asked) if asked <= 0 => Err(Error::InvalidVersionsAsked(asked)),
            _ => Ok(Selection {
                max_versions,
                ..Selection::default()
            }),
        }
    }

    /// Of them only the versions of these times. The end is not within the range, so it may be where no version is.
    pub fn within(mut self, times: Range<i64>) -> Result<Selection, Error> {
        if !(0..VERSION_END).contains(&times.start) || !(0..=VERSION_END).contains(&times.end) {
            return Err(Error::VersionOutOfRange);
        }
        self.times = Some(times);
        Ok(self)
    }

    /// Only these columns; none = all.
    pub fn of(mut self, columns: Vec<String>) -> Result<Selection, Error> {
        if columns.len() > COLUMNS_MAX {
            return Err(Error::ColumnsAsked(columns.len()));
        }
        for name in &columns {
            check_column_name(name)?;
        }
        self.columns.extend(columns);
        Ok(self)
    }

    /// The columns that all depends on, in order; `None` = also whether the row is there at all.
    #[must_use]
    pub fn named_columns(&self, key: &[KeyColumn]) -> Option<Vec<&str>> {
        (!self.columns.is_empty() && !self.names_key(key))
            .then(|| self.columns.iter().map(String::as_str).collect())
    }

    fn names_key(&self, key: &[KeyColumn]) -> bool {
        key.iter().any(|column| self.columns.contains(&column.name))
    }

    /// Whether it has expressions.
    #[must_use]
    pub fn is_costly(&self) -> bool {
        matches!(&self.filter, Some(Filter::Rows(predicate)) if predicate.is_costly())
    }

    /// Gives of a row of a table that is there, with these living cells, what is asked for; returns how many bytes that
    /// counts. A row is given if something asked for is in it, if a primary key column is asked for, or if it has no
    /// cells at all and no column is asked for by name.
    ///
    /// # Errors
    /// `ExpressionsTooCostly`, and nothing of the row was looked at.
    pub fn give(
        &self,
        table: &Definition,
        key: &[KeyValue],
        mut cells: Vec<Cell<'_>>,
        asking: &Asking<'_>,
        sink: &mut impl RowSink,
    ) -> Result<usize, Error> {
        let columns = &table.primary_key;
        let is_bare = cells.is_empty();
        self.retain(&mut cells);
        let row = RowRef {
            columns,
            key,
            cells: &cells,
        };
        let size = row.size(table.options.version_bytes());
        let qualifies =
            !cells.is_empty() || self.names_key(columns) || (is_bare && self.columns.is_empty());
        if !qualifies {
            return Ok(size);
        }
        match &self.filter {
            Some(Filter::Rows(predicate)) => {
                asking.effort.take(predicate.effort(&row))?;
                if !predicate.passes_while(&row, asking.is_asked) {
                    return Ok(size);
                }
            }
            Some(Filter::Columns(page)) => {
                page.retain(&mut cells);
                if cells.is_empty() {
                    return Ok(size);
                }
            }
            None => {}
        }
        sink.push(RowRef {
            columns,
            key,
            cells: &cells,
        });
        Ok(size)
    }

    fn retain(&self, cells: &mut Vec<Cell<'_>>) {
        let (mut column, mut versions) = (None, 0);
        cells.retain(|cell| {
            let times = self.times.as_ref();
            if !self.names(cell.name) || times.is_some_and(|times| !times.contains(&cell.version)) {
                return false;
            }
            if column.replace(cell.name) != Some(cell.name) {
                versions = 0;
            }
            versions += 1;
            self.max_versions.is_none_or(|max| versions <= max)
        });
    }

    fn names(&self, name: &str) -> bool {
        (self.columns.is_empty() || self.columns.contains(name))
            && self.start.as_deref().is_none_or(|start| name >= start)
            && self.end.as_deref().is_none_or(|end| name < end)
    }
}

/// A range of rows.
#[derive(Clone, Debug)]
pub struct GetRange {
    /// From which end.
    pub direction: Direction,
    /// The first key, in the direction's order; may hold infinities.
    pub start: PrimaryKey,
    /// The key behind the last one; may hold infinities.
    pub end: PrimaryKey,
    /// How many rows at most; `None` = as many as an answer may have.
    pub limit: Option<usize>,
    /// What of each row.
    pub selection: Selection,
}
