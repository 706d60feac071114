//! GetRow, PutRow, UpdateRow, DeleteRow and GetRange, and what their answers share with those of batches.
//!
//! Owns: the steps of one call: find the table, look at the rate, do it, count what it used. Promises: what is refused
//! has used nothing. Must not: know how a filter or a key is made.

use std::sync::Arc;

use super::rate::Rates;
use super::rights::{Caller, seen};
use crate::Shared;
use tideline_model::Error;
use tideline_table::{Got, RangePage, Table, Tables, Written};
use tideline_wire::tablestore::plainbuffer::RowBuffer;
use tideline_wire::tablestore::reply::{RangeReply, RowReply};
use tideline_wire::tablestore::{Failure, GetRange, GetRow, Reply, WriteRow};

/// What a request comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// What the tables refused. What broke inside is for the log alone.
pub(super) fn refusal(error: Error) -> Failure {
    if let Error::Unavailable(why) = &error {
        tracing::error!(why, "a call on tables failed");
    }
    error.into()
}

pub(super) async fn find(shared: &Shared, name: &str) -> Result<Arc<Table>, Failure> {
    let found = shared.tablestore.tables.describe(name).await;
    found.map_err(refusal)
}

pub(super) async fn get(
    (shared, tables): (&Shared, &Tables),
    caller: &Caller,
    get: GetRow,
) -> Outcome {
    let table = seen(shared, caller, find(shared, &get.table).await?)?;
    let meter = rates(shared).meter(&table, &get.key)?;
    let got = match get.transaction {
        None => tables.get(&table, get.key, get.selection).await,
        Some(id) => tables.get_in(id, &table, get.key, get.selection).await,
    };
    let got = got.map_err(refusal)?;
    meter.spend(got.consumed);
    Ok(Reply::Read(read_reply(got)))
}

pub(super) async fn write((shared, tables): (&Shared, &Tables), write: WriteRow) -> Outcome {
    let table = find(shared, &write.table).await?;
    let meter = rates(shared).meter(&table, &write.write.key)?;
    let written = match write.transaction {
        None => tables.write(&table, write.write).await,
        Some(id) => tables.write_in(id, &table, write.write).await,
    };
    let written = written.map_err(refusal)?;
    meter.spend(written.consumed);
    Ok(Reply::Written(write_reply(&table, &written)))
}

pub(super) async fn range(
    (shared, tables): (&Shared, &Tables),
    caller: &Caller,
    range: GetRange,
) -> Outcome {
    let table = seen(shared, caller, find(shared, &range.table).await?)?;
    let meter = rates(shared).meter(&table, &range.range.start)?;
    let page = match range.transaction {
        None => tables.get_range(&table, range.range).await,
        Some(id) => tables.get_range_in(id, &table, range.range).await,
    };
    let page: RangePage<RowBuffer> = page.map_err(refusal)?;
    meter.spend(page.consumed);
    let next = page.next.map(|key| {
        let mut next = RowBuffer::default();
        next.push_key(&table.primary_key, &key);
        next.into_bytes()
    });
    Ok(Reply::Range(RangeReply {
        consumed: page.consumed,
        rows: page.rows.into_bytes(),
        next,
    }))
}

pub(super) fn read_reply(got: Got<RowBuffer>) -> RowReply {
    let row = got.rows.into_bytes();
    RowReply {
        consumed: got.consumed,
        row: (!row.is_empty()).then_some(row),
    }
}

pub(super) fn write_reply(table: &Table, written: &Written) -> RowReply {
    let encoded = written.row.as_ref().map(|row| {
        let mut encoded = RowBuffer::default();
        row.push_to(&table.primary_key, &mut encoded);
        encoded.into_bytes()
    });
    RowReply {
        consumed: written.consumed,
        row: encoded,
    }
}

pub(super) fn rates(shared: &Shared) -> &Rates {
    &shared.tablestore.rates
}
