//! BatchWriteRow and BatchGetRow: rows of several tables, each with its own answer.
//!
//! Owns: putting the answers of the rows back into the order of the request. Promises: a row of a table that is not
//! there, or of a partition key that is too fast, fails alone; in an atomic batch and in a transaction it fails all.
//! Must not: write or read rows one by one.

use std::sync::Arc;

use super::rate::Meter;
use super::rights::{Caller, seen};
use super::row::{find, rates, read_reply, refusal, write_reply};
use crate::Shared;
use tideline_model::RowWrite;
use tideline_table::{Table, Tables, Written};
use tideline_wire::tablestore::reply::TableReply;
use tideline_wire::tablestore::{BatchGetRow, BatchWriteRow, Code, Failure, Reply};

/// A row that is asked for or written: of which table, and on whose account.
struct BatchRow<'r> {
    table: Arc<Table>,
    meter: Meter<'r>,
}

pub(super) async fn write(
    (shared, tables): (&Shared, &Tables),
    mut batch: BatchWriteRow,
) -> Result<Reply, Failure> {
    let mut rows = Vec::new();
    let mut by_table: Vec<(String, Vec<Result<BatchRow<'_>, Failure>>)> = Vec::new();
    for writes in std::mem::take(&mut batch.tables) {
        let found = find(shared, &writes.table).await;
        let mut in_table = Vec::with_capacity(writes.writes.len());
        for write in writes.writes {
            let row = found.clone().and_then(|table| {
                let meter = rates(shared).meter(&table, &write.key)?;
                Ok(BatchRow { table, meter })
            });
            if let Ok(row) = &row {
                rows.push((Arc::clone(&row.table), write));
            }
            in_table.push(row);
        }
        by_table.push((writes.table, in_table));
    }
    let mut refused = by_table.iter().flat_map(|(_, rows)| rows);
    let refused = refused.find_map(|row| row.as_ref().err()).cloned();
    let all_or_none = batch.atomic || batch.transaction.is_some();
    let mut written = match refused {
        Some(failure) if all_or_none => vec![Err(failure); rows.len()],
        _ => write_all(tables, rows, &batch).await?,
    }
    .into_iter();
    let replies = by_table.into_iter().map(|(table, in_table)| {
        let rows = in_table.into_iter().map(|row| {
            let BatchRow { table, meter } = row?;
            let written = written.next().unwrap_or_else(|| Err(unanswered()))?;
            meter.spend(written.consumed);
            Ok(write_reply(&table, &written))
        });
        TableReply {
            table,
            rows: rows.collect(),
        }
    });
    Ok(Reply::Batch(replies.collect()))
}

async fn write_all(
    tables: &Tables,
    rows: Vec<(Arc<Table>, RowWrite)>,
    batch: &BatchWriteRow,
) -> Result<Vec<Result<Written, Failure>>, Failure> {
    let done = match batch.transaction {
        None => tables.write_batch(rows, batch.atomic).await,
        Some(id) => tables.write_batch_in(id, rows).await,
    };
    let done = done.map_err(refusal)?.into_iter();
    Ok(done.map(|row| row.map_err(refusal)).collect())
}

pub(super) async fn read(
    (shared, tables): (&Shared, &Tables),
    caller: &Caller,
    batch: BatchGetRow,
) -> Result<Reply, Failure> {
    let mut asked = Vec::new();
    let mut by_table: Vec<(String, Vec<Result<BatchRow<'_>, Failure>>)> = Vec::new();
    for reads in batch.tables {
        let found = match find(shared, &reads.table).await {
            Ok(table) => Ok(seen(shared, caller, table)?),
            missing => missing,
        };
        let (mut keys, mut in_table) = (Vec::new(), Vec::with_capacity(reads.rows.len()));
        for key in reads.rows {
            in_table.push(found.clone().and_then(|table| {
                let key = key?;
                let meter = rates(shared).meter(&table, &key)?;
                keys.push(key);
                Ok(BatchRow { table, meter })
            }));
        }
        if let Ok(table) = found
            && !keys.is_empty()
        {
            asked.push((table, keys, reads.selection));
        }
        by_table.push((reads.table, in_table));
    }
    let got = tables.get_batch(asked).await;
    let mut got = got.map_err(refusal)?.into_iter().flatten();
    let replies = by_table.into_iter().map(|(table, in_table)| {
        let rows = in_table.into_iter().map(|row| {
            let BatchRow { meter, .. } = row?;
            let got = got
                .next()
                .map_or_else(|| Err(unanswered()), |got| got.map_err(refusal))?;
            meter.spend(got.consumed);
            Ok(read_reply(got))
        });
        TableReply {
            table,
            rows: rows.collect(),
        }
    });
    Ok(Reply::Batch(replies.collect()))
}

/// A row that the tables forgot would be a fault of theirs.
fn unanswered() -> Failure {
    Failure::new(Code::InternalServerError)
}
