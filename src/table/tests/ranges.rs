//! Reads of many rows that are large, or whose partitions are split meanwhile.
//!
//! Owns: the proof that a page and a step of an export have an end, whatever is asked for, and that a row comes once.
//! Must not: measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio_util::sync::CancellationToken;

use super::super::{Exported, Partitions, RangePage, Table, Tables};
use super::row_size::{open, update};
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{
    Condition, Direction, Error, FoundRow, GetRange, KeyValue, PutCell, ReturnContent, RowChange,
    RowRef, RowSink, RowWrite, Selection, Value,
};
use tideline_store::partition::{Making, READS_MAX, Reshape, View};

const MIB: usize = 1 << 20;

async fn put(tables: &Tables, table: &Arc<Table>, number: i64, bytes: usize) {
    let cell = PutCell {
        name: "c".to_owned(),
        version: None,
        value: Value::Binary(vec![7; bytes].into()),
    };
    let write = RowWrite {
        key: vec![("k".to_owned(), KeyValue::Integer(number))],
        change: RowChange::Put(vec![cell]),
        condition: Condition::default(),
        content: ReturnContent::None,
    };
    tables.write(table, write).await.unwrap();
}

/// All rows from a key on.
fn from(start: KeyValue) -> GetRange {
    GetRange {
        direction: Direction::Forward,
        start: vec![("k".to_owned(), start)],
        end: vec![("k".to_owned(), KeyValue::InfMax)],
        limit: None,
        selection: Selection::newest(Some(1)).unwrap(),
    }
}

/// Splits the only partition; it can still be read.
async fn split(partitions: &Partitions) {
    let of = partitions.clone();
    let begun = tokio::task::spawn_blocking(move || {
        let reshape = Reshape::equal(2);
        let mut making = Making::begin(&of, &reshape, CancellationToken::new()).unwrap();
        making.catch_up().unwrap();
        making
    });
    let mut making = begun.await.unwrap();
    let paused = partitions.pause(&making.parents());
    paused.seal().await.unwrap();
    let cut = tokio::task::spawn_blocking(move || making.cut(paused, false, || true));
    assert!(cut.await.unwrap().unwrap());
}

/// The read had the view of the partition that ended, and took those of its children beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_row_comes_once_when_its_partition_is_split_before_the_read_has_its_turn() {
    const ROWS: i64 = 20;
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["k"]).await;
    for number in 0..ROWS {
        put(&tables, &table, number, 9).await;
    }
    let (begun, mut gates) = (Arc::new(AtomicUsize::new(0)), Vec::new());
    for _ in 0..READS_MAX {
        let (gate, opened) = mpsc::sync_channel::<()>(1);
        let begun = Arc::clone(&begun);
        gates.push(gate);
        tokio::spawn(partitions.read(PartitionId(0), move |_: &View| {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok(opened.recv().is_err())
        }));
    }
    while begun.load(Ordering::SeqCst) < READS_MAX {
        tokio::task::yield_now().await;
    }
    let mut page = Box::pin(tables.get_range::<Vec<FoundRow>>(&table, from(KeyValue::InfMin)));
    assert!(futures_util::poll!(&mut page).is_pending());
    split(&partitions).await;
    drop(gates);
    let page = page.await.unwrap();
    let keys = page.rows.into_iter().map(|row| row.key);
    let all = (0..ROWS).map(|number| vec![KeyValue::Integer(number)]);
    assert_eq!(keys.collect::<Vec<_>>(), all.collect::<Vec<_>>());
    partitions.close().await;
}

/// What a page asks for was counted, and all of 5,000 rows was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_ends_after_32_mib_of_rows_whatever_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["k"]).await;
    for number in 0..17 {
        put(&tables, &table, number, 2 * MIB).await;
    }
    let asked = |start| {
        let mut range = from(start);
        range.selection.columns.insert("none".to_owned());
        range
    };
    let last = KeyValue::Integer(16);
    for (start, next) in [
        (KeyValue::InfMin, Some(vec![last.clone()])),
        (last.clone(), None),
    ] {
        let page = tables.get_range(&table, asked(start)).await;
        let page: RangePage<Vec<FoundRow>> = page.unwrap();
        assert_eq!((page.rows, page.next), (Vec::new(), next));
    }
    partitions.close().await;
}

/// Rows that were taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Default)]
struct Counting;

impl RowSink for Counting {
    fn push(&mut self, _: RowRef<'_>) {
        TAKEN.fetch_add(1, Ordering::SeqCst);
    }
}

/// All rows of a batch were read before the bound was looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_step_of_an_export_ends_with_the_row_that_is_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["p", "k"]).await;
    let row = |number| (Arc::clone(&table), update(number, "c", 3 * MIB));
    let written = tables.write_batch((0..4).map(row).collect(), true).await;
    assert!(written.unwrap().iter().all(Result::is_ok));
    // What came before may be a step of its own.
    let mut from = Position::ZERO;
    let refused = loop {
        let step = tables.export_changes(&table, PartitionId(0), from, None);
        let step: Result<Exported<Counting>, Error> = step.await;
        match step {
            Ok(step) if !step.is_last => from = step.position,
            other => break other.map(|_| ()),
        }
    };
    assert_eq!(refused, Err(Error::AnswerTooLarge));
    assert_eq!(TAKEN.load(Ordering::SeqCst), 2);
    partitions.close().await;
}
