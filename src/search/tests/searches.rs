//! What searches find, against a plain look at each row.
//!
//! Owns: the comparison, under writes, while an index is built and after a restart. Must not: assert on time.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline_model::search::{Bool, MinimumMatch, Missing, Query, Sort, Sorter};
use tideline_model::{Error, FoundRow};

use super::bed::{Bed, INDEX, search};
use super::plain::Row;
use super::random::Random;
use crate::index::place::Place;

/// The keys that a query finds, by looking; in the order of a sort by one field.
fn expected(bed: &Bed, query: &Query, sort: &Sort) -> Vec<(String, i64)> {
    let found = bed.rows.iter().filter_map(|(key, cells)| {
        let row = Row {
            number: key.1,
            cells,
        };
        row.is_found(query).then(|| {
            let number = row.number(name(sort));
            let other = || row.number(missing_field(sort)?);
            (number.or_else(other), key.clone())
        })
    });
    let mut found: Vec<_> = found.collect();
    let Sorter::Field {
        is_desc, missing, ..
    } = &sort.sorters[0]
    else {
        panic!("not sorted by a field");
    };
    found.sort_by(|(one, key), (other, other_key)| {
        let place = |value: &Option<f64>| match (value, missing) {
            (None, Missing::First) => 0,
            (Some(_), _) => 1,
            (None, _) => 2,
        };
        let values = match (one, other) {
            (Some(one), Some(other)) if *is_desc => other.total_cmp(one),
            (Some(one), Some(other)) => one.total_cmp(other),
            _ => std::cmp::Ordering::Equal,
        };
        place(one)
            .cmp(&place(other))
            .then(values)
            .then(key.cmp(other_key))
    });
    found.into_iter().map(|(_, key)| key).collect()
}

fn name(sort: &Sort) -> &str {
    match &sort.sorters[0] {
        Sorter::Field { name, .. } => name,
        _ => "",
    }
}

fn missing_field(sort: &Sort) -> Option<&str> {
    match &sort.sorters[0] {
        Sorter::Field { missing_field, .. } => missing_field.as_deref(),
        _ => None,
    }
}

async fn compare(bed: &Bed, random: &mut Random, count: usize) {
    for _ in 0..count {
        let (query, sort) = (random.query(2), random.sort());
        let limit = usize::try_from(1 + random.below(90)).unwrap();
        let expected = expected(bed, &query, &sort);
        let found = bed.keys(&query, Some(sort.clone()), limit).await;
        assert_eq!(found, expected, "{query:#?} by {sort:?}");
        let counted = bed.search(search(query, None, 0)).await;
        assert_eq!(counted.total, Some(expected.len() as u64));
    }
}

/// Phrases and ranges in each part of a query, alone and beside others, and what they make excluded.
async fn excluded(bed: &Bed, random: &mut Random) {
    let mut some = |count: usize| (0..count).map(|_| random.part()).collect::<Vec<_>>();
    for _ in 0..20 {
        let parts = [
            Bool {
                must: some(2),
                ..Bool::default()
            },
            Bool {
                filter: some(1),
                must_not: some(1),
                ..Bool::default()
            },
            Bool {
                must_not: some(1),
                ..Bool::default()
            },
            Bool {
                must_not: some(3),
                ..Bool::default()
            },
            Bool {
                must: some(2),
                must_not: some(1),
                filter: some(1),
                ..Bool::default()
            },
            Bool {
                should: some(3),
                must_not: some(1),
                minimum: MinimumMatch::parse("1").ok(),
                ..Bool::default()
            },
            Bool {
                must: some(1),
                should: some(2),
                ..Bool::default()
            },
        ];
        for part in parts {
            let inner = Query::Bool(Box::new(part));
            let excluded = Bool {
                must_not: vec![inner.clone()],
                ..Bool::default()
            };
            let sort = by_number();
            for query in [inner, Query::Bool(Box::new(excluded))] {
                let found = bed.keys(&query, Some(sort.clone()), 90).await;
                assert_eq!(found, expected(bed, &query, &sort), "{query:#?}");
            }
        }
    }
}

fn by_number() -> Sort {
    Sort {
        sorters: vec![Sorter::Field {
            missing_field: None,
            name: "n".to_owned(),
            is_desc: false,
            mode: None,
            missing: Missing::Last,
        }],
        keys_last: true,
    }
}

async fn write(bed: &mut Bed, random: &mut Random, count: usize) {
    for _ in 0..count {
        let key = random.key();
        let cells = (random.below(6) > 0).then(|| random.cells());
        bed.write(key, cells).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_what_a_look_at_each_row_finds() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x1234_5678_9abc);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    write(&mut bed, &mut random, 120).await;
    bed.index().await;
    // While rows are brought in.
    write(&mut bed, &mut random, 60).await;
    bed.built().await;
    compare(&bed, &mut random, 60).await;
    excluded(&bed, &mut random).await;
    for _ in 0..6 {
        // Each search sees what was answered before it.
        write(&mut bed, &mut random, 8).await;
        compare(&bed, &mut random, 3).await;
    }
    bed = bed.reopen(folder.path()).await;
    compare(&bed, &mut random, 20).await;
    write(&mut bed, &mut random, 20).await;
    compare(&bed, &mut random, 20).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_does_not_fit_in_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::with_memory(folder.path(), 4_000);
    bed.create().await;
    bed.index().await;
    write(&mut bed, &mut Random(5), 60).await;
    let table = bed.table().await;
    let asked = |limit| search(Query::All, Some(by_number()), limit);
    for _ in 0..3 {
        let many = bed
            .searches
            .search::<Vec<FoundRow>>(&table, INDEX, asked(90));
        assert_eq!(many.await, Err(Error::Busy));
        // What it has held is given back.
        assert_eq!(bed.search(asked(1)).await.rows.len(), 1);
    }
    assert_eq!(bed.searches.inner.memory.used(), 0);
    bed.close().await;
}

