//! BatchGetRow and BatchWriteRow.
//!
//! Owns: what fails a whole batch and what fails one row of it. Of BatchWriteRow malformed content fails the whole; of
//! BatchGetRow a bad key, table or column name fails the rows concerned. Promises: at most 100 rows are read and 200
//! written, no table comes twice, and the expressions of all filters are bounded together. Must not: know schemas; a
//! key that is not the table's fails its row, later.

use std::collections::BTreeSet;

use super::super::failure::Failure;
use super::super::proto;
use super::cells::decode_key;
use super::read;
use super::table::missing;
use super::transaction::transaction;
use super::write;
use super::write::{Kind, check_data_size};
use tideline_model::limits::{BATCH_GET_ROWS_MAX, BATCH_WRITE_ROWS_MAX};
use tideline_model::{
    Filter, KeyUse, Predicate, PrimaryKey, REQUEST_EXPRESSIONS_BYTES_MAX, RowWrite, Selection,
    TransactionId, check_table_name,
};

/// The rows of one table in a BatchGetRow.
#[derive(Clone, Debug)]
pub struct TableReads {
    /// The table.
    pub table: String,
    /// In the order of the request: the key, or what this row is answered with.
    pub rows: Vec<Result<PrimaryKey, Failure>>,
    /// What of each row; of no importance where every row has failed.
    pub selection: Selection,
}

/// BatchGetRow.
#[derive(Clone, Debug)]
pub struct BatchGetRow {
    /// In the order of the request.
    pub tables: Vec<TableReads>,
}

/// The writes of one table in a BatchWriteRow.
#[derive(Clone, Debug)]
pub struct TableWrites {
    /// The table.
    pub table: String,
    /// In the order of the request.
    pub writes: Vec<RowWrite>,
}

/// BatchWriteRow.
#[derive(Clone, Debug)]
pub struct BatchWriteRow {
    /// In the order of the request.
    pub tables: Vec<TableWrites>,
    /// The transaction it is part of.
    pub transaction: Option<TransactionId>,
    /// All or none.
    pub atomic: bool,
}

fn check_rows(rows: usize, most: usize) -> Result<(), Failure> {
    if rows <= most {
        return Ok(());
    }
    let text = format!("Rows count exceeds the upper limit: {most}.");
    Err(Failure::invalid(text))
}

/// What the expressions of all of a request's filters come to.
#[derive(Default)]
struct Expressions(usize);

impl Expressions {
    fn add(&mut self, filter: &Predicate) -> Result<(), Failure> {
        self.0 += filter.expression_bytes();
        if self.0 <= REQUEST_EXPRESSIONS_BYTES_MAX {
            return Ok(());
        }
        let text = format!(
            "The total size of the regular expressions of the request exceeds the limit, limit size: \
             {REQUEST_EXPRESSIONS_BYTES_MAX}."
        );
        Err(Failure::invalid(text))
    }
}

fn check_twice<'a>(names: impl Iterator<Item = Option<&'a String>>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for name in names.flatten() {
        if !seen.insert(name) {
            let text = format!("Duplicated table name: {name}.");
            return Err(Failure::invalid(text));
        }
    }
    Ok(())
}

impl BatchGetRow {
    pub(in super::super) fn from_message(
        message: proto::BatchGetRowRequest,
    ) -> Result<Self, Failure> {
        if message.tables.is_empty() {
            let text = "No row specified in the request of BatchGetRow.";
            return Err(Failure::invalid(text));
        }
        let counts = message.tables.iter().map(|table| table.primary_key.len());
        check_rows(counts.sum(), BATCH_GET_ROWS_MAX)?;
        check_twice(message.tables.iter().map(|table| table.table_name.as_ref()))?;
        let (mut tables, mut expressions) = (Vec::new(), Expressions::default());
        for table in message.tables {
            let table = table_reads(table)?;
            if let Some(Filter::Rows(filter)) = &table.selection.filter {
                expressions.add(filter)?;
            }
            tables.push(table);
        }
        Ok(BatchGetRow { tables })
    }
}

