//! Writes of rows: PutRow, UpdateRow, DeleteRow, and BatchWriteRow, which holds many of them.
//!
//! Owns: which cells each kind of write takes, conditions, and what is to be returned of the row. Promises: a write
//! that leaves this module keeps every rule that needs neither a table nor a stored row, and the order in which the
//! service checks them. Must not: know a table's schema or the row as it is.

use bytes::Bytes;

use super::super::failure::Failure;
use super::super::plainbuffer::{Cell, CellOperation, Row, Variant, decode_row};
use super::super::proto;
use super::cells::{attribute_value, take_key};
use super::filter::decode_predicate;
use super::table::{missing, table_name};
use super::transaction::transaction;
use tideline_model::limits::{COLUMNS_MAX, WRITE_BYTES_MAX};
use tideline_model::{
    CellChange, Condition, Error, Existence, KeyUse, KeyValue, PrimaryKey, PutCell, ReturnContent,
    RowChange, RowWrite, TransactionId, check_column_name, check_version,
};

/// PutRow, UpdateRow or DeleteRow.
#[derive(Clone, Debug)]
pub struct WriteRow {
    /// The table.
    pub table: String,
    /// The write.
    pub write: RowWrite,
    /// The transaction it is part of.
    pub transaction: Option<TransactionId>,
}

/// Which of the three kinds of write a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Put,
    Update,
    Delete,
}

/// A write as its message holds it.
pub(in super::super) struct Parts {
    pub(in super::super) kind: Kind,
    pub(in super::super) row: Option<Bytes>,
    pub(in super::super) condition: Option<proto::Condition>,
    pub(in super::super) returned: Option<proto::ReturnContent>,
    pub(in super::super) in_transaction: bool,
}

impl WriteRow {
    pub(in super::super) fn decode(
        table: Option<String>,
        parts: Parts,
        transaction_id: Option<String>,
    ) -> Result<WriteRow, Failure> {
        let table = table_name(table)?;
        let name = match parts.kind {
            Kind::Put => "PutRow",
            Kind::Update => "UpdateRow",
            Kind::Delete => "DeleteRow",
        };
        let write = decode(parts)?;
        check_data_size(name, write.size())?;
        Ok(WriteRow {
            table,
            write,
            transaction: transaction(transaction_id)?,
        })
    }
}

/// Checks the bytes of a request's data.
pub(in super::super) fn check_data_size(request: &str, bytes: usize) -> Result<(), Failure> {
    if bytes <= WRITE_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "The total data size of {request} request exceeds the limit, limit size: \
         {WRITE_BYTES_MAX}, data size: {bytes}."
    )))
}

/// One write.
pub(in super::super) fn decode(parts: Parts) -> Result<RowWrite, Failure> {
    let Parts {
        kind,
        row,
        condition,
        returned,
        in_transaction,
    } = parts;
    let row = decode_row(&row.ok_or_else(missing)?)?;
    check_marker(kind, &row)?;
    let (key, cells) = take_key(row, KeyUse::Write)?;
    check_cells(&key, &cells)?;
    let change = match kind {
        Kind::Put => RowChange::Put(cells.into_iter().map(put).collect::<Result<_, _>>()?),
        Kind::Update => RowChange::update(
            cells
                .into_iter()
                .map(cell_change)
                .collect::<Result<_, _>>()?,
        )?,
        Kind::Delete => RowChange::Delete,
    };
    let condition = decode_condition(condition.ok_or_else(missing)?)?;
    let write = RowWrite::new(key, change, condition)?;
    let is_numbered = |(_, value): &(String, KeyValue)| *value == KeyValue::AutoIncrement;
    if in_transaction && write.key.iter().any(is_numbered) {
        let text = "Can't use transaction when modify row with pk auto increment.";
        return Err(Failure::invalid(text));
    }
    let content = return_content(returned.unwrap_or_default())?;
    Ok(write.returning(content)?)
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
fn check_cells(key: &PrimaryKey, cells: &[Cell]) -> Result<(), Error> {
    if cells.len() > COLUMNS_MAX {
        return Err(Error::ColumnCount(cells.len()));
    }
    for cell in cells {
        check_column_name(&cell.name)?;
        if key.iter().any(|(column, _)| *column == cell.name) {
            return Err(Error::DuplicateWithKey(cell.name.clone()));
        }
        if let Some(version) = cell.timestamp {
            check_version(version)?;
        }
    }
    Ok(())
}

fn put(cell: Cell) -> Result<PutCell, Failure> {
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
    Ok(PutCell {
        value: attribute_value(&name, value)?,
        name,
        version: timestamp,
    })
}

fn cell_change(cell: Cell) -> Result<CellChange, Failure> {
    let Cell {
        name,
        value,
        operation,
        timestamp,
    } = cell;
    let invalid = |text: &'static str| Err(Failure::invalid(text));
    match (operation, value) {
        (None, None) => invalid("No value is given for column name."),
        (None, Some(value)) => Ok(CellChange::Put(PutCell {
            value: attribute_value(&name, value)?,
            name,
            version: timestamp,
        })),
        (Some(CellOperation::Increment), value) => match (value, timestamp) {
            (Some(Variant::Integer(by)), None) => Ok(CellChange::Increment { name, by }),
            (_, Some(_)) => invalid("Timestamp cannot be given when type is INCREMENT."),
            _ => invalid("Column value must be an integer when type is INCREMENT."),
        },
        (Some(_), Some(_)) => invalid(
            "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.",
        ),
        (Some(CellOperation::DeleteOneVersion), None) => match timestamp {
            Some(version) => Ok(CellChange::DeleteOne { name, version }),
            None => invalid("Timestamp must be given when type is DELETE_ONE_VERSION."),
        },
        (Some(CellOperation::DeleteAllVersions), None) => match timestamp {
            None => Ok(CellChange::DeleteAll { name }),
            Some(_) => invalid("Timestamp cannot be given when type is DELETE_ALL_VERSION."),
        },
    }
}

fn decode_condition(message: proto::Condition) -> Result<Condition, Failure> {
    let code = message.row_existence.ok_or_else(missing)?;
    let existence = match proto::RowExistenceExpectation::try_from(code) {
        Ok(proto::RowExistenceExpectation::Ignore) => Existence::Ignore,
        Ok(proto::RowExistenceExpectation::ExpectExist) => Existence::Exist,
        Ok(proto::RowExistenceExpectation::ExpectNotExist) => Existence::NotExist,
        Err(_) => {
            let text = format!("Invalid row-existence expectation: {code}.");
            return Err(Failure::invalid(text));
        }
    };
    let columns = message.column_condition.filter(|bytes| !bytes.is_empty());
    Ok(Condition {
        existence,
        columns: columns.as_ref().map(decode_predicate).transpose()?,
    })
}

fn return_content(message: proto::ReturnContent) -> Result<ReturnContent, Failure> {
    let names = message.return_column_names;
    let code = message.return_type.unwrap_or(0);
    match proto::ReturnType::try_from(code) {
        Ok(proto::ReturnType::RtAfterModify) => Ok(ReturnContent::Incremented(names)),
        Ok(_) if !names.is_empty() => {
            let text = "Return columns can be given with RT_AFTER_MODIFY only.";
            Err(Failure::invalid(text))
        }
        Ok(proto::ReturnType::RtNone) => Ok(ReturnContent::None),
        Ok(proto::ReturnType::RtPk) => Ok(ReturnContent::Key),
        Err(_) => Err(Failure::invalid(format!("Invalid return type: {code}."))),
    }
}
