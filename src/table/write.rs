//! Writes of one row as they are asked for, and their documented checks.
//!
//! Owns: the requests and everything about them that can be checked without the row. Promises: a checked write meets
//! only conditions, versions and increments on the writer's thread. Must not: run there; `apply.rs` does.

use std::collections::HashSet;
use std::sync::Arc;

use crate::model::Value;
use crate::partition::Purpose;

use super::Error;
use super::found::{COLUMNS_MAX, Consumed, FoundRow, VERSION_END, key_size, value_size};
use super::key_value::{Existence, KeyValue, PrimaryKey};
use super::primary_key::{Use, check};
use super::schema::{Table, check_column_name};

/// The most bytes of a text or binary value.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// The most bytes of a request that writes.
pub const WRITE_BYTES_MAX: usize = 4 << 20;

/// Decides by the row as it is before the write, all versions that live; a row that is not there has no cells.
pub type RowTest = Arc<dyn Fn(&Table, &FoundRow) -> bool + Send + Sync>;

/// What the row must be like for a write to take effect.
#[derive(Clone, Default)]
pub struct Condition {
    /// Whether it has to be there.
    pub existence: Existence,
    /// What its columns must be like.
    pub test: Option<RowTest>,
    /// The test may take long on a large row: then it is done before the write is queued, and the write is refused if
    /// the row has changed meanwhile.
    pub is_costly: bool,
}

/// A cell of a put.
#[derive(Clone, Debug, PartialEq)]
pub struct PutCell {
    /// Its column.
    pub name: String,
    /// Its version; `None` = now.
    pub version: Option<i64>,
    /// Its value.
    pub value: Value,
}

/// A change of an update.
#[derive(Clone, Debug, PartialEq)]
pub enum CellChange {
    /// A version is written; without a version of its own above all that the column has.
    Put(PutCell),
    /// One version goes.
    DeleteOne {
        /// The column.
        name: String,
        /// The version.
        version: i64,
    },
    /// All versions go.
    DeleteAll {
        /// The column.
        name: String,
    },
    /// The newest value and `by` make a new version.
    Increment {
        /// The column.
        name: String,
        /// How much is added.
        by: i64,
    },
}

impl CellChange {
    pub(super) fn name(&self) -> &str {
        match self {
            CellChange::Put(PutCell { name, .. })
            | CellChange::DeleteOne { name, .. }
            | CellChange::DeleteAll { name }
            | CellChange::Increment { name, .. } => name,
        }
    }
}

/// What is done to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// It becomes these cells and nothing else.
    Put(Vec<PutCell>),
    /// Some cells change.
    Update(Vec<CellChange>),
    /// It goes.
    Delete,
}

/// What a write answers with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReturnContent {
    /// Nothing.
    #[default]
    None,
    /// The primary key, also if the server numbered it.
    Key,
    /// These columns, which were incremented, as they became.
    Incremented(Vec<String>),
}

/// A write of one row.
#[derive(Clone)]
pub struct RowWrite {
    /// Its primary key.
    pub key: PrimaryKey,
    /// What is done.
    pub change: RowChange,
    /// When.
    pub condition: Condition,
    /// What is answered.
    pub content: ReturnContent,
}

/// A write that took effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// What was to be returned.
    pub row: Option<FoundRow>,
    /// What it used.
    pub consumed: Consumed,
}

/// A write that was checked against its table.
pub(super) struct Checked {
    pub(super) table: Arc<Table>,
    pub(super) key: Vec<KeyValue>,
    pub(super) change: RowChange,
    pub(super) condition: Condition,
    pub(super) content: ReturnContent,
    /// The bytes that it counts.
    pub(super) size: usize,
    /// What a costly test has said.
    pub(super) seen: Option<Seen>,
}

/// What a costly test said of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Tells the row from what it may have become.
    pub(super) digest: u128,
    pub(super) holds: bool,
}

impl Checked {
    pub(super) fn new(table: Arc<Table>, write: RowWrite) -> Result<Checked, Error> {
        let RowWrite {
            key,
            change,
            condition,
            content,
        } = write;
        if table.is_read_only() {
            return Err(Error::ReadOnlyTable);
        }
        let purpose = match change {
            RowChange::Delete => Use::Delete,
            _ => Use::Write,
        };
        let key = check(&table.primary_key, key, purpose)?;
        check_expectations(&table, &key, &change, &condition)?;
        let size = key_size(&table, &key) + check_change(&table, &change)?;
        if size > WRITE_BYTES_MAX {
            return Err(Error::TooLarge {
                limit: WRITE_BYTES_MAX,
                size,
            });
        }
        check_content(&change, &content)?;
        Ok(Checked {
            table,
            key,
            change,
            condition,
            content,
            size,
            seen: None,
        })
    }

