//! Where costly conditions are looked at.
//!
//! Owns: the proof that an expression on a large row does not run on the writer's thread. Promises: what it says
//! counts for the row as it was, or not at all. Must not: test what expressions mean.

use std::sync::Arc;

use super::super::write::Checked;
use super::super::{Table, Tables};
use super::row_size::{open, update};
use tideline_model::{
    Asking, Cast, Comparator, Condition, Effort, Error, Existence, Predicate, Relation, RowRef,
    RowWrite, Transfer, Value,
};

/// An update of the row's small column that passes if the row has the wide one; its test must not see a wide row on the
/// writer's thread.
fn costly(number: i64) -> RowWrite {
    let has_no_text = Relation {
        column: "wide".to_owned(),
        comparator: Comparator::NotExist,
        value: Value::Integer(0),
        pass_if_missing: false,
        latest_version_only: true,
        transfer: Transfer::new("(x)", Cast::String),
    };
    RowWrite {
        condition: Condition {
            existence: Existence::Ignore,
            columns: Some(Predicate::Single(has_no_text)),
        },
        ..update(number, "small", 8)
    }
}

/// Sees every row that a condition is evaluated on.
pub(crate) fn evaluated(row: &RowRef<'_>) {
    let is_wide = row.versions("wide").next().is_some();
    let thread = std::thread::current();
    let is_writer = thread.name().is_some_and(|name| name.starts_with("writer"));
    assert!(!is_wide || !is_writer);
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

/// In a transaction the write would take effect, whatever its condition says.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_condition_that_nobody_waits_for_lets_no_write_through() {
    let dir = tempfile::tempdir().unwrap();
    let (partitions, tables, table) = open(dir.path(), &["p", "k"]).await;
    let wide = update(1, "wide", 100_000);
    tables.write(&table, wide).await.unwrap();
    let mut row = Checked::new(Arc::clone(&table), costly(1)).unwrap();
    let view = partitions.view(tables.place(&table, &row.key)).unwrap();
    let (effort, now) = (Effort::new(u64::MAX), tables.now_ms());
    let mut look = |is_asked: bool| {
        let is_asked = move || is_asked;
        row.look(&view, now, &Asking::whole(&effort, &is_asked))
    };
    assert_eq!(look(false), Err(Error::Busy));
    assert_eq!(look(true), Ok(()));
    drop(view);
    partitions.close().await;
}
