//! The image as its users see it: flush, reopen, snapshots, long keys, wide rows, bounds.
//!
//! Owns: tests of single behaviours; `schedules` holds the property test over merges, `damage` what
//! breaks, `salvage` what is left then. Promises:
//! quick. Must not: assert on time.

mod copy;
mod damage;
mod formats;
mod measure;
mod salvage;
mod schedules;
mod toy;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use bytes::Bytes;

use super::{Entry, Error, Image, Options};
use tideline_base::ids::Position;
use toy::{Model, Toy, between, cell, delta, get, put, range, tombstone};

/// Slices and parts so small that every flush and merge takes many.
fn tiny() -> Options {
    Options {
        map_bytes: 1 << 30,
        part_bytes_max: 6_000,
        slice_bytes: 2_500,
        slice_rows: 9,
        fan_in: 2,
        survey_rest_ms: 0,
        ..Options::default()
    }
}

fn open(dir: &Path, options: Options) -> Image {
    Image::open(dir, options, Toy::rules()).unwrap()
}

/// Flushes rows as the next position.
fn flush(image: &Image, model: &mut Model, rows: BTreeMap<Vec<u8>, Entry>) {
    for (key, entry) in &rows {
        model.apply(key, entry);
    }
    let from = image.covered();
    let mut entries = rows
        .into_iter()
        .map(|(key, entry)| (Bytes::from(key), entry));
    image
        .flush(from, from.next(), &mut entries, &mut || {})
        .unwrap();
}

fn check(image: &Image, model: &Model, now_ms: u64) {
    let snapshot = image.snapshot().unwrap();
    check_snapshot(&snapshot, model, now_ms);
}

fn check_snapshot(snapshot: &super::Snapshot, model: &Model, now_ms: u64) {
    let visible = model.visible(now_ms);
    for key in model.keys() {
        assert_eq!(
            get(snapshot, key, now_ms).as_ref(),
            visible.get(key),
            "key {}",
            key.escape_ascii()
        );
    }
    let all = range(snapshot, Bound::Unbounded, Bound::Unbounded, false, now_ms);
    assert_eq!(all, visible);
}

/// Keys that are hard to keep in order: prefixes of each other, with zeros, around 500 bytes, sharing 500 bytes.
fn hard_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for length in [1, 2, 3, 499, 500, 501, 502, 511, 512, 2_000, 5_000] {
        for byte in [0, 1, b'a', 0xff] {
            keys.push(vec![byte; length]);
            let mut key = vec![b'a'; length];
            *key.last_mut().unwrap() = byte;
            keys.push(key.clone());
            key.push(byte);
            keys.push(key);
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

#[test]
fn rows_come_back_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    let image = open(dir.path(), tiny());
    assert_eq!(image.covered(), Position::ZERO);
    for round in 0..3u8 {
        let rows = (0..100u32)
            .filter(|row| row % 3 != u32::from(round))
            .map(|row| {
                let entry = match (row + u32::from(round)) % 5 {
                    0 => tombstone(),
                    1 => delta(&cell(round, &[round; 30])),
                    _ => put(&cell(9, &[round; 100])),
                };
                (format!("k{row:05}").into_bytes(), entry)
            })
            .collect();
        flush(&image, &mut model, rows);
        check(&image, &model, 0);
    }
    drop(image);
    let image = open(dir.path(), tiny());
    assert_eq!(image.covered(), Position(3));
    check(&image, &model, 0);
    let pressure = image.pressure();
    assert_eq!(pressure.level0_runs, 3);
    assert!(pressure.bytes_used > 0);
}

#[test]
fn a_flush_starts_where_the_image_ends_and_an_empty_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    let mut nothing = std::iter::empty();
    image
        .flush(Position(0), Position(5), &mut nothing, &mut || {})
        .unwrap();
    assert_eq!(image.covered(), Position(5));
    let refused = image.flush(Position(4), Position(9), &mut nothing, &mut || {});
    assert!(matches!(
        refused,
        Err(Error::NotNext {
            covered: 5,
            from: 4
        })
    ));
    let mut falling = ["b", "a"]
        .into_iter()
        .map(|key| (Bytes::from(key), tombstone()));
    let refused = image.flush(Position(5), Position(9), &mut falling, &mut || {});
    assert!(matches!(refused, Err(Error::BadKey(_))), "{refused:?}");
    assert_eq!(image.covered(), Position(5));
}

/// As a disk that was full, or a power cut, left it.
#[test]
fn an_image_whose_making_was_cut_off_is_made_anew() {
    for bytes in [0, 1, 4_096, 5_000, 8_191, 8_192] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data.mdb"), vec![0; bytes]).unwrap();
        assert!(!Image::is_there(dir.path()).unwrap(), "{bytes}");
        drop(open(dir.path(), Options::default()));
        assert!(Image::is_there(dir.path()).unwrap(), "{bytes}");
        drop(open(dir.path(), Options::default()));
    }
}

#[test]
fn an_open_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    let second = Image::open(dir.path(), tiny(), Toy::rules());
    assert!(matches!(second, Err(Error::Locked)));
    drop(image);
    open(dir.path(), tiny());
}

#[test]
fn hard_keys_keep_their_order_both_ways_between_all_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = tiny();
    options.part_bytes_max = 40_000;
    let image = open(dir.path(), options);
    let mut model = Model::default();
    let keys = hard_keys();
    // Every second one: the others are asked for but not there.
    let rows = keys.iter().step_by(2);
    let rows = rows
        .map(|key| (key.clone(), put(&cell(1, b"here"))))
        .collect();
    flush(&image, &mut model, rows);
    check(&image, &model, 0);
    let snapshot = image.snapshot().unwrap();
    let visible = model.visible(0);
    let expected = |from: Bound<&[u8]>, to: Bound<&[u8]>| {
        let rows = visible.iter().filter(|(key, _)| between(key, from, to));
        rows.map(|(key, cells)| (key.clone(), cells.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    for (at, key) in keys.iter().enumerate() {
        let found = get(&snapshot, key, 0).is_some();
        assert_eq!(found, visible.contains_key(key));
        let other = &keys[(at * 7 + 3) % keys.len()];
        let (low, high) = (key.min(other), key.max(other));
        for from in [Bound::Included(&low[..]), Bound::Excluded(&low[..])] {
            for to in [
                Bound::Included(&high[..]),
                Bound::Excluded(&high[..]),
                Bound::Unbounded,
            ] {
                for backward in [false, true] {
                    let found = range(&snapshot, from, to, backward, 0);
                    assert_eq!(found, expected(from, to));
                    let below = range(&snapshot, Bound::Unbounded, from, backward, 0);
                    assert_eq!(below, expected(Bound::Unbounded, from));
                }
            }
        }
    }
}

#[test]
fn values_of_every_size_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    let mut model = Model::default();
    let sizes = [
        0, 1, 1_000, 1_900, 2_000, 2_030, 2_100, 4_000, 4_076, 4_100, 8_000, 16_000, 16_384,
        17_000, 66_000, 262_144, 4_194_304,
    ];
    for odd in [0, 1] {
        let rows = sizes.iter().map(|&size| {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let entry = match size % 3 {
                0 => delta(&cell(odd, &bytes)),
                _ => put(&cell(odd, &bytes)),
            };
            (format!("{odd}{size:010}").into_bytes(), entry)
        });
        let rows = rows.collect();
        flush(&image, &mut model, rows);
        check(&image, &model, 0);
    }
}