/// How many indexes were made anew since the directory was opened.
pub(super) fn rebuilds(bed: &Bed) -> u64 {
    count(bed, "tideline_search_rebuilds_total ")
}

fn failures(bed: &Bed) -> u64 {
    count(bed, "tideline_search_failures_total ")
}

fn count(bed: &Bed, name: &str) -> u64 {
    let text = bed.partitions.metrics().render();
    let count = text.lines().find_map(|line| line.strip_prefix(name));
    count.unwrap().parse().unwrap()
}

/// The longest file of this kind.
fn longest(files: &Path, kind: &str) -> PathBuf {
    let paths = fs::read_dir(files)
        .unwrap()
        .map(|file| file.unwrap().path());
    let of_kind = paths.filter(|path| path.extension().is_some_and(|own| own == kind));
    of_kind
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

/// Bends a byte in the middle, in place.
fn bend(path: &Path) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[byte[0] ^ 1], middle).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_damaged_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(77);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    write(&mut bed, &mut random, 50).await;
    compare(&bed, &mut random, 2).await;
    let index = bed.table().await.search_indexes[0].id;
    let files = bed.files().await;
    let meta = files.join("meta.json");
    let in_meta = |from: &str, to: &dyn Fn(&str) -> String| {
        let text = fs::read_to_string(&meta).unwrap();
        let (before, rest) = text.split_once(from).unwrap();
        let ends = rest.find([',', '}']).unwrap();
        let bent = format!("{before}{from}{}{}", to(&rest[..ends]), &rest[ends..]);
        assert_ne!(text, bent);
        fs::write(&meta, bent).unwrap();
    };
    let history = bed.partitions.history();
    let damages: [(&dyn Fn(), u64); 9] = [
        // The control.
        (&|| {}, 0),
        (&|| bend(&longest(&files, "pos")), 1),
        (&|| bend(&longest(&files, "fast")), 1),
        (&|| fs::remove_file(longest(&files, "idx")).unwrap(), 1),
        (
            &|| {
                let commit = fs::read(&meta).unwrap();
                fs::write(&meta, &commit[..commit.len() / 2]).unwrap();
            },
            1,
        ),
        (
            &|| in_meta(r#"\"position\":"#, &|digits| format!("9{digits}")),
            1,
        ),
        (
            &|| in_meta(r#""max_doc":"#, &|digits| format!("{digits}0")),
            1,
        ),
        (
            &|| {
                // Whole, but of a log that was longer.
                let text = fs::read_to_string(&meta).unwrap();
                let mut metas: serde_json::Value = serde_json::from_str(&text).unwrap();
                let payload = metas["payload"].as_str().unwrap();
                let mut place = Place::read(payload, index, history).unwrap().unwrap();
                for reached in place.partitions.values_mut() {
                    reached.position += 1_000;
                }
                metas["payload"] = place.payload().into();
                fs::write(&meta, metas.to_string()).unwrap();
            },
            1,
        ),
        // That is none that was made before.
        (&|| fs::remove_file(&meta).unwrap(), 0),
    ];
    for (number, (damage, anew)) in damages.into_iter().enumerate() {
        let rows = bed.rows.clone();
        bed.close().await;
        damage();
        bed = Bed::open(folder.path());
        bed.rows = rows;
        compare(&bed, &mut random, 3).await;
        assert_eq!(rebuilds(&bed), anew, "damage {number}");
    }
    // Files are bent under a search, which fails.
    bend(&longest(&files, "pos"));
    let running = bed.searches.running(index).unwrap();
    let seen = Arc::clone(&running.seen.borrow());
    seen.0.as_ref().unwrap().snapshot.fail();
    let began = Instant::now();
    while rebuilds(&bed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    compare(&bed, &mut random, 3).await;
    // One that is ended leaves nothing.
    bed.tables
        .delete_search_index(super::bed::TABLE, INDEX)
        .await
        .unwrap();
    bed.close().await;
    let bed = Bed::open(folder.path());
    while files.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_ended_under_writes_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(3);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    for _ in 0..6 {
        bed.index().await;
        write(&mut bed, &mut random, 20).await;
        let files = bed.files().await;
        bed.search(search(Query::All, None, 1)).await;
        write(&mut bed, &mut random, 20).await;
        let (table, all) = (bed.table().await, search(Query::All, None, 1));
        let searched = bed.searches.search::<Vec<FoundRow>>(&table, INDEX, all);
        let ended = bed.tables.delete_search_index(super::bed::TABLE, INDEX);
        let (searched, ended) = tokio::join!(searched, ended);
        ended.unwrap();
        if let Err(error) = searched {
            assert!(matches!(error, Error::Search(_)), "{error:?}");
        }
        while files.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(failures(&bed), 0);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_goes_on_through_another_number_of_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(9);
    let mut bed = Bed::of(folder.path(), 4);
    bed.create().await;
    bed.index().await;
    for partitions in [1, 4, 2] {
        write(&mut bed, &mut random, 20).await;
        compare(&bed, &mut random, 1).await;
        assert_eq!(rebuilds(&bed), 0, "before {partitions}");
        let rows = bed.rows.clone();
        bed.close().await;
        bed = Bed::of(folder.path(), partitions);
        bed.rows = rows;
        compare(&bed, &mut random, 1).await;
        assert_eq!(rebuilds(&bed), 0, "{partitions} partitions");
    }
    bed.close().await;
}
