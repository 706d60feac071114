//! Every schedule of merges shows the same visible rows.
//!
//! Owns: random histories of flushes, merge slices, reopenings, interrupted flushes, time passing and rows being marked
//! as gone, against the plain model; snapshots held across merges. Promises: slices and parts are so small that jobs
//! stop everywhere. Must not: know how the image chooses its merges.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use proptest::prelude::*;

use super::super::{Entry, Image, Options, Snapshot};
use super::toy::{Cells, Model, Toy, between, decode, delta, get, noise, put, range, tombstone};
use super::{check_snapshot, flush, hard_keys, open, tiny};

#[derive(Clone, Debug)]
enum Step {
    Flush(BTreeMap<Vec<u8>, Entry>),
    /// A flush that stops after so many rows, as by a crash.
    Interrupted(usize),
    Compact(usize),
    Reopen,
    Pass(u32),
    Hold,
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    let hard = hard_keys();
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 1..4),
        4 => (0..200u16).prop_map(|row| format!("row{row:04}").into_bytes()),
        1 => prop::sample::select(hard),
    ]
}

fn cells() -> impl Strategy<Value = Cells> {
    let expiry = prop_oneof![3 => Just(0u32), 1 => 1..2_000u32];
    let size = prop_oneof![20 => 0..200usize, 2 => 1_900..9_000usize, 1 => 16_000..60_000usize];
    let value =
        (expiry, size, any::<u8>()).prop_map(|(expiry, size, byte)| (expiry, vec![byte; size]));
    prop::collection::btree_map(0..4u8, value, 0..3)
}

fn entries() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => cells().prop_map(|cells| put(&cells)),
        3 => cells().prop_map(|cells| delta(&cells)),
        1 => Just(tombstone()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rows = prop::collection::btree_map(keys(), entries(), 0..60);
    let step = prop_oneof![
        6 => rows.prop_map(Step::Flush),
        1 => (0..30usize).prop_map(Step::Interrupted),
        6 => (1..25usize).prop_map(Step::Compact),
        2 => Just(Step::Reopen),
        2 => (1..500u32).prop_map(Step::Pass),
        2 => Just(Step::Hold),
    ];
    prop::collection::vec(step, 1..40)
}

struct Run {
    image: Option<Image>,
    model: Model,
    now_ms: u64,
    held: Vec<(Snapshot, Model)>,
    options: Options,
}

impl Run {
    fn image(&self) -> &Image {
        self.image.as_ref().unwrap()
    }

    fn compact(&self, slices: usize) -> bool {
        for _ in 0..slices {
            let newest = |key: &[u8]| read(&self.image().snapshot().unwrap(), key);
            if !self.image().compact(self.now_ms, &newest).unwrap().more {
                return false;
            }
        }
        true
    }

    fn check(&self) {
        let snapshot = self.image().snapshot().unwrap();
        check_snapshot(&snapshot, &self.model, self.now_ms);
        let (low, high) = (
            Bound::Excluded(&b"a\0"[..]),
            Bound::Included(&b"row0100"[..]),
        );
        let rows = |from, to| {
            let visible = self.model.visible(self.now_ms).into_iter();
            let inside = visible.filter(|(key, _)| between(key, from, to));
            inside.collect::<BTreeMap<_, _>>()
        };
        for (from, to) in [
            (low, high),
            (Bound::Unbounded, high),
            (low, Bound::Unbounded),
        ] {
            for backward in [false, true] {
                let found = range(&snapshot, from, to, backward, self.now_ms);
                assert_eq!(found, rows(from, to));
            }
        }
        for (snapshot, model) in &self.held {
            check_snapshot(snapshot, model, self.now_ms);
        }
        let mut problems = Vec::new();
        self.image()
            .verify(&mut |problem| problems.push(problem))
            .unwrap();
        assert_eq!(problems, []);
    }
}

fn read(snapshot: &Snapshot, key: &[u8]) -> Option<Bytes> {
    let mut found = None;
    snapshot
        .get(key, &mut |entry| {
            found = Some(entry.value);
            ControlFlow::Break(())
        })
        .unwrap();
    found
}

fn interrupted(image: &Image, rows: usize) {
    let from = image.covered();
    let mut entries = (0..rows + 1).map(|row| {
        if row == rows {
            // A key that can't rise: the flush fails where a crash would have cut it.
            return (Bytes::from_static(b"\0"), tombstone());
        }
        let key = Bytes::from(format!("lost{row:06}"));
        (key, put(&super::cell(1, &[1; 300])))
    });
    let failed = image.flush(from, from.next(), &mut entries, &mut || {});
    assert!(rows == 0 || failed.is_err());
    if rows == 0 {
        assert!(failed.is_ok());
    }
}

