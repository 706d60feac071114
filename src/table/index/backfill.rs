//! Bringing the rows of a table into an index that was made later.
//!
//! Owns: one task, its place in each partition, and what it tells of its progress. Promises: when an index is complete
//! it has every row of its table, whatever was written, failed or ended meanwhile: the place is a row of the partition,
//! written in the batch of the rows that it covers. Other writes come between the slices. Must not: follow rows that
//! are written from now on; their own writes do.
//!
//! The first place in a partition is written by the partition's writer after the index is known to it. So what was
//! written without the index lies before that batch, and each later view shows it.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::faults::{self, Point};
use tideline_base::ids::{PartitionId, TableId};
use tideline_base::metrics::{self, Metrics};
use tideline_base::ordered::Reader;
use tideline_model::{Direction, Error, ValueRef};
use tideline_store::partition::{Purpose, ReadError, Txn, View};

use super::super::format::key::Key;
use super::super::format::primary_key::decode;
use super::super::format::row::{Row, RowWriter};
use crate::access::{Source, damaged, put};
use crate::catalog::Catalog;
use crate::schema::Table;
use crate::tables::Tables;

/// Places: index ID -> the last row of its table that was looked at. In each partition.
pub(in super::super) const BACKFILLS: TableId = TableId(48);

const AFTER: &str = "after";
const DONE: &str = "done";

/// What one closure looks at, so that other writes need not wait long for it.
const SLICE_ROWS: usize = if cfg!(test) { 5 } else { 500 };
const SLICE_BYTES: usize = 1 << 20;

/// After a failure.
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(30);

/// The running task.
pub struct Backfill {
    stop: CancellationToken,
}

impl Backfill {
    /// Starts it on the current runtime, with what an earlier process left to do.
    #[must_use]
    pub fn start(tables: &Tables, metrics: &Metrics, tasks: &TaskTracker) -> Backfill {
        let stop = CancellationToken::new();
        let work = run(tables.clone(), metrics.backfill(), stop.clone());
        tasks.spawn(work);
        Backfill { stop }
    }

    /// Ends it; the next start goes on.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

async fn run(tables: Tables, figures: metrics::Backfill, stop: CancellationToken) {
    let mut rest = REST_MIN;
    loop {
        let wait = async {
            match bring_in(&tables, &figures).await {
                Ok(()) => {
                    rest = REST_MIN;
                    tables.wait_for_backfill().await;
                }
                Err(error) => {
                    figures.failures.increment(1);
                    tracing::warn!(
                        ?error,
                        ?rest,
                        "rows can't be brought into an index; tried again"
                    );
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(REST_MAX);
                }
            }
        };
        if stop.run_until_cancelled(wait).await.is_none() {
            return;
        }
    }
}

/// Completes every index that is being built.
async fn bring_in(tables: &Tables, figures: &metrics::Backfill) -> Result<(), Error> {
    loop {
        let building = tables.catalog().building();
        figures.building.count(building.len() as u64);
        let Some((table, index)) = building.into_iter().next() else {
            return Ok(());
        };
        for partition in tables.partitions().ids() {
            while let Some(brought) = slice(tables, &table, index, partition).await? {
                figures.rows.increment(brought.rows);
                figures.left_out.increment(brought.left_out);
            }
        }
        Point::Through.reached();
        tables.complete_index(&table.name, index).await?;
        Point::Complete.reached();
    }
}

/// What a slice came to.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    /// Rows that were looked at.
    rows: u64,
    /// Those of them that the index can't hold.
    left_out: u64,
}

/// Brings some rows of a partition in; `None` = there are none left, or the index is gone.
async fn slice(
    tables: &Tables,
    table: &Arc<Table>,
    index: TableId,
    at: PartitionId,
) -> Result<Option<Brought>, Error> {
    if !tables.catalog().is_needed_for_backfill(index) {
        return Ok(None);
    }
    let of = table.id;
    let found = tables
        .partitions()
        .read(at, move |view| find(view, of, index))
        .await?;
    let Some(rows) = found else {
        return Ok(None);
    };
    Point::Found.reached();
    let bytes = rows.keys.iter().map(Bytes::len).sum::<usize>() + 256;
    let (table, catalog, rows) = (Arc::clone(table), tables.catalog().clone(), Arc::new(rows));
    let write = |puts: bool| {
        let (table, catalog, rows) = (Arc::clone(&table), catalog.clone(), Arc::clone(&rows));
        let write = move |txn: &mut Txn<'_>| bring(txn, &catalog, table, index, (&rows, puts));
        tables.partitions().submit(Purpose::Adds, at, bytes, write)
    };
    if faults::writes_place_first() {
        write(false).await?;
        Point::Brought.reached();
    }
    let done = write(true);
    Point::Submitted.reached();
    let brought = done.await?;
    Point::Brought.reached();
    Ok(Some(brought))
}

