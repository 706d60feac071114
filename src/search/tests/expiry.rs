//! Rows that expire: they are not found from then on, and go out of the index.
//!
//! Owns: a clock that is moved by hand. Must not: assert on time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tideline_base::clock::Clock;
use tideline_model::search::{Query, SearchIndexUpdate};
use tideline_model::{OptionsUpdate, PutCell, TableUpdate, Value};

use super::bed::{Bed, INDEX, MEMORY, TABLE, search};
use super::searches::rebuilds;

async fn live(bed: &Bed, options: OptionsUpdate) {
    let update = TableUpdate {
        options,
        ..TableUpdate::default()
    };
    bed.tables.update(TABLE, update).await.unwrap();
}

/// A bed with an index of rows that live for 100 s.
async fn short_lived(folder: &Path, clock: &Arc<Clock>) -> Bed {
    let bed = Bed::with(folder, MEMORY, Arc::clone(clock));
    bed.create().await;
    let put_only = OptionsUpdate {
        allow_update: Some(false),
        time_to_live_s: Some(100),
        ..OptionsUpdate::default()
    };
    live(&bed, put_only).await;
    bed.index().await;
    bed
}

async fn live_in_index(bed: &Bed, seconds: i64) {
    let update = SearchIndexUpdate {
        time_to_live_s: Some(seconds),
    };
    let updated = bed.tables.update_search_index(TABLE, INDEX, update);
    updated.await.unwrap();
}

/// How many rows are found, when all are there.
async fn found(bed: &Bed) -> u64 {
    loop {
        let page = bed.search(search(Query::All, None, 10)).await;
        if page.is_all {
            assert_eq!(page.total, Some(page.rows.len() as u64));
            return page.rows.len() as u64;
        }
    }
}

/// Waits until the index has so many rows.
async fn holds(bed: &Bed, rows: u64) {
    let index = bed.table().await.search_indexes[0].id;
    while bed.searches.standing(index).await.rows != rows {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_expired_goes_out_of_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(1_700_000_000_000));
    let pass = |seconds: u64| clock.set(clock.now_ms() + 1_000 * seconds);
    let mut bed = short_lived(folder.path(), &clock).await;
    let cells = || Some([("word", Value::Integer(1))].into());
    for number in 0..3 {
        bed.write(("a".to_owned(), number), cells()).await;
    }
    assert_eq!(found(&bed).await, 3);
    pass(50);
    bed.write(("a".to_owned(), 3), cells()).await;
    assert_eq!(found(&bed).await, 4);
    pass(50);
    assert_eq!(found(&bed).await, 1);
    holds(&bed, 1).await;
    // What has expired stays so, though rows live for ever.
    let for_ever = OptionsUpdate {
        time_to_live_s: Some(-1),
        ..OptionsUpdate::default()
    };
    live(&bed, for_ever).await;
    pass(100);
    assert_eq!(found(&bed).await, 1);
    assert_eq!(rebuilds(&bed), 0);
    // In the index alone rows live shorter, then longer again.
    live_in_index(&bed, 10).await;
    assert_eq!(found(&bed).await, 0);
    pass(61);
    holds(&bed, 0).await;
    live_in_index(&bed, -1).await;
    pass(61);
    assert_eq!(found(&bed).await, 1);
    assert_eq!(rebuilds(&bed), 1);
    bed.close().await;
}

/// A column that has expired is taken out of the index by the next look for such columns, though its row lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_no_longer_found_by_a_column_that_has_expired() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(1_700_000_000_000));
    let bed = short_lived(folder.path(), &clock).await;
    let now_ms = i64::try_from(clock.now_ms()).unwrap();
    let of = |name: &str, version| PutCell {
        name: name.to_owned(),
        version: Some(version),
        value: Value::String("red".to_owned()),
    };
    let cells = vec![of("word", now_ms - 50_000), of("text", now_ms)];
    bed.put(("a".to_owned(), 1), cells).await;
    let by = |field: &str| Query::Exists {
        field: field.to_owned(),
    };
    let found = async |bed: &Bed, field| bed.search(search(by(field), None, 1)).await.total;
    assert_eq!(found(&bed, "word").await, Some(1));
    clock.set(clock.now_ms() + 61_000);
    while found(&bed, "word").await != Some(0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(found(&bed, "text").await, Some(1));
    assert_eq!(rebuilds(&bed), 0);
    bed.close().await;
}