const NO_VERSIONS: &str = "No version condition is specified while querying row.";

fn table_reads(message: proto::TableInBatchGetRowRequest) -> Result<TableReads, Failure> {
    let table = message.table_name.ok_or_else(missing)?;
    if message.time_range.is_none() && message.max_versions.is_none() {
        return Err(Failure::invalid(NO_VERSIONS));
    }
    let parts = read::parts!(message);
    let named = check_table_name(&table).map_err(Failure::from);
    let selection = named.and_then(|()| read::selection(parts, NO_VERSIONS));
    let rows = message.primary_key.iter();
    let rows = match &selection {
        Ok(_) => rows.map(|key| decode_key(key, KeyUse::Read)).collect(),
        Err(failure) => rows.map(|_| Err(failure.clone())).collect(),
    };
    Ok(TableReads {
        table,
        rows,
        selection: selection.unwrap_or_default(),
    })
}

impl BatchWriteRow {
    pub(in super::super) fn from_message(
        message: proto::BatchWriteRowRequest,
    ) -> Result<Self, Failure> {
        if message.tables.is_empty() {
            let text = "No row is specified in BatchWriteRow.";
            return Err(Failure::invalid(text));
        }
        let counts = message.tables.iter().map(|table| table.rows.len());
        check_rows(counts.sum(), BATCH_WRITE_ROWS_MAX)?;
        check_twice(message.tables.iter().map(|table| table.table_name.as_ref()))?;
        let in_transaction = message.transaction_id.is_some();
        let mut tables = Vec::with_capacity(message.tables.len());
        let mut expressions = Expressions::default();
        for table in message.tables {
            tables.push(table_writes(table, in_transaction, &mut expressions)?);
        }
        let all = tables.iter().flat_map(|table| &table.writes);
        check_data_size("BatchWriteRow", all.map(RowWrite::size).sum())?;
        Ok(BatchWriteRow {
            tables,
            transaction: transaction(message.transaction_id)?,
            atomic: message.is_atomic.unwrap_or(false),
        })
    }
}

fn table_writes(
    message: proto::TableInBatchWriteRowRequest,
    in_transaction: bool,
    expressions: &mut Expressions,
) -> Result<TableWrites, Failure> {
    let table = super::table::table_name(message.table_name)?;
    if message.rows.is_empty() {
        let text = format!("No operation is specified for table: '{table}'.");
        return Err(Failure::invalid(text));
    }
    let mut writes = Vec::with_capacity(message.rows.len());
    for row in message.rows {
        let kind = match row.r#type.map(proto::OperationType::try_from) {
            Some(Ok(proto::OperationType::Put)) => Kind::Put,
            Some(Ok(proto::OperationType::Update)) => Kind::Update,
            Some(Ok(proto::OperationType::Delete)) => Kind::Delete,
            _ => return Err(Failure::invalid("The modify type is invalid.")),
        };
        let write = write::decode(write::Parts {
            kind,
            row: row.row_change,
            condition: row.condition,
            returned: row.return_content,
            in_transaction,
        })?;
        if let Some(condition) = &write.condition.columns {
            expressions.add(condition)?;
        }
        writes.push(write);
    }
    check_increments(&writes)?;
    Ok(TableWrites { table, writes })
}

/// A row that is incremented comes once: what another write adds to would depend on the order.
fn check_increments(writes: &[RowWrite]) -> Result<(), Failure> {
    for (at, write) in writes.iter().enumerate() {
        let others = writes.iter().enumerate();
        let mut same = others.filter(|(other, row)| *other != at && row.key == write.key);
        if write.incremented().next().is_some() && same.next().is_some() {
            let text = "A row with incremented columns can be given only once in BatchWriteRow.";
            return Err(Failure::invalid(text));
        }
    }
    Ok(())
}
