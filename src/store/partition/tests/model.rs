//! The partition against a plain map: random writes, refusals, flushes, merges and reopenings must give what a
//! `BTreeMap` gives; and readers beside the writer never see half a batch.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use proptest::prelude::*;

use crate::image::{DropContext, Pieces, Verdict};
use crate::partition::*;
use tideline_base::entry::EntryKind;

/// A toy row: pairs of (column, value), sorted. A delta sets columns; value 0 removes one.
pub(in crate::partition) struct ToyRules;

fn apply(row: &[u8], delta: &[u8], keep_zero: bool) -> Vec<u8> {
    let mut columns: BTreeMap<u8, u8> = row.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    columns.extend(delta.chunks(2).map(|pair| (pair[0], pair[1])));
    columns
        .into_iter()
        .filter(|(_, v)| keep_zero || *v != 0)
        .flat_map(|(c, v)| [c, v])
        .collect()
}

impl Rules for ToyRules {
    fn compose(&self, _key: &[u8], older: &Entry, newer: &Entry) -> Entry {
        let is_delta = older.kind == EntryKind::Delta;
        let value = Bytes::from(apply(&older.value, &newer.value, is_delta));
        Entry {
            kind: if is_delta {
                EntryKind::Delta
            } else {
                EntryKind::Put
            },
            value,
        }
    }

    fn verdict(&self, _key: &[u8], _entry: &Entry, _context: &DropContext<'_>) -> Verdict {
        Verdict::Keep
    }

    fn split(&self, _value: &Bytes, _piece_bytes_max: usize) -> Option<Pieces> {
        None
    }

    fn join(&self, _directory: &Bytes, _pieces: &[Bytes]) -> Result<Bytes, &'static str> {
        Err("toy rows are never cut")
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..1)
    }

    fn filter_key(&self, _key: &[u8]) -> bool {
        true
    }

    /// Most keys are their own partition keys; some first bytes are for what is not.
    fn owner(&self, key: &[u8]) -> Option<Owner> {
        match key.first() {
            Some(&OF_EACH) => Some(Owner::Each),
            Some(&OF_NOBODY) => Some(Owner::Nobody),
            Some(&UNFINISHED) => Some(Owner::Unfinished),
            Some(&UNKNOWN) => None,
            _ => Some(Owner::Hash(hash(key))),
        }
    }

    fn unite(&self, _key: &[u8], rows: &[Option<Bytes>]) -> Option<Bytes> {
        rows.iter().flatten().max().cloned()
    }
}

pub(in crate::partition) const OF_EACH: u8 = 0xf0;
pub(in crate::partition) const OF_NOBODY: u8 = 0xf1;
pub(in crate::partition) const UNFINISHED: u8 = 0xf2;
pub(in crate::partition) const UNKNOWN: u8 = 0xf3;

