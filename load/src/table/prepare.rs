//! Before and after the measurement: tables made and filled, read back, and deleted.
//!
//! Owns: what is there first. Promises: every row that is counted on was acknowledged; what is read back at the end is
//! what was acknowledged last, since nothing is on the way any more. Must not: count for the figures.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::try_join_all;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::{decode_row, encode_row};
use tideline::wire::tablestore::proto;
use tokio::time::sleep;

use super::page::{Oldest, Page, Walk};
use super::sheet::Sheet;
use super::wire::{Api, BUSY, Connection, Trouble, anyway, decoded, get_range, get_row, wrong};
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

/// Makes the table.
pub(super) async fn create(
    connection: &mut Connection<'_>,
    sheet: &Sheet,
    time_to_live: i32,
    max_versions: i32,
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
            time_to_live: Some(time_to_live),
            max_versions: Some(max_versions),
            ..proto::TableOptions::default()
        }),
        ..proto::CreateTableRequest::default()
    };
    let done = connection.call(Operation::CreateTable, &request).await?;
    let proto::CreateTableResponse {} = done;
    Ok(())
}

/// Deletes it: a server has only so many.
pub(super) async fn delete(connection: &mut Connection<'_>, sheet: &Sheet) -> Result<(), Trouble> {
    let request = proto::DeleteTableRequest {
        table_name: Some(sheet.name.clone()),
    };
    let done = connection.call(Operation::DeleteTable, &request).await?;
    let proto::DeleteTableResponse {} = done;
    Ok(())
}

/// Columns of a row that are written at once, with their generation.
struct Part {
    row: u64,
    columns: Range<usize>,
    generation: u32,
}

/// Writes each column of each row once, in batches; rows that are too wide for one request in parts.
pub(super) async fn fill(api: &Api, sheet: &Sheet) -> Result<(), Trouble> {
    let (rows, width) = (sheet.size.rows, sheet.size.columns);
    let column_bytes = (sheet.size.row_bytes / width).max(1);
    let step = (REQUEST_BYTES / column_bytes).clamp(1, COLUMNS_MAX.min(width));
    let most = (REQUEST_BYTES / (step * column_bytes)).clamp(1, BATCH_ROWS_MAX);
    // Part by part, so that no batch has a row twice.
    let parts = (0..width).step_by(step).flat_map(|begin| {
        let columns = begin..width.min(begin + step);
        (0..rows).map(move |row| (row, columns.clone()))
    });
    let parts = RefCell::new(parts);
    let work = || async {
        let mut connection = Connection::open(api).await?;
        loop {
            let next = parts.borrow_mut().next();
            let Some((row, columns)) = next else {
                return Ok(());
            };
            let mut left = vec![sent(sheet, row, columns.clone())];
            while left.len() < most
                && let Some((row, others)) = parts.borrow_mut().next()
            {
                left.push(sent(sheet, row, others));
            }
            while !left.is_empty() {
                left = write(&mut connection, sheet, left).await?;
            }
        }
    };
    try_join_all((0..CONNECTIONS).map(|_| work())).await?;
    Ok(())
}

/// Enters columns of a row as sent.
fn sent(sheet: &Sheet, row: u64, columns: Range<usize>) -> Part {
    let places = sheet.places(row, columns.clone());
    let generation = places.map(|place| sheet.ledger.send(place)).max();
    Part {
        row,
        columns,
        generation: generation.unwrap_or_default(),
    }
}

/// Writes a batch; returns what is to be sent again.
async fn write(
    connection: &mut Connection<'_>,
    sheet: &Sheet,
    parts: Vec<Part>,
) -> Result<Vec<Part>, Trouble> {
    let change = |part: &Part| {
        let row = sheet.row(part.row, part.columns.clone(), part.generation);
        proto::RowInBatchWriteRowRequest {
            // The parts of a row come in any order: none may replace the row.
            r#type: Some(proto::OperationType::Update.into()),
            row_change: Some(encode_row(&row)),
            condition: anyway(),
            return_content: None,
        }
    };
    let request = proto::BatchWriteRowRequest {
        tables: vec![proto::TableInBatchWriteRowRequest {
            table_name: Some(sheet.name.clone()),
            rows: parts.iter().map(change).collect(),
        }],
        ..proto::BatchWriteRowRequest::default()
    };
    let asked = connection.call(Operation::BatchWriteRow, &request).await;
    let answer: proto::BatchWriteRowResponse = match asked {
        Err(Trouble::Refused { code, .. }) if code == BUSY => {
            sleep(BREATH).await;
            return Ok(parts);
        }
        other => other?,
    };
    let rows: Vec<_> = answer
        .tables
        .into_iter()
        .flat_map(|table| table.rows)
        .collect();
    if rows.len() != parts.len() {
        let (came, sent) = (rows.len(), parts.len());
        return Err(wrong(format_args!(
            "{came} answers to a batch of {sent} rows"
        )));
    }
    let mut left = Vec::new();
    for (part, done) in parts.into_iter().zip(rows) {
        match done.error.filter(|_| !done.is_ok) {
            None => {
                for place in sheet.places(part.row, part.columns.clone()) {
                    sheet.ledger.ack(place, part.generation);
                }
            }
            Some(error) if error.code == BUSY => left.push(part),
            Some(error) => {
                let (code, message) = (error.code, error.message.unwrap_or_default());
                return Err(Trouble::Refused { code, message });
            }
        }
    }
    Ok(left)
}

/// Reads up to `most` rows that are side by side, in pages, and checks each.
pub(super) async fn read_back(
    connection: &mut Connection<'_>,
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
    connection: &mut Connection<'_>,
    sheet: &Sheet,
    most: u64,
    run: &Run,
) -> Result<(), Trouble> {
    let width = sheet.size.columns;
    for row in 0..most.min(sheet.size.rows) {
        let request = get_row(&sheet.name, &sheet.key(row), Vec::new());
        let answer: proto::GetRowResponse = connection.call(Operation::GetRow, &request).await?;
        let came = decoded(decode_row(&answer.row))?;
        run.checks.made("wide rows read back", 1);
        run.checks
            .made("cells of wide rows read back", width as u64);
        let acked = |column| sheet.ledger.acked(sheet.place(row, column));
        let checked = sheet.check(&came, row, 0..width, acked);
        checked.map_err(Trouble::Wrong)?;
    }
    Ok(())
}