    /// Whether the server numbers the row.
    pub(super) fn is_numbered(&self) -> bool {
        self.key.contains(&KeyValue::AutoIncrement)
    }

    /// What the write is for.
    pub(super) fn purpose(&self) -> Purpose {
        match self.change {
            RowChange::Delete => Purpose::MakesRoom,
            RowChange::Put(_) | RowChange::Update(_) => Purpose::Adds,
        }
    }

    /// About how many bytes the queue holds for it.
    pub(super) fn bytes(&self) -> usize {
        self.size + 256
    }
}

fn check_expectations(
    table: &Table,
    key: &[KeyValue],
    change: &RowChange,
    condition: &Condition,
) -> Result<(), Error> {
    if table.numbered().is_none() || *change == RowChange::Delete {
        return Ok(());
    }
    if !key.contains(&KeyValue::AutoIncrement) {
        return match condition.existence {
            Existence::NotExist => Err(Error::AutoIncrementExpectGiven(condition.existence)),
            Existence::Ignore | Existence::Exist => Ok(()),
        };
    }
    if condition.test.is_some() {
        return Err(Error::AutoIncrementCondition);
    }
    if condition.existence != Existence::Ignore {
        return Err(Error::AutoIncrementExpect(condition.existence));
    }
    Ok(())
}

/// Gives the bytes that the change counts.
fn check_change(table: &Table, change: &RowChange) -> Result<usize, Error> {
    match change {
        RowChange::Delete => Ok(0),
        RowChange::Put(cells) => {
            check_count(cells.iter().map(|cell| cell.name.as_str()))?;
            cells.iter().map(|cell| check_cell(table, cell)).sum()
        }
        RowChange::Update(changes) => {
            if changes.is_empty() {
                return Err(Error::AttributeMissing);
            }
            if !table.options.allow_update {
                return Err(Error::UpdateForbidden);
            }
            check_count(changes.iter().map(CellChange::name))?;
            check_increments(changes)?;
            changes
                .iter()
                .map(|change| check_update(table, change))
                .sum()
        }
    }
}

fn check_count<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), Error> {
    let count = names.collect::<HashSet<_>>().len();
    if count > COLUMNS_MAX {
        return Err(Error::ColumnCount {
            limit: COLUMNS_MAX,
            count,
        });
    }
    Ok(())
}

/// An incremented column is changed in no other way.
fn check_increments(changes: &[CellChange]) -> Result<(), Error> {
    let incremented = changes
        .iter()
        .filter(|change| matches!(change, CellChange::Increment { .. }));
    for increment in incremented {
        let name = increment.name();
        if changes.iter().filter(|other| other.name() == name).count() > 1 {
            return Err(Error::IncrementMixed {
                column: name.to_owned(),
            });
        }
    }
    Ok(())
}

fn check_update(table: &Table, change: &CellChange) -> Result<usize, Error> {
    match change {
        CellChange::Put(cell) => return check_cell(table, cell),
        CellChange::DeleteOne { version, .. } => check_version(*version)?,
        CellChange::DeleteAll { .. } | CellChange::Increment { .. } => {}
    }
    check_attribute(table, change.name())?;
    Ok(change.name().len() + 8)
}

fn check_cell(table: &Table, cell: &PutCell) -> Result<usize, Error> {
    check_attribute(table, &cell.name)?;
    let length = value_size((&cell.value).into());
    if length > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong {
            column: cell.name.clone(),
            max: VALUE_BYTES_MAX,
            length,
        });
    }
    if let Some(version) = cell.version {
        check_version(version)?;
    }
    // A version counts whoever made it, as it does when it is read.
    Ok(cell.name.len() + 8 + length)
}

fn check_attribute(table: &Table, name: &str) -> Result<(), Error> {
    check_column_name(name)?;
    if table.is_key_column(name) {
        return Err(Error::DuplicateWithKey(name.to_owned()));
    }
    Ok(())
}

fn check_version(version: i64) -> Result<(), Error> {
    if (0..VERSION_END).contains(&version) {
        Ok(())
    } else {
        Err(Error::VersionOutOfRange)
    }
}

/// Only columns that are incremented can be returned.
fn check_content(change: &RowChange, content: &ReturnContent) -> Result<(), Error> {
    let ReturnContent::Incremented(names) = content else {
        return Ok(());
    };
    for name in names {
        let is_incremented = match change {
            RowChange::Update(changes) => changes.iter().any(
                |change| matches!(change, CellChange::Increment { name: other, .. } if other == name),
            ),
            RowChange::Put(_) | RowChange::Delete => false,
        };
        if !is_incremented {
            return Err(Error::ReturnColumn(name.clone()));
        }
    }
    Ok(())
}
