//! How large a row may become, and how much one answer may hold.
//!
//! Owns: the proof that both have an end, wherever the row lies. Promises: a row that is full can be read, made smaller
//! and replaced. Must not: measure.

use std::path::Path;
use std::sync::Arc;

use super::super::{Got, Partitions, ROW_BYTES_MAX, Table, Tables, Written};
use super::bed;
use super::commands::START_MS;
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::{
    CellChange, Condition, Error, Existence, FoundRow, KeyValue, PrimaryKey, PutCell,
    ReturnContent, RowChange, RowWrite, Selection, TableOptions, Value,
};
use tideline_store::partition::Options;

const MIB: usize = 1 << 20;

fn key(number: i64) -> PrimaryKey {
    vec![("k".to_owned(), KeyValue::Integer(number))]
}

/// Two columns of nearly 2 MiB.
fn four_mib(turn: usize) -> RowChange {
    let put = |name: String| PutCell {
        name,
        version: None,
        value: Value::Binary(vec![7; 2 * MIB - 4_096].into()),
    };
    let cells = [put(format!("a{turn:02}")), put(format!("b{turn:02}"))];
    RowChange::Update(cells.map(CellChange::Put).to_vec())
}

async fn write(tables: &Tables, table: &Arc<Table>, change: RowChange) -> Result<Written, Error> {
    let write = RowWrite {
        key: key(0),
        change,
        condition: Condition::default(),
        content: ReturnContent::None,
    };
    tables.write(table, write).await
}

fn newest() -> Selection {
    Selection::newest(Some(1)).unwrap()
}

/// Reads a row; the number of its cells.
async fn cells(tables: &Tables, table: &Arc<Table>, key: PrimaryKey) -> usize {
    let got: Got<Vec<FoundRow>> = tables.get(table, key, newest()).await.unwrap();
    got.rows[0].cells.len()
}

/// Tables of which one is there: "wide", with key columns of these names.
pub(super) async fn open(dir: &Path, columns: &[&str]) -> (Partitions, Tables, Arc<Table>) {
    let clock = Arc::new(Clock::fixed(START_MS));
    let (partitions, tables) = bed::open(dir, Options::default(), &clock);
    let new = bed::integers("wide", columns, TableOptions::default());
    tables.create(new).await.unwrap();
    let table = tables.describe("wide").await.unwrap();
    (partitions, tables, table)
}

/// An update of a row of partition key 0 that puts a column of so many bytes.
pub(super) fn update(number: i64, name: &str, bytes: usize) -> RowWrite {
    let put = PutCell {
        name: name.to_owned(),
        version: None,
        value: Value::String("7".repeat(bytes)),
    };
    RowWrite {
        key: vec![
            ("p".to_owned(), KeyValue::Integer(0)),
            ("k".to_owned(), KeyValue::Integer(number)),
        ],
        change: RowChange::Update(vec![CellChange::Put(put)]),
        condition: Condition::default(),
        content: ReturnContent::None,
    }
}

/// Each of the rows was due to be written whole at the same time: one frame, larger than the log takes, and the
/// partition stopped for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rows_that_are_updated_together_again_and_again_come_to_no_end() {
    const ROWS: i64 = 80;
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["p", "k"]).await;
    let batch = async |numbers: std::ops::Range<i64>, name: &str, bytes, is_atomic| {
        let row = |number| (Arc::clone(&table), update(number, name, bytes));
        let answers = tables
            .write_batch(numbers.map(row).collect(), is_atomic)
            .await;
        assert!(answers.unwrap().iter().all(Result::is_ok), "{name}");
    };
    for first in (0..ROWS).step_by(4) {
        batch(first..first + 4, "wide", 1_000_000, false).await;
    }
    for is_atomic in [false, true] {
        for turn in 0..6 {
            batch(0..ROWS, &format!("c{turn}"), 8, is_atomic).await;
        }
    }
    assert!(partitions.can_commit());
    let key = update(ROWS - 1, "", 0).key;
    assert_eq!(cells(&tables, &table, key).await, 7);
    partitions.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_row_and_an_answer_have_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["k"]).await;
    let fits = ROW_BYTES_MAX / (4 * MIB);
    for turn in 0..fits {
        write(&tables, &table, four_mib(turn)).await.unwrap();
        if turn == fits / 2 {
            // The rest comes on top of pieces, which are not read for it.
            let partitions = partitions.clone();
            let settled = tokio::task::spawn_blocking(move || partitions.settle(PartitionId(0)));
            settled.await.unwrap();
        }
    }
    let refused = write(&tables, &table, four_mib(fits)).await;
    assert_eq!(refused, Err(Error::RowTooLarge));
    assert_eq!(cells(&tables, &table, key(0)).await, 2 * fits);

    let asked = vec![(Arc::clone(&table), [0, 1, 0, 0].map(key).to_vec(), newest())];
    let answers = tables.get_batch(asked).await.unwrap().remove(0);
    let given = answers.iter().map(|answer| {
        answer
            .as_ref()
            .map(|got: &Got<Vec<FoundRow>>| got.rows.len())
    });
    let full = &Error::AnswerTooLarge;
    assert_eq!(
        given.collect::<Vec<_>>(),
        [Ok(1), Err(full), Err(full), Err(full)]
    );

    let name = "a00".to_owned();
    let smaller = RowChange::Update(vec![CellChange::DeleteAll { name }]);
    write(&tables, &table, smaller).await.unwrap();
    write(&tables, &table, RowChange::Put(Vec::new()))
        .await
        .unwrap();
    write(&tables, &table, four_mib(fits)).await.unwrap();
    assert_eq!(cells(&tables, &table, key(0)).await, 2);
    partitions.close().await;
}

