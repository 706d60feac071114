//! Before and after the measurement: tables made and filled, read back, and deleted.
//!
//! Owns: what stands there first. Promises: every row that is counted on was acknowledged; what is read back at the end
//! is what was acknowledged last, since nothing is on the way any more. Must not: count for the figures.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::{decode_row, encode_row};
use tideline::wire::tablestore::proto;
use tokio::time::sleep;

use super::connection::{Account, Connection, Trouble};
use super::message::{anyway, decoded, get_range, get_row, put_row, update_row};
use super::page::{Oldest, Page, Walk};
use super::sheet::Sheet;
use crate::exit::Stop;
use crate::random::Random;
use crate::run::Run;

/// Connections that fill a table.
const CONNECTIONS: usize = 8;
/// The protocol's limits: 200 rows in a batch, 1,024 columns and 4 MiB in a request.
const BATCH_ROWS_MAX: usize = 200;
const COLUMNS_MAX: usize = 1_000;
const REQUEST_BYTES: usize = 1_000_000;
/// How long a `busy` server is let alone.
const BREATH: Duration = Duration::from_millis(5);

/// How tables are made.
pub(super) struct Options {
    pub(super) time_to_live: i32,
    pub(super) max_versions: i32,
}

/// A preparation as an error of the run.
pub(super) fn stop(trouble: Trouble) -> Stop {
    Stop::Unreachable(trouble.to_string())
}

/// Makes the table.
pub(super) async fn create(
    connection: &mut Connection,
    sheet: &Sheet,
    options: &Options,
) -> Result<(), Trouble> {
    let none = proto::CapacityUnit {
        read: Some(0),
        write: Some(0),
    };
    let request = proto::CreateTableRequest {
        table_meta: Some(sheet.definition()),
        reserved_throughput: Some(proto::ReservedThroughput {
            capacity_unit: Some(none),
        }),
        table_options: Some(proto::TableOptions {
            time_to_live: Some(options.time_to_live),
            max_versions: Some(options.max_versions),
            ..proto::TableOptions::default()
        }),
        ..proto::CreateTableRequest::default()
    };
    let done: proto::CreateTableResponse =
        connection.call(Operation::CreateTable, &request).await?;
    let proto::CreateTableResponse {} = done;
    Ok(())
}

/// Deletes it: a server has only so many.
pub(super) async fn delete(connection: &mut Connection, sheet: &Sheet) -> Result<(), Trouble> {
    let request = proto::DeleteTableRequest {
        table_name: Some(sheet.name.clone()),
    };
    let done: proto::DeleteTableResponse =
        connection.call(Operation::DeleteTable, &request).await?;
    let proto::DeleteTableResponse {} = done;
    Ok(())
}

/// Writes each row once, in batches.
pub(super) async fn fill(url: &str, account: &Account, sheet: &Sheet) -> Result<(), Trouble> {
    let rows = (REQUEST_BYTES / sheet.size.row_bytes.max(1)).clamp(1, BATCH_ROWS_MAX) as u64;
    let begun = Cell::new(0);
    let work = || async {
        let mut connection = Connection::open(url, account).await?;
        loop {
            let first = begun.get();
            if first >= sheet.size.rows {
                return Ok(());
            }
            begun.set(first + rows);
            let batch = first..sheet.size.rows.min(first + rows);
            fill_batch(&mut connection, sheet, batch).await?;
        }
    };
    let done: Result<(), Trouble> = join_all((0..CONNECTIONS).map(|_| work()))
        .await
        .into_iter()
        .collect();
    done
}

async fn fill_batch(
    connection: &mut Connection,
    sheet: &Sheet,
    rows: Range<u64>,
) -> Result<(), Trouble> {
    let columns = 0..sheet.size.columns;
    let mut left: Vec<(u64, u32)> = rows
        .map(|row| (row, sheet.ledger.send(sheet.place(row, 0))))
        .collect();
    while !left.is_empty() {
        let puts = left.iter().map(|(row, generation)| {
            let row = sheet.row(*row, columns.clone(), *generation);
            proto::RowInBatchWriteRowRequest {
                r#type: Some(proto::OperationType::Put.into()),
                row_change: Some(encode_row(&row)),
                condition: anyway(),
                return_content: None,
            }
        });
        let request = proto::BatchWriteRowRequest {
            tables: vec![proto::TableInBatchWriteRowRequest {
                table_name: Some(sheet.name.clone()),
                rows: puts.collect(),
            }],
            ..proto::BatchWriteRowRequest::default()
        };
        let asked = connection.call(Operation::BatchWriteRow, &request).await;
        let answer: proto::BatchWriteRowResponse = match asked {
            Err(Trouble::Refused { code, .. }) if code == BUSY => {
                sleep(BREATH).await;
                continue;
            }
            other => other?,
        };
        left = unwritten(sheet, left, answer)?;
    }
    Ok(())
}

