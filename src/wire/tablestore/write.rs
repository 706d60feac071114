//! Writes of rows: PutRow, UpdateRow, DeleteRow, and BatchWriteRow, which holds many of them.
//!
//! Owns: a write's key, change and condition together, and what is to be returned of the row. Promises: a write that
//! leaves this module has cells that its kind allows, values in their limits, at most 1024 cells and 4 MiB of data.
//! Must not: know a table's schema or the row as it stands.

use bytes::Bytes;

use super::change::{Change, ColumnChange, put, updates};
use super::condition::{Condition, Existence};
use super::failure::Failure;
use super::key::{Key, WriteKeyValue, key_bytes, take_key};
use super::limits::{TIMESTAMP_END, WRITE_BYTES_MAX, WRITE_COLUMNS_MAX};
use super::name::check_column_name;
use super::plainbuffer::{Cell, Row, decode_row};
use super::proto;
use super::table::{missing, table_name};

/// What the answer to a write holds of the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Returned {
    /// Nothing.
    #[default]
    Nothing,
    /// Its key, with the number that the server gave.
    Key,
    /// These columns, which the write increments.
    AfterModify(Vec<String>),
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Of which row.
    pub key: Key<WriteKeyValue>,
    /// What.
    pub change: Change,
    /// If what.
    pub condition: Condition,
    /// Answered how.
    pub returned: Returned,
    /// Bytes of data, as capacity units count them.
    pub bytes: usize,
}

/// PutRow, UpdateRow or DeleteRow.
#[derive(Clone, Debug)]
pub struct WriteRow {
    /// The table.
    pub table: String,
    /// The write.
    pub write: Write,
    /// The transaction it is part of.
    pub transaction: Option<String>,
}

/// Which of the three kinds of write a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Update,
    Delete,
}

/// A write as its message holds it.
pub(super) struct Parts {
    pub(super) kind: Kind,
    pub(super) row: Option<Bytes>,
    pub(super) condition: Option<proto::Condition>,
    pub(super) returned: Option<proto::ReturnContent>,
    pub(super) in_transaction: bool,
}

impl WriteRow {
    pub(super) fn decode(
        table: Option<String>,
        parts: Parts,
        transaction: Option<String>,
    ) -> Result<WriteRow, Failure> {
        let table = table_name(table)?;
        let name = match parts.kind {
            Kind::Put => "PutRow",
            Kind::Update => "UpdateRow",
            Kind::Delete => "DeleteRow",
        };
        let write = Write::decode(parts)?;
        check_data_size(name, write.bytes)?;
        Ok(WriteRow {
            table,
            write,
            transaction,
        })
    }
}

/// Checks the bytes of a request's data against the limit of 4 MiB.
pub(super) fn check_data_size(request: &str, bytes: usize) -> Result<(), Failure> {
    if bytes <= WRITE_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "The total data size of {request} request exceeds the limit, limit size: \
         {WRITE_BYTES_MAX}, data size: {bytes}."
    )))
}

impl Write {
    pub(super) fn decode(parts: Parts) -> Result<Write, Failure> {
        let Parts {
            kind,
            row,
            condition,
            returned,
            in_transaction,
        } = parts;
        let row = decode_row(&row.ok_or_else(missing)?)?;
        check_marker(kind, &row)?;
        let (key, cells) = take_key::<WriteKeyValue>(row)?;
        check_cells(&key, &cells)?;
        let change = match kind {
            Kind::Put => Change::Put(cells.into_iter().map(put).collect::<Result<_, _>>()?),
            Kind::Update => Change::Update(updates(cells)?),
            Kind::Delete => Change::Delete,
        };
        let condition = Condition::decode(condition.ok_or_else(missing)?)?;
        let numbered = key.iter().map(|(_, value)| value);
        match numbered
            .filter(|value| **value == WriteKeyValue::AutoIncrement)
            .count()
        {
            0 => (),
            1 => check_numbered(kind, &condition, in_transaction)?,
            more => {
                let text = format!("{more} pk auto increment exist in row.");
                return Err(Failure::invalid(text));
            }
        }
        let returned = returned_content(returned.unwrap_or_default(), &change)?;
        let bytes = key_bytes(&key) + change.bytes();
        Ok(Write {
            key,
            change,
            condition,
            returned,
            bytes,
        })
    }