#[derive(Clone, Debug)]
enum Write {
    Put(u8, Vec<(u8, u8)>),
    Delta(u8, Vec<(u8, u8)>),
    Delete(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// Closures that come together.
    Submit(Vec<Closure>),
    Rotate,
    Settle,
    Reopen,
}

/// What a closure writes; `false` = it refuses after that.
type Closure = (Vec<Write>, bool);

fn write() -> impl Strategy<Value = Write> {
    let columns = || prop::collection::vec((0..4u8, 0..5u8), 0..4);
    prop_oneof![
        (0..12u8, columns()).prop_map(|(key, columns)| Write::Put(key, columns)),
        (0..12u8, columns()).prop_map(|(key, columns)| Write::Delta(key, columns)),
        (0..12u8).prop_map(Write::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let closure = (
        prop::collection::vec(write(), 1..5),
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        12 => prop::collection::vec(closure, 1..4).prop_map(Step::Submit),
        3 => Just(Step::Rotate),
        1 => Just(Step::Settle),
        1 => Just(Step::Reopen),
    ]
}

fn key_of(number: u8) -> Vec<u8> {
    // Some keys are prefixes of others, some are longer than LMDB's 511 bytes.
    match number % 3 {
        0 => vec![number / 3],
        1 => vec![number / 3; 2],
        _ => vec![number / 3; 600],
    }
}

fn flat(columns: &[(u8, u8)]) -> Vec<u8> {
    apply(
        &columns
            .iter()
            .flat_map(|&(c, v)| [c, v])
            .collect::<Vec<_>>(),
        &[],
        true,
    )
}

fn row(columns: &[(u8, u8)]) -> Vec<u8> {
    apply(&flat(columns), &[], false)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply_to_model(model: &mut Model, write: &Write) {
    match write {
        Write::Put(key, columns) => {
            model.insert(key_of(*key), row(columns));
        }
        Write::Delta(key, columns) => {
            let older = model.entry(key_of(*key)).or_default();
            *older = apply(older, &flat(columns), false);
        }
        Write::Delete(key) => {
            model.remove(&key_of(*key));
        }
    }
}

fn apply_to_txn(txn: &mut Txn<'_>, write: &Write) {
    match write {
        Write::Put(key, columns) => txn.put(key_of(*key), row(columns)),
        Write::Delta(key, columns) => txn.delta(key_of(*key), flat(columns)),
        Write::Delete(key) => txn.delete(key_of(*key)),
    };
}

fn open(dir: &Path) -> Partitions {
    let options = Options {
        memtable_bytes: 4 << 10,
        ..Options::default()
    };
    Partitions::open(dir, options, Arc::new(ToyRules), Arc::new(Clock::system())).expect("opens")
}

fn rows(
    view: &View,
    direction: Direction,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    view.range(from, to, direction)
        .map(|row| {
            row.map(|(key, value)| (key.to_vec(), value.to_vec()))
                .expect("no damage")
        })
        .collect()
}

fn compare(view: &View, model: &Model) {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(rows(view, Direction::Forward, all.0, all.1), expected);
    let mut reversed = expected.clone();
    reversed.reverse();
    assert_eq!(rows(view, Direction::Backward, all.0, all.1), reversed);
    let (low, high) = (key_of(4), key_of(8));
    let expected: Vec<_> = model
        .range::<[u8], _>((Bound::Excluded(&low[..]), Bound::Included(&high[..])))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert_eq!(
        rows(
            view,
            Direction::Forward,
            Bound::Excluded(&low),
            Bound::Included(&high)
        ),
        expected
    );
    for number in 0..12 {
        let key = key_of(number);
        assert_eq!(
            view.get(&key).expect("no damage").map(|v| v.to_vec()),
            model.get(&key).cloned()
        );
        assert!(!view.lacks(&[&key[..]])[0] || !model.contains_key(&key));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_partition_is_a_sorted_map(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let home = tempfile::tempdir().expect("a folder");
        let mut partitions = open(home.path());
        let at = PartitionId(0);
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Submit(bundle) => {
                    let mut expected = Vec::new();
                    for (writes, stands) in &bundle {
                        let before = model.clone();
                        writes.iter().for_each(|write| apply_to_model(&mut model, write));
                        let seen: Vec<_> = model.clone().into_iter().collect();
                        expected.push(if *stands { Ok(seen) } else { Err(SubmitError::Rejected(seen)) });
                        if !stands {
                            model = before;
                        }
                    }
                    let run = |(writes, stands): &mut Closure, txn: &mut Txn<'_>| {
                        for write in writes {
                            apply_to_txn(txn, write);
                        }
                        let all: Vec<_> = txn
                            .range(Bound::Unbounded, Bound::Unbounded, Direction::Forward)
                            .map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("no damage"))
                            .collect();
                        if *stands { Ok(all) } else { Err(all) }
                    };
                    let submit = || -> Vec<_> {
                        let queued = partitions.submit_all(Purpose::Adds, at, 0, bundle.clone(), run);
                        let answers = runtime.block_on(queued).into_iter();
                        answers.map(|answer| answer.map(|(_, seen)| seen)).collect()
                    };
                    let mut seen = submit();
                    // Nothing was let in while compaction is behind.
                    while seen[0] == Err(SubmitError::Failed(StoreError::Busy)) {
                        partitions.settle(at);
                        seen = submit();
                    }
                    prop_assert_eq!(seen, expected);
                }
                Step::Rotate => partitions.rotate(at),
                Step::Settle => partitions.settle(at),
                Step::Reopen => {
                    runtime.block_on(partitions.close());
                    drop(partitions);
                    partitions = open(home.path());
                }
            }
            compare(&partitions.view(at).expect("a view"), &model);
        }
        runtime.block_on(partitions.close());
    }
}

#[test]
fn readers_never_see_half_a_batch() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let home = tempfile::tempdir().expect("a folder");
    let partitions = open(home.path());
    let at = PartitionId(0);
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (partitions, is_over) = (partitions.clone(), Arc::clone(&is_over));
            let read = move || {
                let (mut views, mut newest) = (0u64, 0u64);
                while !is_over.load(Ordering::Relaxed) {
                    let view = partitions.view(at).expect("a view");
                    let got = |key: &[u8]| view.get(key).expect("no damage");
                    let (a, z) = (got(b"a"), got(b"z"));
                    assert_eq!(a, z, "half of a batch at {}", view.position());
                    let all = rows(
                        &view,
                        Direction::Forward,
                        Bound::Unbounded,
                        Bound::Unbounded,
                    );
                    let counters: Vec<_> = all.iter().filter(|(k, _)| k.len() == 1).collect();
                    assert!(counters.windows(2).all(|pair| pair[0].1 == pair[1].1));
                    let now = a.map_or(0, |a| {
                        u64::from_be_bytes(a[..].try_into().expect("8 bytes"))
                    });
                    assert!(now >= newest, "a later view shows an earlier state");
                    (newest, views) = (now, views + 1);
                }
                views
            };
            std::thread::Builder::new().spawn(read).expect("a thread")
        })
        .collect();
    for counter in 1..2_000u64 {
        let value = counter.to_be_bytes().to_vec();
        let write = || {
            let value = value.clone();
            partitions.submit::<_, (), _>(Purpose::Adds, at, 0, move |txn| {
                txn.put(&b"a"[..], value.clone());
                txn.put(format!("filler {counter}").into_bytes(), vec![0; 40]);
                txn.put(&b"z"[..], value);
                Ok(())
            })
        };
        while let Err(error) = runtime.block_on(write()) {
            assert_eq!(error, SubmitError::Failed(StoreError::Busy));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().expect("no reader fails") > 0);
    }
    runtime.block_on(partitions.close());
}
