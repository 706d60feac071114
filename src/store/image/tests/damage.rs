//! Damage is found, and what was interrupted leaves nothing.
//!
//! Owns: tests that change the file behind the image's back, or look at it where others may not. Promises: each flips
//! bits of something stored, LMDB's own pages too, and expects a typed error, never another row. Must not: be the only
//! such tests: `tests/damage_pages.py` does the same to the server.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use bytes::Bytes;

use super::super::{Error, Image, Options, Snapshot};
use super::toy::{Model, Toy, cell, noise, put, range, tombstone};
use super::{check, check_snapshot, flush, open, tiny};
use tideline_base::ids::Position;

/// Flips a bit in every place of the file where `what` stands; how many there were.
pub(super) fn flip(dir: &Path, what: &[u8]) -> usize {
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

/// Several runs, long keys, pieces, a merge under way, slots to be cleared and free pages.
fn filled_well(dir: &Path) -> Model {
    let image = open(dir, tiny());
    let mut model = Model::default();
    for round in 0..4u8 {
        let mut rows: BTreeMap<_, _> = (0..60u8)
            .filter(|row| row % 4 != round)
            .map(|row| {
                (
                    format!("row{row:03}").into_bytes(),
                    put(&cell(0, &noise(u32::from(row), 190))),
                )
            })
            .collect();
        for tail in 0..12u8 {
            let key = [b"row030", &[b'l'; 560][..], &[tail, round]].concat();
            rows.insert(key, put(&cell(0, b"long")));
        }
        rows.insert(b"row031".to_vec(), put(&cell(1, &vec![round; 30_000])));
        flush(&image, &mut model, rows);
    }
    for _ in 0..5 {
        image.compact(1, &|_| None).unwrap();
    }
    check(&image, &model, 0);
    assert_eq!(problems(&image), 0);
    model
}

/// What one damaged file comes to: a refused opening, or how many keys could not be answered. Any wrong answer fails.
fn asked(dir: &Path, model: &Model, compactions: usize, what: &str) -> Result<usize, Error> {
    let image = Image::open(dir, tiny(), Toy::rules())?;
    let visible = model.visible(0);
    let ask = || {
        let mut failed = 0;
        let snapshot = image.snapshot().unwrap();
        for raw in model.keys() {
            let mut entries = Vec::new();
            let found = snapshot.get(raw, &mut |entry| {
                entries.push(entry);
                ControlFlow::Continue(())
            });
            match found {
                Ok(()) => {
                    let found = super::toy::fold(&entries, 0);
                    let key = raw.escape_ascii();
                    assert_eq!(found.as_ref(), visible.get(raw), "{what}, key {key}");
                }
                Err(_) => failed += 1,
            }
        }
        for backward in [false, true] {
            let bounds = (Bound::Unbounded, Bound::Unbounded);
            let Ok(cursors) = snapshot.cursors(bounds.0, bounds.1, backward) else {
                failed += 1;
                continue;
            };
            let mut found: BTreeMap<Vec<u8>, Vec<crate::image::Entry>> = BTreeMap::new();
            let mut is_whole = true;
            for row in cursors.into_iter().flatten() {
                match row {
                    Ok((key, entry)) => found.entry(key.to_vec()).or_default().push(entry),
                    Err(_) => is_whole = false,
                }
            }
            if is_whole {
                let rows = found.into_iter();
                let found: BTreeMap<_, _> = rows
                    .filter_map(|(key, entries)| Some((key, super::toy::fold(&entries, 0)?)))
                    .collect();
                assert_eq!(found, visible, "{what}, backward {backward}");
            } else {
                failed += 1;
            }
        }
        failed
    };
    let failed = ask();
    let verified = image.verify(&mut |_| ()).unwrap();
    // What merges skip may be whole afterwards, but nothing may be wrong.
    let mut turns = 0;
    while turns < compactions && image.compact(1, &|_| None).unwrap().more {
        turns += 1;
        assert!(turns < 500, "{what}: it does not come to rest");
    }
    if turns > 0 {
        ask();
    }
    assert!(
        failed == 0 || verified.problems > 0,
        "{what}: not found by a check"
    );
    Ok(failed)
}

/// Every page of the file is damaged in several ways.
#[test]
fn whatever_bit_is_flipped_no_answer_is_wrong() {
    let healthy = tempfile::tempdir().unwrap();
    let model = filled_well(healthy.path());
    let whole = fs::read(healthy.path().join("data.mdb")).unwrap();
    let pages = whole.len() / 4096;
    let (mut refused, mut failed) = (0, 0);
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        usize::try_from(chance >> 33).unwrap() % below
    };
    for page in 0..pages {
        for way in 0..4 {
            let mut bytes = whole.clone();
            let (at, bit) = (random([48, 4096, 160, 48][way]), random(8));
            bytes[page * 4096 + at] ^= 1 << bit;
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("data.mdb"), bytes).unwrap();
            let what = format!("bit {bit} of byte {at} of page {page}");
            // Merges take their time.
            let compactions = if page % 4 == 2 * way { usize::MAX } else { 0 };
            match asked(dir.path(), &model, compactions, &what) {
                Ok(keys) => failed += usize::from(keys > 0),
                Err(Error::Damaged(place)) => {
                    assert!(place.contains("data.mdb, page"), "{what}: {place}");
                    refused += 1;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(
        refused > 3 && failed > 10,
        "{refused} refused, {failed} failed of {pages} pages"
    );
}

#[test]
fn a_damaged_row_stops_a_merge_and_leaves_its_inputs() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    flip(dir.path(), b"a value to be damaged");
    let image = open(dir.path(), tiny());
    let rows = BTreeMap::from([(b"row001".to_vec(), tombstone())]);
    flush(&image, &mut Model::default(), rows);
    let mut told = Vec::new();
    let mut compact = || {
        let mut turns = 0;
        loop {
            let done = image.compact(1, &|_| None).unwrap();
            told.extend(done.damaged);
            turns += 1;
            assert!(turns < 200, "it does not come to rest: {told:?}");
            if !done.more {
                return told.clone();
            }
        }
    };
    // It says so once.
    for _ in 0..2 {
        let told = compact();
        assert!(
            told.len() == 1 && told[0].contains("block of rows from key row000"),
            "{told:#?}"
        );
    }
    let snapshot = image.snapshot().unwrap();
    get(&snapshot, b"row040").unwrap();
    assert!(matches!(get(&snapshot, b"row020"), Err(Error::Damaged(_))));
    // What is newer goes on being merged, and nothing leaks.
    let left = image.pressure().free_slots;
    for number in 0..20 {
        let key = format!("new{number:03}").into_bytes();
        let rows = BTreeMap::from([(key, put(&cell(0, b"new")))]);
        flush(&image, &mut Model::default(), rows);
        while image.compact(1, &|_| None).unwrap().more {}
    }
    assert!(image.pressure().level0_runs < 6);
    assert!(image.pressure().free_slots + 12 > left);
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
        let key = super::super::rows::filter::chunk_key(0);
        let side = image.inner.store.slot(part.side).unwrap();
        side.get(&txn, &key).unwrap().unwrap().to_vec()
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
            Err(Error::Format { found: 5, known: 2 }) if foreign => {}
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
