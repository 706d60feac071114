//! What a caller may do with tables.
//!
//! Owns: which right each operation needs on which tables, and what of the tables of timelines a caller is shown.
//! Promises: a table that the caller may not touch is answered alike whether it exists or not, before it is looked for;
//! rows of timelines are those that `read` by name covers; rows of an index are its table's. Must not: know how rights
//! add up.

use std::sync::Arc;

use crate::Shared;
use tideline_model::access::{Claim, Right, Rights};
use tideline_model::{Error, ReturnContent, RowWrite, TransactionId};
use tideline_table::{Table, Tables};
use tideline_wire::tablestore::{Code, Failure, Request, SeriesRequest, SeriesRows};

pub(super) const READ: Rights = Rights::NONE.with(Right::TablesRead);
pub(super) const WRITE: Rights = Rights::NONE.with(Right::TablesWrite);
pub(super) const MANAGE: Rights = Rights::NONE.with(Right::TablesManage);
pub(super) const ANY: Rights = READ.or(WRITE).or(MANAGE);

/// The caller; `None` = there is no `[auth]`.
pub(crate) type Caller = Option<Arc<Claim>>;

/// Refuses what the caller has no right to.
pub(super) async fn check(
    shared: &Shared,
    caller: &Caller,
    request: &Request,
) -> Result<(), Failure> {
    let Some(claim) = caller else { return Ok(()) };
    let tables = &shared.tablestore.tables;
    match request {
        Request::CreateTable(new) => {
            allow(claim, &new.name, MANAGE)?;
            let mut indexes = new.indexes.iter();
            indexes.try_for_each(|index| allow(claim, &index.name, MANAGE))
        }
        Request::UpdateTable(name, _)
        | Request::DeleteTable(name)
        | Request::AddDefinedColumn(name, _)
        | Request::DeleteDefinedColumn(name, _)
        | Request::DropIndex(name, _) => allow(claim, name, MANAGE),
        Request::CreateSearchIndex(new) => allow(claim, &new.of.table, MANAGE),
        Request::UpdateSearchIndex(change) => allow(claim, &change.of.table, MANAGE),
        Request::DeleteSearchIndex(of) => allow(claim, &of.table, MANAGE),
        Request::DescribeSearchIndex(of) => allow(claim, &of.table, ANY),
        Request::Search(search) => allow(claim, &search.of.table, READ),
        Request::ComputeSplits(of) => allow(claim, &of.table, READ),
        Request::ParallelScan(scan) => allow(claim, &scan.of.table, READ),
        Request::CreateIndex(new) => {
            allow(claim, &new.table, MANAGE)?;
            allow(claim, &new.index.name, MANAGE)
        }
        Request::DescribeTable(name) | Request::ListSearchIndex(Some(name)) => {
            allow(claim, name, ANY)
        }
        Request::GetRow(get) => {
            allow(claim, &get.table, READ)?;
            inside(tables, claim, get.transaction)
        }
        Request::GetRange(range) => {
            allow(claim, &range.table, READ)?;
            inside(tables, claim, range.transaction)
        }
        Request::BatchGetRow(batch) => {
            let mut of = batch.tables.iter();
            of.try_for_each(|reads| allow(claim, &reads.table, READ))
        }
        Request::WriteRow(write) => {
            write_row(claim, &write.table, &write.write)?;
            inside(tables, claim, write.transaction)
        }
        Request::BatchWriteRow(batch) => {
            batch.tables.iter().try_for_each(|of| {
                let mut writes = of.writes.iter();
                writes.try_for_each(|write| write_row(claim, &of.table, write))
            })?;
            inside(tables, claim, batch.transaction)
        }
        Request::StartTransaction(start) => allow(claim, &start.table, WRITE),
        Request::ExportTable(export) => exported(tables, claim, &export.table).await,
        Request::ListStream(Some(table)) => allow(claim, table, READ),
        Request::DescribeStream(ask) => stream(shared, claim, &ask.stream).await,
        Request::GetShardIterator(ask) => stream(shared, claim, &ask.stream).await,
        Request::GetStreamRecord(ask) => match tables.read_iterator(&ask.iterator) {
            Ok(iterator) => stream(shared, claim, &iterator.stream).await,
            Err(_) => Ok(()),
        },
        Request::CommitTransaction(id) | Request::AbortTransaction(id) => {
            inside(tables, claim, Some(*id))
        }
        Request::Series(asked) => series(claim, asked),
        // A statement asks by itself, of each table that it names.
        Request::Sql(_) => Ok(()),
        Request::ListTable | Request::ListStream(None) | Request::ListSearchIndex(None) => Ok(()),
    }
}

