//! What a write does to the columns of its row.
//!
//! Owns: the change of a row, made of cells. Promises: each cell has what its operation needs and nothing else, and
//! values are in their limits. Must not: know the key, or the row as it stands.

use super::attribute::attribute_value;
use super::capacity::value_bytes;
use super::failure::Failure;
use super::limits::TIMESTAMP_BYTES;
use super::plainbuffer::{Cell, CellOperation, Variant};
use crate::model::Value;

/// A version of an attribute to be put.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// The column.
    pub column: String,
    /// The value.
    pub value: Value,
    /// The version in ms; None: the server's time.
    pub version: Option<i64>,
}

/// What UpdateRow does to a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnChange {
    /// Puts a version.
    Put {
        /// The value.
        value: Value,
        /// The version in ms; None: the server's time.
        version: Option<i64>,
    },
    /// Deletes the version of this time.
    DeleteVersion(i64),
    /// Deletes every version.
    DeleteAll,
    /// Adds to the newest version, or to 0.
    Increment(i64),
}

/// What a write does to its row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces it.
    Put(Vec<Put>),
    /// Changes columns, in this order.
    Update(Vec<(String, ColumnChange)>),
    /// Deletes it.
    Delete,
}

/// The version that a cell of a PutRow puts.
pub(super) fn put(cell: Cell) -> Result<Put, Failure> {
    let Cell {
        name,
        value,
        operation,
        timestamp,
    } = cell;
    if operation.is_some() {
        let text = format!("OpType cannot be given for column name:{name} in PutRow.");
        return Err(Failure::invalid(text));
    }
    let without = "Invalid request of put row: find cells without values.";
    let value = value.ok_or_else(|| Failure::invalid(without))?;
    Ok(Put {
        value: attribute_value(&name, value)?,
        column: name,
        version: timestamp,
    })
}

/// The changes of an UpdateRow's cells.
pub(super) fn updates(cells: Vec<Cell>) -> Result<Vec<(String, ColumnChange)>, Failure> {
    let mut changes: Vec<(String, ColumnChange)> = Vec::with_capacity(cells.len());
    for cell in cells {
        let name = cell.name.clone();
        changes.push((name, column_change(cell)?));
    }
    // Nothing else may happen to a column that is incremented: what it would be added to is not clear.
    let mut names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    for (name, change) in &changes {
        let first = names.partition_point(|other| *other < name.as_str());
        let twice = names.get(first + 1) == Some(&name.as_str());
        if matches!(change, ColumnChange::Increment(_)) && twice {
            let text = format!("Only one operation can be given for incremented column:{name}.");
            return Err(Failure::invalid(text));
        }
    }
    Ok(changes)
}

fn column_change(cell: Cell) -> Result<ColumnChange, Failure> {
    let Cell {
        name,
        value,
        operation,
        timestamp,
    } = cell;
    let invalid = |text: &'static str| Err(Failure::invalid(text));
    match (operation, value) {
        (None, None) => invalid("No value is given for column name."),
        (None, Some(value)) => Ok(ColumnChange::Put {
            value: attribute_value(&name, value)?,
            version: timestamp,
        }),
        (Some(CellOperation::Increment), value) => match (value, timestamp) {
            (Some(Variant::Integer(by)), None) => Ok(ColumnChange::Increment(by)),
            (_, Some(_)) => invalid("Timestamp cannot be given when type is INCREMENT."),
            _ => invalid("Column value must be an integer when type is INCREMENT."),
        },
        (Some(_), Some(_)) => invalid(
            "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.",
        ),
        (Some(CellOperation::DeleteOneVersion), None) => match timestamp {
            Some(version) => Ok(ColumnChange::DeleteVersion(version)),
            None => invalid("Timestamp must be given when type is DELETE_ONE_VERSION."),
        },
        (Some(CellOperation::DeleteAllVersions), None) => match timestamp {
            None => Ok(ColumnChange::DeleteAll),
            Some(_) => invalid("Timestamp cannot be given when type is DELETE_ALL_VERSION."),
        },
    }
}

impl Change {
    /// Bytes of the cells, as capacity units count them.
    pub(super) fn bytes(&self) -> usize {
        let cell = |name: &str, value: usize| name.len() + value + TIMESTAMP_BYTES;
        match self {
            Change::Put(puts) => puts
                .iter()
                .map(|put| cell(&put.column, value_bytes(&put.value)))
                .sum(),
            Change::Update(changes) => changes
                .iter()
                .map(|(name, change)| match change {
                    ColumnChange::Put { value, .. } => cell(name, value_bytes(value)),
                    ColumnChange::Increment(_) => cell(name, 8),
                    ColumnChange::DeleteVersion(_) => cell(name, 0),
                    ColumnChange::DeleteAll => name.len(),
                })
                .sum(),
            Change::Delete => 0,
        }
    }
}
