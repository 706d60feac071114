//! GetRow, PutRow, UpdateRow, DeleteRow and GetRange, and what their answers share with those of batches.
//!
//! Owns: the steps of one call: find the table, look at the rate, do it, count what it used. Promises: what is refused
//! has used nothing. Must not: know how a filter or a key is made.

use std::sync::Arc;

use super::rate::Rates;
use super::refusal::refusal;
use super::{answer, ask};
use crate::gateway::Shared;
use crate::table::{Consumed, FoundRow, Table};
use crate::wire::tablestore::read::{GetRange, GetRow};
use crate::wire::tablestore::reply::{RangeReply, RowReply};
use crate::wire::tablestore::write::WriteRow;
use crate::wire::tablestore::{Code, Failure, Reply};

/// What a request comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// No transaction was ever begun here.
pub(super) fn no_transaction(transaction: Option<&String>) -> Result<(), Failure> {
    match transaction {
        Some(_) => Err(Failure::new(Code::SessionNotExist)),
        None => Ok(()),
    }
}

pub(super) async fn find(shared: &Shared, name: &str) -> Result<Arc<Table>, Failure> {
    let found = shared.tablestore.tables.describe(name).await;
    found.map_err(refusal)
}

pub(super) async fn get(shared: &Shared, get: GetRow) -> Outcome {
    no_transaction(get.transaction.as_ref())?;
    let table = find(shared, &get.table).await?;
    let key = ask::key(get.key);
    let meter = rates(shared).meter(&table, &key)?;
    let tables = &shared.tablestore.tables;
    let got = tables.get(&table, key, ask::selection(get.selection)).await;
    let got = got.map_err(refusal)?;
    meter.spend(got.consumed);
    Ok(Reply::Read(row_reply(&table, got.consumed, got.row)))
}

pub(super) async fn write(shared: &Shared, write: WriteRow) -> Outcome {
    no_transaction(write.transaction.as_ref())?;
    let table = find(shared, &write.table).await?;
    let write = ask::write(write.write);
    let meter = rates(shared).meter(&table, &write.key)?;
    let written = shared.tablestore.tables.write(&table, write).await;
    let written = written.map_err(refusal)?;
    meter.spend(written.consumed);
    Ok(Reply::Written(row_reply(
        &table,
        written.consumed,
        written.row,
    )))
}

pub(super) async fn range(shared: &Shared, range: GetRange) -> Outcome {
    no_transaction(range.transaction.as_ref())?;
    let table = find(shared, &range.table).await?;
    let range = ask::range(range);
    let meter = rates(shared).meter(&table, &range.start)?;
    let page = shared.tablestore.tables.get_range(&table, range).await;
    let page = page.map_err(refusal)?;
    meter.spend(page.consumed);
    let rows = page.rows.into_iter();
    Ok(Reply::Range(RangeReply {
        consumed: answer::consumed(page.consumed),
        rows: rows.map(|row| answer::row(&table, row)).collect(),
        next: page.next.map(|key| answer::key(&table, key)),
    }))
}

pub(super) fn row_reply(table: &Table, consumed: Consumed, row: Option<FoundRow>) -> RowReply {
    RowReply {
        consumed: answer::consumed(consumed),
        row: row.map(|row| answer::row(table, row)),
    }
}

pub(super) fn rates(shared: &Shared) -> &Rates {
    &shared.tablestore.rates
}
