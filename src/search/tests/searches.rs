//! What searches find, against a plain look at each row.
//!
//! Owns: the comparison, under writes, while an index is built and after a restart. Must not: assert on time.

use tideline_model::search::{Missing, Query, Sort, Sorter};

use super::bed::{Bed, INDEX, search};
use super::plain::Row;
use super::random::Random;

/// The keys that a query finds, by looking; in the order of a sort by one field.
fn expected(bed: &Bed, query: &Query, sort: &Sort) -> Vec<(String, i64)> {
    let found = bed.rows.iter().filter_map(|(key, cells)| {
        let row = Row {
            number: key.1,
            cells,
        };
        row.is_found(query)
            .then(|| (row.number(name(sort)), key.clone()))
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
async fn an_index_that_is_damaged_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(77);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    write(&mut bed, &mut random, 50).await;
    compare(&bed, &mut random, 2).await;
    let table = bed.table().await;
    let files = folder
        .path()
        .join("search")
        .join(table.search_indexes[0].id.0.to_string());
    let rows = bed.rows.clone();
    bed.close().await;
    for file in std::fs::read_dir(&files).unwrap() {
        let path = file.unwrap().path();
        if path
            .extension()
            .is_some_and(|kind| kind == "idx" || kind == "fast")
        {
            std::fs::write(path, b"no index").unwrap();
        }
    }
    bed = Bed::open(folder.path());
    bed.rows = rows;
    compare(&bed, &mut random, 3).await;
    // One that is ended leaves nothing.
    bed.tables
        .delete_search_index(super::bed::TABLE, INDEX)
        .await
        .unwrap();
    bed.close().await;
    let bed = Bed::open(folder.path());
    while files.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    bed.close().await;
}
