//! Damage is found, and what was interrupted leaves nothing.
//!
//! Owns: tests that change the file behind the image's back, or look at it where others may not. Promises: each flips
//! one bit of something stored and expects a typed error, never another row. Must not: flip LMDB's own page structure,
//! which nothing here can guard (a truncated or torn tree page may end the process).

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use bytes::Bytes;

use super::super::{Error, Image, Options, Snapshot};
use super::toy::{Model, Toy, cell, put, range, tombstone};
use super::{check, check_snapshot, flush, open, tiny};
use crate::ids::Position;

/// Flips a bit in every place of the file where `what` stands; how many there were.
fn flip(dir: &Path, what: &[u8]) -> usize {
    let path = dir.join("data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<usize> = bytes
        .windows(what.len())
        .enumerate()
        .filter(|(_, window)| *window == what)
        .map(|(at, _)| at)
        .collect();
    for &at in &places {
        bytes[at + what.len() / 2] ^= 0x10;
    }
    fs::write(&path, bytes).unwrap();
    places.len()
}

fn problems(image: &Image) -> usize {
    let mut told = 0;
    let verified = image.verify(&mut |_| told += 1).unwrap();
    assert_eq!(verified.problems, told);
    told as usize
}

fn get(snapshot: &Snapshot, key: &[u8]) -> Result<(), Error> {
    snapshot.get(key, &mut |_| ControlFlow::Continue(()))
}

/// In the middle of a part, so that the catalog does not name it as a bound.
fn long_key() -> Vec<u8> {
    [b"row010", &[b'l'; 600][..], b"end of a long key"].concat()
}

fn filled(dir: &Path) {
    let image = open(dir, tiny());
    let mut model = Model::default();
    let mut rows: BTreeMap<_, _> = (0..50)
        .map(|row| {
            (
                format!("row{row:03}").into_bytes(),
                put(&cell(0, &[row; 40])),
            )
        })
        .collect();
    rows.insert(b"row020".to_vec(), put(&cell(0, b"a value to be damaged")));
    let mut wide = vec![3; 50_000];
    wide[30_000..30_021].copy_from_slice(b"somewhere in a piece.");
    rows.insert(b"row030".to_vec(), put(&cell(1, &wide)));
    rows.insert(long_key(), put(&cell(0, b"long")));
    flush(&image, &mut model, rows);
    check(&image, &model, 0);
    assert_eq!(problems(&image), 0);
}

#[test]
fn a_flipped_bit_in_a_value_a_key_or_a_piece_is_found() {
    let long = long_key();
    let cases: [(&[u8], &[u8]); 3] = [
        (b"a value to be damaged", b"row020"),
        (b"somewhere in a piece.", b"row030"),
        (b"end of a long key", &long),
    ];
    for (what, key) in cases {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        assert!(flip(dir.path(), what) > 0);
        let image = open(dir.path(), tiny());
        assert!(problems(&image) > 0);
        let snapshot = image.snapshot().unwrap();
        let failed = get(&snapshot, key);
        assert!(matches!(failed, Err(Error::Damaged(_))), "{failed:?}");
        let mut cursors = snapshot
            .cursors(Bound::Unbounded, Bound::Unbounded, false)
            .unwrap();
        let rows = cursors.iter_mut().flatten();
        assert!(
            rows.into_iter()
                .any(|row| matches!(row, Err(Error::Damaged(_))))
        );
    }
}

#[test]
fn a_damaged_row_stops_a_merge_and_leaves_its_inputs() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    flip(dir.path(), b"a value to be damaged");
    let image = open(dir.path(), tiny());
    let rows = BTreeMap::from([(b"row001".to_vec(), tombstone())]);
    flush(&image, &mut Model::default(), rows);
    let failed = (0..100).find_map(|_| image.compact(1, &|_| None).err());
    assert!(matches!(failed, Some(Error::Damaged(_))), "{failed:?}");
    let snapshot = image.snapshot().unwrap();
    get(&snapshot, b"row000").unwrap();
    assert!(matches!(get(&snapshot, b"row020"), Err(Error::Damaged(_))));
    // Again and again: nothing leaks, nothing moves on.
    let left = image.pressure().free_slots;
    for _ in 0..5 {
        assert!(image.compact(1, &|_| None).is_err());
    }
    while image
        .inner
        .clear_one(&mut image.inner.lock().unwrap().slots)
        .unwrap()
    {}
    assert_eq!(image.pressure().free_slots, left);
}