/// Rows of the table to look at next.
#[derive(Default)]
struct Rows {
    keys: Vec<Bytes>,
    /// Whether they are the last ones; `None` = nobody has begun here.
    is_end: Option<bool>,
}

fn find(view: &View, table: TableId, index: TableId) -> Result<Option<Rows>, ReadError> {
    let place = key_of_place(index);
    let Some(value) = view.row(&place)? else {
        return Ok(Some(Rows::default()));
    };
    let bad = |_| damaged(place.as_bytes(), "not a place of a backfill");
    let row = Row::parse(&value).map_err(bad)?;
    let Some(after) = row.column(AFTER).map_err(bad)? else {
        return Ok(None);
    };
    let ValueRef::Binary(after) = after.value else {
        return Err(damaged(place.as_bytes(), "not a place of a backfill"));
    };
    let all = Key::new(table, &[], 1);
    let (low, high) = (all.clone().below_all(), all.above_all());
    let from = match after.is_empty() {
        true => Bound::Included(low.as_bytes()),
        false => Bound::Excluded(after),
    };
    let to = Bound::Excluded(high.as_bytes());
    let (mut keys, mut bytes) = (Vec::new(), 0);
    for row in view.range(from, to, Direction::Forward) {
        if keys.len() == SLICE_ROWS || bytes > SLICE_BYTES {
            let is_end = Some(false);
            return Ok(Some(Rows { keys, is_end }));
        }
        let (key, value) = row?;
        bytes += value.len();
        keys.push(key);
    }
    let is_end = Some(true);
    Ok(Some(Rows { keys, is_end }))
}

/// Runs on the writer's thread: writes the rows as they are now (not `puts` = a control of the tests leaves them out),
/// and the place behind them.
fn bring(
    txn: &mut Txn<'_>,
    catalog: &Catalog,
    table: Arc<Table>,
    index: TableId,
    (rows, puts): (&Rows, bool),
) -> Result<Brought, Error> {
    let table = catalog.newest(table);
    let mut brought = Brought::default();
    let Some(index) = table.indexes().iter().find(|known| known.id == index) else {
        return Ok(brought);
    };
    let names = index.reads();
    let names: Option<Vec<&str>> = names.map(|names| names.iter().map(String::as_str).collect());
    let (mut after, mut is_end) = (&[][..], rows.is_end == Some(true));
    for key in &rows.keys {
        if brought.rows > 0 && txn.written() > SLICE_BYTES {
            is_end = false;
            break;
        }
        let bad = |_| damaged(key, "not a row");
        let values = decode(key).map_err(bad)?;
        if let Some(value) = txn.get_some(key, names.as_deref())?.value {
            match index.row(&values, &value).map_err(bad)? {
                Ok(Some(row)) if puts => {
                    txn.put(row.key.as_bytes(), row.value);
                }
                Ok(_) => {}
                Err(_) => brought.left_out += 1,
            }
        }
        brought.rows += 1;
        after = key;
    }
    let mut row = RowWriter::new(after.len() + 16);
    match is_end {
        true => row.put(DONE, ValueRef::Boolean(true)),
        false => row.put(AFTER, ValueRef::Binary(after)),
    }
    let now = txn.now_ms().cast_signed();
    put(txn, key_of_place(index.id), row, now);
    Ok(brought)
}

fn key_of_place(index: TableId) -> Key {
    Key::new(BACKFILLS, &[], 9).number(u64::from(index.0))
}

/// The index that a place is of; `columns` are its key columns.
pub(in super::super) fn backfilled(columns: &[u8]) -> Option<TableId> {
    let number = Reader::new(columns).u64().ok()?;
    u32::try_from(number).ok().map(TableId)
}