/// A table of time series is a table to rights too.
fn series(claim: &Claim, asked: &SeriesRequest) -> Result<(), Failure> {
    match asked {
        SeriesRequest::Create(new) => allow(claim, &new.name, MANAGE),
        SeriesRequest::Update(name, _) | SeriesRequest::Delete(name) => allow(claim, name, MANAGE),
        SeriesRequest::Describe(name) => allow(claim, name, ANY),
        SeriesRequest::Rows(name, _, rows) => match rows {
            SeriesRows::Get(_) | SeriesRows::Query(_) => allow(claim, name, READ),
            SeriesRows::Put(..) | SeriesRows::UpdateMetas(_) | SeriesRows::DeleteMetas(_) => {
                allow(claim, name, WRITE)
            }
        },
        SeriesRequest::List => Ok(()),
    }
}

/// An export tells which rows are gone, and of timelines only their names say whose they were.
async fn exported(tables: &Tables, claim: &Claim, table: &str) -> Result<(), Failure> {
    allow(claim, table, READ)?;
    let Ok(table) = tables.describe(table).await else {
        return Ok(());
    };
    allow_rows(claim, &table)?;
    match table.is_virtual() && !claim.everywhere().has(Right::Read) {
        true => Err(refused()),
        false => Ok(()),
    }
}

/// Whether a list shows a table.
pub(crate) fn shows(caller: &Caller, table: &str) -> bool {
    let claim = caller.as_ref();
    claim.is_none_or(|claim| claim.on_table(table).has_any(ANY))
}

/// A table as the caller may see it: of one that shows timelines only those that they may read by name.
pub(crate) fn seen(
    shared: &Shared,
    caller: &Caller,
    table: Arc<Table>,
) -> Result<Arc<Table>, Failure> {
    let Some(claim) = caller else {
        return Ok(table);
    };
    allow_rows(claim, &table)?;
    if !table.is_virtual() {
        return Ok(table);
    }
    let covered = shared.timelines.covered(&table, claim.coverage());
    Ok(covered.map_or(table, Arc::new))
}

/// The rows of an index are its table's, whatever its name and whichever caller made it.
fn allow_rows(claim: &Claim, table: &Table) -> Result<(), Failure> {
    let of = table.indexed_table();
    of.map_or(Ok(()), |of| allow(claim, of, READ))
}

/// Refuses a caller that has none of these rights on a table.
pub(crate) fn allow(claim: &Claim, table: &str, rights: Rights) -> Result<(), Failure> {
    match claim.on_table(table).has_any(rights) {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// A transaction is for callers that may write to its table: to others it does not exist.
fn inside(tables: &Tables, claim: &Claim, id: Option<TransactionId>) -> Result<(), Failure> {
    let hidden = |table: &Arc<Table>| !claim.on_table(&table.name).has_any(WRITE);
    match id
        .and_then(|id| tables.transaction_table(id))
        .filter(hidden)
    {
        Some(_) => Err(Error::TransactionNotFound.into()),
        None => Ok(()),
    }
}

/// A condition on columns, or an answer with some, tells what is there.
fn write_row(claim: &Claim, table: &str, write: &RowWrite) -> Result<(), Failure> {
    let returns = matches!(write.content, ReturnContent::Incremented(_));
    let tells = write.condition.columns.is_some() || returns;
    allow(claim, table, WRITE)?;
    match tells {
        true => allow(claim, table, READ),
        false => Ok(()),
    }
}

/// Of a stream its table decides; one that is not there is as one of a hidden table.
async fn stream(shared: &Shared, claim: &Claim, id: &str) -> Result<(), Failure> {
    match shared.tablestore.tables.stream(id).await {
        Ok(table) => allow(claim, &table.name, READ),
        Err(error) if claim.everywhere().has_any(READ) => Err(error.into()),
        Err(_) => Err(refused()),
    }
}

fn refused() -> Failure {
    Failure::new(Code::NoPermissionAccess)
}