fn walk(steps: Vec<Step>, options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run {
        image: Some(open(dir.path(), options.clone())),
        model: Model::default(),
        now_ms: 1,
        held: Vec::new(),
        options,
    };
    for step in steps {
        match step {
            Step::Flush(rows) => flush(run.image.as_ref().unwrap(), &mut run.model, rows),
            Step::Interrupted(rows) => interrupted(run.image(), rows + 1),
            Step::Compact(slices) => {
                run.compact(slices);
            }
            Step::Reopen => {
                run.held.clear();
                run.image = None;
                run.image = Some(open(dir.path(), run.options.clone()));
            }
            Step::Pass(ms) => {
                // What a held snapshot shows depends on the time too; their models are asked with the same time.
                run.now_ms += u64::from(ms);
            }
            Step::Hold => {
                if run.held.len() < 3 {
                    let snapshot = run.image().snapshot().unwrap();
                    run.held.push((snapshot, run.model.clone()));
                }
            }
        }
        run.check();
    }
    let ended = (0..10_000).any(|_| !run.compact(1));
    assert!(ended, "what a rewrite leaves asks for another one");
    run.check();
}

/// Each step of a history is several commits, so few cases by default: `PROPTEST_CASES=1000` and a `TMPDIR` in memory
/// for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None => 12,
    };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_schedule_shows_the_same_rows(steps in steps(), fan_in in 2..4usize) {
        walk(steps, Options { fan_in, ..tiny() });
    }
}

/// Rows whose first byte is a cell of the row `head` are marked as gone.
#[test]
fn what_is_marked_as_gone_goes_without_new_writes() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path(), tiny());
    let mut model = Model::default();
    for round in 0..4u8 {
        let rows = (0..100u32).map(|row| {
            let key = format!("{}{row:05}", ['g', 's'][row as usize % 2]);
            (key.into_bytes(), put(&super::cell(round, &[round; 50])))
        });
        let rows = rows.collect();
        flush(&image, &mut model, rows);
    }
    let gone = Cells::from([(b'g', (0, Vec::new()))]);
    flush(
        &image,
        &mut model,
        BTreeMap::from([(b"head".to_vec(), put(&gone))]),
    );
    let newest = |key: &[u8]| read(&image.snapshot().unwrap(), key);
    let mut idle = 0;
    while idle < 50 {
        idle += usize::from(!image.compact(1, &newest).unwrap().more);
    }
    let snapshot = image.snapshot().unwrap();
    let rows = range(&snapshot, Bound::Unbounded, Bound::Unbounded, false, 1);
    assert_eq!(rows.len(), 51, "50 of s and the head");
    assert!(decode(&read(&snapshot, b"head").unwrap()).contains_key(&b'g'));
    assert!(get(&snapshot, b"g00000", 1).is_none());
    let verified = image.verify(&mut |problem| panic!("{problem:?}")).unwrap();
    let (rows, tombstones) = verified.tables.iter().fold((0, 0), |(rows, tombs), table| {
        (rows + table.rows, tombs + table.tombstones)
    });
    assert!(rows < 220, "{rows} rows are left");
    assert_eq!(tombstones, 0);
}

#[test]
fn merges_leave_few_runs_and_clear_what_they_passed() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::open(
        dir.path(),
        Options {
            fan_in: 3,
            ..tiny()
        },
        Toy::rules(),
    )
    .unwrap();
    let mut model = Model::default();
    let mut most = 0;
    for round in 0..60u32 {
        let rows = (0..40u32).map(|row| {
            let key = format!("key{:05}", (row * 7919 + round * 104_729) % 100_000);
            (key.into_bytes(), put(&super::cell(1, &[1; 60])))
        });
        let rows = rows.collect();
        flush(&image, &mut model, rows);
        while image.compact(1, &|_| None).unwrap().more {}
        most = most.max(image.pressure().level0_runs);
    }
    assert!(most <= 3, "{most} runs of level 0");
    let verified = image.verify(&mut |problem| panic!("{problem:?}")).unwrap();
    assert!(verified.runs <= 8, "{} runs", verified.runs);
    let pressure = image.pressure();
    assert!(pressure.file_bytes < 4 * pressure.bytes_used + (1 << 20));
    check_snapshot(&image.snapshot().unwrap(), &model, 1);
}

#[test]
fn without_room_for_a_large_merge_there_are_small_ones() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        map_bytes: 10 << 20,
        fan_in: 4,
        ..Options::default()
    };
    let image = open(dir.path(), options);
    let mut model = Model::default();
    for round in 0..20u32 {
        let key = |row: u32| format!("key{:05}", row * 100 + round).into_bytes();
        let rows = (0..250).map(|row| {
            (
                key(row),
                put(&super::cell(1, &noise(row * 100 + round, 1_000))),
            )
        });
        flush(&image, &mut model, rows.collect());
    }
    let used = image.pressure().bytes_used;
    let (run, left) = (used / 20, (10 << 20) - used);
    // A merge needs three times its part.
    assert!(3 * 4 * run > left && 3 * 2 * run < left, "{run} {left}");
    assert_eq!(image.pressure().level0_runs, 20);
    while image.compact(1, &|_| None).unwrap().more {}
    let left = image.pressure().level0_runs;
    assert!(left < 4, "{left} runs of level 0 are left");
    check_snapshot(&image.snapshot().unwrap(), &model, 1);
}
