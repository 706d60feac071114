//! Writes of rows: PutRow, UpdateRow, DeleteRow, and BatchWriteRow, which holds many of them.
//!
//! Owns: the change of a row, its condition, and what is to be returned of it. Promises: a write that leaves this module
//! has cells that its kind allows, values in their limits, at most 1024 cells and 4 MiB of data. Must not: know a
//! table's schema or the row as it stands.

use bytes::Bytes;

use super::attribute::attribute_value;
use super::capacity::value_bytes;
use super::failure::{Code, Failure};
use super::filter::Predicate;
use super::key::{Key, KeyValue, WriteKeyValue, key_bytes, take_key};
use super::limits::{TIMESTAMP_BYTES, TIMESTAMP_END, WRITE_BYTES_MAX, WRITE_COLUMNS_MAX};
use super::name::check_column_name;
use super::plainbuffer::{Cell, CellOperation, Row, Variant, decode_row};
use super::proto;
use super::table::{missing, table_name};
use crate::value::Value;

/// What a write demands of the row's existence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// Nothing.
    #[default]
    Ignore,
    /// There is one.
    Expected,
    /// There is none.
    Unexpected,
}

/// What has to hold of the row before a write.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Of its existence.
    pub existence: Existence,
    /// Of its columns.
    pub columns: Option<Predicate>,
}

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
        let numbered = key
            .iter()
            .any(|(_, value)| *value == WriteKeyValue::AutoIncrement);
        if numbered {
            check_numbered(kind, &condition, in_transaction)?;
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

    /// The value of the partition key.
    #[must_use]
    pub fn partition_key(&self) -> Option<&KeyValue> {
        match self.key.first() {
            Some((_, WriteKeyValue::Given(value))) => Some(value),
            _ => None,
        }
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

fn put(cell: Cell) -> Result<Put, Failure> {
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

fn updates(cells: Vec<Cell>) -> Result<Vec<(String, ColumnChange)>, Failure> {
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
        (None, None) => invalid("Invalid request of update row: find cells without values."),
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
    fn bytes(&self) -> usize {
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

impl Condition {
    fn decode(message: proto::Condition) -> Result<Condition, Failure> {
        let code = message.row_existence.ok_or_else(missing)?;
        let existence = match proto::RowExistenceExpectation::try_from(code) {
            Ok(proto::RowExistenceExpectation::Ignore) => Existence::Ignore,
            Ok(proto::RowExistenceExpectation::ExpectExist) => Existence::Expected,
            Ok(proto::RowExistenceExpectation::ExpectNotExist) => Existence::Unexpected,
            Err(_) => {
                let text = format!("Invalid row-existence expectation: {code}.");
                return Err(Failure::invalid(text));
            }
        };
        let columns = message.column_condition.filter(|bytes| !bytes.is_empty());
        Ok(Condition {
            existence,
            columns: columns.as_ref().map(Predicate::decode).transpose()?,
        })
    }
}

impl Existence {
    /// As the service's messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Existence::Ignore => "IGNORE",
            Existence::Expected => "EXPECT_EXIST",
            Existence::Unexpected => "EXPECT_NOT_EXIST",
        }
    }
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

/// Checks that all rows of an atomic batch are of one partition key.
///
/// # Errors
/// `OTSDataOutOfRange`, which every row of the batch is answered with.
pub fn check_atomic<'a>(writes: impl IntoIterator<Item = &'a Write>) -> Result<(), Failure> {
    let mut writes = writes.into_iter().map(Write::partition_key);
    let Some(first) = writes.next() else {
        return Ok(());
    };
    match writes.find(|other| *other != first) {
        None => Ok(()),
        Some(other) => {
            let (first, other) = (shown(first), shown(other));
            let text = format!(
                "Data out of scope of atomic. Atomic PartKey:{first}. Data PartKey:{other}"
            );
            Err(Failure::with(Code::DataOutOfRange, text))
        }
    }
}

fn shown(key: Option<&KeyValue>) -> String {
    match key {
        Some(KeyValue::Integer(value)) => value.to_string(),
        Some(KeyValue::String(value)) => value.clone(),
        Some(KeyValue::Binary(value)) => String::from_utf8_lossy(value).into_owned(),
        None => String::new(),
    }
}