    /// Whether a column is incremented.
    #[must_use]
    pub fn increments(&self) -> bool {
        match &self.change {
            Change::Update(changes) => changes
                .iter()
                .any(|(_, change)| matches!(change, ColumnChange::Increment(_))),
            Change::Put(_) | Change::Delete => false,
        }
    }
}

fn check_marker(kind: Kind, row: &Row) -> Result<(), Failure> {
    let text = match (kind, row.delete_marker) {
        (Kind::Delete, false) => {
            "Invalid request of delete row: missing RowDeleteMarker in request."
        }
        (Kind::Put | Kind::Update, true) => {
            "Invalid request of put/update row: unexpected RowDeleteMarker in request."
        }
        (Kind::Delete, true) if !row.attributes.is_empty() => {
            "Invalid delete row request: unexpected cells in request."
        }
        (Kind::Update, false) if row.attributes.is_empty() => "Attribute column is missing.",
        _ => return Ok(()),
    };
    Err(Failure::invalid(text))
}

/// What holds of the cells of every kind of write.
fn check_cells(key: &Key<WriteKeyValue>, cells: &[Cell]) -> Result<(), Failure> {
    if cells.len() > WRITE_COLUMNS_MAX {
        return Err(Failure::invalid(format!(
            "The number of attribute columns exceeds the limit, limit count: {WRITE_COLUMNS_MAX}, \
             column count: {}.",
            cells.len()
        )));
    }
    for Cell {
        name, timestamp, ..
    } in cells
    {
        check_column_name(name)?;
        if key.iter().any(|(column, _)| column == name) {
            return Err(Failure::invalid(format!(
                "Duplicated attribute column name with primary key column: {name}."
            )));
        }
        if timestamp.is_some_and(|time| !(0..TIMESTAMP_END).contains(&time)) {
            let text = "Timestamp must be in range [0, INT64_MAX/1000).";
            return Err(Failure::invalid(text));
        }
    }
    Ok(())
}

/// What a row may be that has no number yet.
fn check_numbered(kind: Kind, condition: &Condition, transaction: bool) -> Result<(), Failure> {
    if kind == Kind::Delete {
        let text = "Invalid row to delete which with pk auto increment.";
        return Err(Failure::invalid(text));
    }
    if condition.columns.is_some() {
        let text = "Can't set condition when modify row with pk auto increment.";
        return Err(Failure::invalid(text));
    }
    if condition.existence != Existence::Ignore {
        let name = condition.existence.name();
        let text = format!("Invalid expect:{name} when modify row with pk auto increment.");
        return Err(Failure::invalid(text));
    }
    if transaction {
        let text = "Can't use transaction when modify row with pk auto increment.";
        return Err(Failure::invalid(text));
    }
    Ok(())
}

fn returned_content(message: proto::ReturnContent, change: &Change) -> Result<Returned, Failure> {
    let names = message.return_column_names;
    let code = message.return_type.unwrap_or(0);
    match proto::ReturnType::try_from(code) {
        Ok(proto::ReturnType::RtAfterModify) => {
            let incremented = |name: &String| match change {
                Change::Update(changes) => changes.iter().any(|(column, change)| {
                    column == name && matches!(change, ColumnChange::Increment(_))
                }),
                Change::Put(_) | Change::Delete => false,
            };
            match names.iter().find(|name| !incremented(name)) {
                None => Ok(Returned::AfterModify(names)),
                Some(name) => Err(Failure::invalid(format!(
                    "Invalid return column: {name}. Only incremented columns can be returned."
                ))),
            }
        }
        Ok(_) if !names.is_empty() => {
            let text = "Return columns can be given with RT_AFTER_MODIFY only.";
            Err(Failure::invalid(text))
        }
        Ok(proto::ReturnType::RtNone) => Ok(Returned::Nothing),
        Ok(proto::ReturnType::RtPk) => Ok(Returned::Key),
        Err(_) => Err(Failure::invalid(format!("Invalid return type: {code}."))),
    }
}