#[test]
fn a_damaged_filter_is_ignored_and_told() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let image = open(dir.path(), tiny());
    let catalog = image.inner.catalog();
    let part = catalog.parts().next().unwrap();
    let stored = {
        let txn = image.inner.store.read().unwrap();
        let key = super::super::filter::chunk_key(0);
        part.side_db.get(&txn, &key).unwrap().unwrap().to_vec()
    };
    drop(image);
    assert!(flip(dir.path(), &stored) > 0);
    let image = open(dir.path(), tiny());
    assert_eq!(problems(&image), 1);
    let snapshot = image.snapshot().unwrap();
    let (low, high) = (
        Bound::Included(&b"row"[..]),
        Bound::Included(&b"row999"[..]),
    );
    assert_eq!(range(&snapshot, low, high, false, 0).len(), 51);
}

#[test]
fn a_damaged_or_foreign_catalog_is_refused() {
    for (key, place) in [(&b"version"[..], 5), (b"catalog", 5), (b"version", 3)] {
        let dir = tempfile::tempdir().unwrap();
        let image = open(dir.path(), tiny());
        let mut wtxn = image.inner.store.write().unwrap();
        let db = image.inner.store.catalog;
        let mut stored = db.get(&wtxn, key).unwrap().unwrap().to_vec();
        stored[place] ^= 7;
        let foreign = place == 3;
        if foreign {
            let body = stored.len() - 4;
            let crc = crc32c::crc32c(&stored[..body]).to_be_bytes();
            stored[body..].copy_from_slice(&crc);
        }
        db.put(&mut wtxn, key, &stored).unwrap();
        wtxn.commit().unwrap();
        drop(image);
        match Image::open(dir.path(), tiny(), Toy::rules()) {
            Err(Error::Format { found: 6, known: 1 }) if foreign => {}
            Err(Error::Damaged(_)) if !foreign => {}
            other => panic!("{:?}", other.err()),
        }
    }
}

#[test]
fn an_interrupted_flush_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    let mut model = Model::default();
    let rows = BTreeMap::from([(b"stays".to_vec(), put(&cell(1, b"1")))]);
    flush(&image, &mut model, rows);
    let next_run = image.inner.catalog().next_run;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut slices = 0;
        let mut entries = (0..).map(|row: u32| {
            let key = Bytes::from(format!("gone{row:09}"));
            (key, put(&cell(1, &[1; 300])))
        });
        let mut crash = || {
            slices += 1;
            assert!(slices < 7, "as if the process ended here");
        };
        image.flush(Position(1), Position(2), &mut entries, &mut crash)
    }));
    assert!(caught.is_err());
    drop(image);
    let image = open(dir.path(), tiny());
    assert_eq!(image.covered(), Position(1));
    check(&image, &model, 0);
    assert!(image.inner.lock().unwrap().slots.dirty().is_some());
    while image.compact(1, &|_| None).unwrap().more {}
    assert!(image.inner.lock().unwrap().slots.dirty().is_none());
    assert!(
        image.inner.catalog().next_run > next_run,
        "numbers are never used again"
    );
    let rows = BTreeMap::from([(b"new".to_vec(), put(&cell(1, b"2")))]);
    flush(&image, &mut model, rows);
    check(&image, &model, 0);
    assert_eq!(problems(&image), 0);
}

#[test]
fn a_full_map_is_told_as_full_and_what_was_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        map_bytes: 1 << 20,
        ..tiny()
    };
    let image = open(dir.path(), options);
    let mut model = Model::default();
    let rows = BTreeMap::from([(b"stays".to_vec(), put(&cell(1, b"1")))]);
    flush(&image, &mut model, rows);
    let mut entries = (0..).map(|row: u32| {
        let key = Bytes::from(format!("much{row:09}"));
        (key, put(&cell(1, &[1; 900])))
    });
    let full = image.flush(Position(1), Position(2), &mut entries, &mut || {});
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    check(&image, &model, 0);
    assert_eq!(image.covered(), Position(1));
}

#[test]
fn readers_beside_flush_and_merges_see_whole_states() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    // Each flush writes all rows with the same value: a reader must never see two values.
    let rows = |value: u8| {
        let rows = (0..40u8).map(move |row| (vec![b'r', row], put(&cell(0, &[value; 20]))));
        rows.collect::<BTreeMap<_, _>>()
    };
    flush(&image, &mut Model::default(), rows(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for value in 1..40 {
                flush(&image, &mut Model::default(), rows(value));
                for _ in 0..4 {
                    image.compact(1, &|_| None).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            let snapshot = image.snapshot().unwrap();
            let value = u8::try_from(snapshot.covered().0 - 1).unwrap();
            let mut model = Model::default();
            for (key, entry) in rows(value) {
                model.apply(&key, &entry);
            }
            check_snapshot(&snapshot, &model, 0);
        }
    });
}
