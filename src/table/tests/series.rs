//! What is known of series while time passes and others change it.
//!
//! Owns: when a series is noted, and what a note may overwrite. Promises: the race has a control that loses an
//! attribute. Must not: need a search index; tests/tablestore/test_series.py looks for series.

use std::collections::BTreeMap;
use std::sync::Arc;

use tideline_base::clock::Clock;
use tideline_model::series::{NewSeries, SeriesKey, SeriesMeta, SeriesUpdate};
use tideline_model::{Error, Selection};
use tideline_store::partition::Options;

use super::bed;
use crate::series::metas::{SeriesRows, as_seen, meta_row};
use crate::{SeriesTable, Tables};

const BEGIN_MS: u64 = 1_700_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn series(measurement: &str) -> SeriesKey {
    SeriesKey {
        measurement: measurement.to_owned(),
        ..SeriesKey::default()
    }
}

fn attributes(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("a".to_owned(), value.to_owned())])
}

/// What is known of a series: its attributes, and when that was written.
async fn known(tables: &Tables, table: &SeriesTable, key: &SeriesKey) -> Option<SeriesMeta> {
    let asked = table.meta_key(key).unwrap();
    let newest = Selection::newest(Some(1)).unwrap();
    let got = tables.get::<SeriesRows>(&table.metas, asked, newest).await;
    got.unwrap().rows.metas(table).next()
}

async fn note(tables: &Tables, table: &SeriesTable, key: &SeriesKey) -> u32 {
    let noted = tables.note_series(table, std::slice::from_ref(key)).await;
    noted.unwrap().remove(0).unwrap().write
}

async fn change(tables: &Tables, table: &SeriesTable, key: &SeriesKey, value: &str) {
    let meta = SeriesMeta {
        key: key.clone(),
        attributes: attributes(value),
        updated_us: 0,
    };
    let changed = tables.change_series(table, vec![meta]).await.unwrap();
    assert!(changed.iter().all(Result::is_ok));
}

async fn made(tables: &Tables) -> SeriesTable {
    let new = NewSeries {
        name: "t".to_owned(),
        keys: Vec::new(),
        fields: Vec::new(),
        points_life_s: -1,
        metas_life_s: -1,
        allows_attributes: true,
    };
    tables.create_series(new).await.unwrap();
    tables.series("t").await.unwrap()
}

#[tokio::test]
async fn a_series_is_noted_once_a_day_and_keeps_its_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(BEGIN_MS));
    let (_partitions, tables) = bed::open(dir.path(), Options::default(), &clock);
    let (table, key) = (made(&tables).await, series("m"));
    assert_eq!(note(&tables, &table, &key).await, 1);
    assert_eq!(note(&tables, &table, &key).await, 0);
    change(&tables, &table, &key, "x").await;
    clock.set(BEGIN_MS + DAY_MS - 1);
    assert_eq!(note(&tables, &table, &key).await, 0);
    clock.set(BEGIN_MS + DAY_MS);
    assert_eq!(note(&tables, &table, &key).await, 1);
    let meta = known(&tables, &table, &key).await.unwrap();
    assert_eq!(meta.attributes, attributes("x"));
    assert_eq!(meta.updated_us, (BEGIN_MS + DAY_MS).cast_signed() * 1_000);
}

/// What `note_series` writes is refused if another write came between its look and its write. The control writes the
/// same without that condition.
#[tokio::test]
async fn a_note_takes_no_attributes_back() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(BEGIN_MS));
    let (_partitions, tables) = bed::open(dir.path(), Options::default(), &clock);
    let (table, key) = (made(&tables).await, series("m"));
    for is_guarded in [true, false] {
        change(&tables, &table, &key, "old").await;
        let seen = known(&tables, &table, &key).await.unwrap();
        clock.step(DAY_MS.cast_signed());
        change(&tables, &table, &key, "new").await;
        let now_us = clock.now_ms().cast_signed() * 1_000;
        let late = tideline_model::RowWrite::new(
            table.meta_key(&key).unwrap(),
            meta_row(&seen.attributes, now_us),
            match is_guarded {
                true => as_seen(Some(seen.updated_us)),
                false => tideline_model::Condition::default(),
            },
        );
        let written = tables.write(&table.metas, late.unwrap()).await;
        let left = known(&tables, &table, &key).await.unwrap().attributes;
        match is_guarded {
            true => assert_eq!(
                (written.err(), left),
                (Some(Error::ConditionFailed), attributes("new"))
            ),
            false => assert_eq!((written.err(), left), (None, attributes("old"))),
        }
    }
}

/// An old point may be written although its time to live was shorter once; what is known of series stays away.
#[tokio::test]
async fn times_to_live_change_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(BEGIN_MS));
    let (_partitions, tables) = bed::open(dir.path(), Options::default(), &clock);
    let (table, key) = (made(&tables).await, series("m"));
    note(&tables, &table, &key).await;
    let update = |points_life_s, metas_life_s, allows_attributes| SeriesUpdate {
        points_life_s: Some(points_life_s),
        metas_life_s: Some(metas_life_s),
        allows_attributes: Some(allows_attributes),
    };
    let ends = update(86_400, 604_800, false);
    tables.update_series("t", ends).await.unwrap();
    clock.step(8 * DAY_MS.cast_signed());
    let table = tables.series("t").await.unwrap();
    assert_eq!(known(&tables, &table, &key).await, None);
    tables
        .update_series("t", update(-1, -1, true))
        .await
        .unwrap();
    let table = tables.series("t").await.unwrap();
    assert_eq!(known(&tables, &table, &key).await, None);
    let point = tideline_model::series::Point {
        key: key.clone(),
        time_us: 1,
        fields: vec![("v".to_owned(), tideline_model::Value::Integer(1))],
    };
    let row = table.row(point).unwrap();
    tables.write(&table.points, row).await.unwrap();
    tables.delete_series("t").await.unwrap();
    assert_eq!(tables.series("t").await.err(), Some(Error::TableNotFound));
}