const BUSY: &str = "OTSServerBusy";

/// Enters what was acknowledged; gives what is to be sent again.
fn unwritten(
    sheet: &Sheet,
    sent: Vec<(u64, u32)>,
    answer: proto::BatchWriteRowResponse,
) -> Result<Vec<(u64, u32)>, Trouble> {
    let rows: Vec<_> = answer
        .tables
        .into_iter()
        .flat_map(|table| table.rows)
        .collect();
    if rows.len() != sent.len() {
        let (came, sent) = (rows.len(), sent.len());
        return Err(Trouble::Wrong(format!(
            "{came} answers to a batch of {sent} rows"
        )));
    }
    let mut left = Vec::new();
    for ((row, generation), done) in sent.into_iter().zip(rows) {
        match done.error.filter(|_| !done.is_ok) {
            None => sheet.ledger.ack(sheet.place(row, 0), generation),
            Some(error) if error.code == BUSY => left.push((row, generation)),
            Some(error) => {
                return Err(Trouble::Refused {
                    message: error.message.unwrap_or_default(),
                    code: error.code,
                });
            }
        }
    }
    Ok(left)
}

/// Writes rows that are too wide for one request: a put, and updates for the columns that it has no room for.
pub(super) async fn fill_wide(connection: &mut Connection, sheet: &Sheet) -> Result<(), Trouble> {
    let width = sheet.size.columns;
    let each = (sheet.size.row_bytes / width).max(1);
    let step = (REQUEST_BYTES / each).clamp(1, COLUMNS_MAX);
    for row in 0..sheet.size.rows {
        for begin in (0..width).step_by(step) {
            let columns = begin..width.min(begin + step);
            // Each is a write of its own to the ledger, all of the same generation.
            for column in columns.clone() {
                sheet.ledger.send(sheet.place(row, column));
            }
            let written = sheet.row(row, columns.clone(), 1);
            if begin == 0 {
                let request = put_row(&sheet.name, &written);
                let done: proto::PutRowResponse =
                    connection.call(Operation::PutRow, &request).await?;
                drop(done);
            } else {
                let request = update_row(&sheet.name, &written);
                let done: proto::UpdateRowResponse =
                    connection.call(Operation::UpdateRow, &request).await?;
                drop(done);
            }
            for column in columns {
                sheet.ledger.ack(sheet.place(row, column), 1);
            }
        }
    }
    Ok(())
}

/// Reads up to `most` rows that stand side by side, in pages, and checks each.
pub(super) async fn read_back(
    connection: &mut Connection,
    sheet: &Sheet,
    most: u64,
    run: &Run,
) -> Result<(), Trouble> {
    let mut left = most.min(sheet.size.rows);
    let first = Random::new(run.seed_of(READ_BACK)).below(sheet.size.rows - left + 1);
    let mut walk = Some(Walk::new(sheet, first, true, u32::MAX));
    while let Some(walking) = walk.take().filter(|_| left > 0) {
        let limit = left.min(PAGE_ROWS) as usize;
        let request = get_range(sheet, &walking.start, true, limit);
        let answer = connection.call(Operation::GetRange, &request).await?;
        let page = Page::read(answer)?;
        let oldest = Oldest::now(sheet, &walking, limit);
        let next = page.check(sheet, &walking, &oldest, limit);
        let next = next.map_err(Trouble::Wrong)?;
        run.checks.made("rows read back", page.rows.len() as u64);
        left = left.saturating_sub(page.rows.len() as u64);
        walk = walking.after(page, next);
    }
    Ok(())
}

/// Rows in a page that is read back.
const PAGE_ROWS: u64 = 1_000;
/// The part of the seed that this reads by.
const READ_BACK: u64 = 1 << 34;

/// Reads wide rows whole and checks every column: those that were not updated are as they were.
pub(super) async fn read_back_wide(
    connection: &mut Connection,
    sheet: &Sheet,
    most: u64,
    run: &Run,
) -> Result<(), Trouble> {
    let columns = 0..sheet.size.columns;
    for row in 0..most.min(sheet.size.rows) {
        let request = get_row(&sheet.name, &sheet.key(row), Vec::new());
        let answer: proto::GetRowResponse = connection.call(Operation::GetRow, &request).await?;
        let came = decoded(decode_row(&answer.row))?;
        let acked = |column| sheet.ledger.acked(sheet.place(row, column));
        run.checks.made("wide rows read back", 1);
        run.checks
            .made("cells of wide rows read back", columns.len() as u64);
        let checked = sheet.check(&came, row, columns.clone(), acked);
        checked.map_err(Trouble::Wrong)?;
    }
    Ok(())
}