/// Each update left a version that no longer counted, and the row was full after 64 MB of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_row_that_is_updated_again_and_again_is_as_large_as_what_shows() {
    for update_full_row in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::fixed(START_MS));
        let (partitions, tables) = bed::open(dir.path(), Options::default(), &clock);
        let options = TableOptions {
            update_full_row,
            ..TableOptions::default()
        };
        let new = bed::integers("again", &["k"], options);
        tables.create(new).await.unwrap();
        let table = tables.describe("again").await.unwrap();
        for turn in 0..=ROW_BYTES_MAX / (4 * MIB) {
            let done = write(&tables, &table, four_mib(0)).await;
            assert!(done.is_ok(), "{update_full_row} {turn}: {done:?}");
        }
        // Of the changes below it nothing is read at first.
        let beside = update(0, "beside", 8).change;
        write(&tables, &table, beside).await.unwrap();
        assert_eq!(cells(&tables, &table, key(0)).await, 3);
        partitions.close().await;
    }
}

/// Each of the writes read all of the row on the writer's thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_batch_reads_no_row_again_and_again_while_all_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["k"]).await;
    for turn in 0..12 {
        write(&tables, &table, four_mib(turn)).await.unwrap();
    }
    let row = |_| {
        let mut row = update(0, "c", 1);
        row.key = key(0);
        row.condition.existence = Existence::Exist;
        (Arc::clone(&table), row)
    };
    let answers = tables.write_batch((0..8).map(row).collect(), false).await;
    let answers = answers.unwrap().into_iter().map(|answer| answer.err());
    let mut expected = vec![None; 6];
    expected.extend([Some(Error::Busy), Some(Error::Busy)]);
    assert_eq!(answers.collect::<Vec<_>>(), expected);
    partitions.close().await;
}

/// What a wide row's column no longer has room for went, also where the request itself had put it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_put_beside_a_delete_of_its_column_stays() {
    let start = i64::try_from(START_MS).unwrap();
    let put = |offset: i64| {
        CellChange::Put(PutCell {
            name: "c".to_owned(),
            version: Some(start + offset),
            value: Value::Integer(offset),
        })
    };
    let gone = || CellChange::DeleteAll {
        name: "c".to_owned(),
    };
    let before = [vec![put(100)], vec![put(100), put(200)]];
    let changes = [
        vec![put(300), gone(), put(100)],
        vec![gone(), put(100), put(300)],
    ];
    let expected = [vec![100], vec![300, 100]];
    for (at, max_versions) in [1, 2].into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::fixed(START_MS));
        let (partitions, tables) = bed::open(dir.path(), Options::default(), &clock);
        let options = TableOptions {
            max_versions,
            ..TableOptions::default()
        };
        tables
            .create(bed::integers("again", &["k"], options))
            .await
            .unwrap();
        let table = tables.describe("again").await.unwrap();
        for change in [
            update(0, "wide", 8 << 10).change,
            RowChange::Update(before[at].clone()),
        ] {
            write(&tables, &table, change).await.unwrap();
        }
        let change = RowChange::Update(changes[at].clone());
        write(&tables, &table, change).await.unwrap();
        let all = Selection::newest(Some(2)).unwrap();
        let got: Got<Vec<FoundRow>> = tables.get(&table, key(0), all).await.unwrap();
        let of_c = got.rows[0].cells.iter().filter(|cell| cell.name == "c");
        let versions: Vec<i64> = of_c.map(|cell| cell.version - start).collect();
        assert_eq!(versions, expected[at], "{max_versions}");
        partitions.close().await;
    }
}
