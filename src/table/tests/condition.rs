//! Where costly conditions are looked at.
//!
//! Owns: the proof that an expression over a large row does not run on the writer's thread. Promises: what it says
//! counts for the row as it was, or not at all. Must not: know expressions.

use std::sync::Arc;

use super::super::{Condition, Error, FoundRow, RowWrite, Table, Tables};
use super::row_size::{open, update};

/// An update of the row's small column that passes if the row has the wide one; its test must not see a wide row on the
/// writer's thread.
fn costly(number: i64) -> RowWrite {
    let test = |_: &Table, row: &FoundRow| {
        let wide = row.cells.iter().find(|cell| cell.name == "wide");
        let thread = std::thread::current();
        let is_writer = thread.name().is_some_and(|name| name.starts_with("writer"));
        assert!(wide.is_none() || !is_writer);
        wide.is_some()
    };
    RowWrite {
        condition: Condition {
            test: Some(Arc::new(test)),
            is_costly: true,
            ..Condition::default()
        },
        ..update(number, "small", 8)
    }
}

async fn batch(tables: &Tables, table: &Arc<Table>, rows: Vec<RowWrite>) -> Vec<Result<(), Error>> {
    let rows = rows.into_iter().map(|row| (Arc::clone(table), row));
    let answers = tables.write_batch(rows.collect(), false).await.unwrap();
    let answers = answers.into_iter().map(|answer| answer.map(|_| ()));
    answers.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_costly_test_of_a_large_row_is_not_the_writers() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["p", "k"]).await;
    let wide = |number| update(number, "wide", 100_000);
    // A row that is not there, or small, is looked at where it is written.
    let refused = tables.write(&table, costly(1)).await;
    assert_eq!(refused, Err(Error::ConditionFailed));
    let told = batch(&tables, &table, vec![update(1, "other", 8), costly(1)]).await;
    assert_eq!(told, [Ok(()), Err(Error::ConditionFailed)]);

    tables.write(&table, wide(1)).await.unwrap();
    tables.write(&table, costly(1)).await.unwrap();
    // The row that was looked at is not the one that is met.
    let told = batch(
        &tables,
        &table,
        vec![wide(1), costly(1), wide(2), costly(2)],
    )
    .await;
    let conflict = || Err(Error::RowConflict);
    assert_eq!(told, [Ok(()), conflict(), Ok(()), conflict()]);
    let told = batch(&tables, &table, vec![costly(1), costly(2)]).await;
    assert_eq!(told, [Ok(()), Ok(())]);
    partitions.close().await;
}
