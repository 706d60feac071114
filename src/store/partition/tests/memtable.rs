//! The memtable by itself.
//!
//! Owns: what a reader sees at a position, walks both ways, sorting beside the writer, discarding. Promises: discarding
//! is held against a memtable that never had what was discarded. Must not: know log or image.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::memory::memtable::Memtable;
use super::ToyRules;
use crate::log::tests::frame_of;
use crate::partition::*;
use tideline_base::entry::{EntryKind, KeyedEntry};

/// Takes in a batch of puts.
fn insert(table: &Memtable, position: u64, rows: &[(&[u8], &[u8])]) {
    let kind = EntryKind::Put;
    let entries = rows
        .iter()
        .map(|&(key, value)| KeyedEntry { key, kind, value });
    table.insert(&frame_of(position, &entries.collect::<Vec<_>>()), &ToyRules);
}

fn filled() -> Memtable {
    let table = Memtable::new(Position::ZERO, 0, 0);
    // "cb" before "ca": a group that is out of order.
    let batches = [
        (1, vec![("a", "a1"), ("b", "b1"), ("cb", "cb1")]),
        (2, vec![("ca", "ca2")]),
        (3, vec![("b", "b3")]),
    ];
    for (position, rows) in batches {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, value)| (key.as_bytes(), value.as_bytes()))
            .collect();
        insert(&table, position, &rows);
    }
    table
}

fn walk(
    table: &Memtable,
    at: u64,
    direction: Direction,
    from: Bound<&str>,
    to: Bound<&str>,
) -> Vec<String> {
    table
        .cursor(
            from.map(str::as_bytes),
            to.map(str::as_bytes),
            Position(at),
            direction,
        )
        .map(|(_, entries)| String::from_utf8(entries[0].value.to_vec()).expect("text"))
        .collect()
}

#[test]
fn a_reader_sees_its_position_and_nothing_above() {
    let table = filled();
    let newest = |key: &str, at| {
        let mut found = None;
        table.get(key.as_bytes(), Position(at), |entry| {
            found = Some(entry.value.clone());
            false
        });
        found
    };
    assert_eq!(newest("b", 2).as_deref(), Some(&b"b1"[..]));
    assert_eq!(newest("b", 3).as_deref(), Some(&b"b3"[..]));
    assert_eq!(newest("ca", 1), None);
    assert_eq!(newest("bb", 9), None);
}

/// What is written while a reader sorts, and what it may not see, is in nobody's way.
#[test]
fn sorts_beside_the_writer_and_sees_its_position() {
    let table = Memtable::new(Position::ZERO, 0, 0);
    let put = |position: u64, number: u64| {
        let key = Bytes::from(format!("g{:08}", number.wrapping_mul(7_919) % 100_003));
        insert(&table, position, &[(&key, &key)]);
    };
    (1..=2_000).for_each(|number| put(number, number));
    std::thread::scope(|scope| {
        scope.spawn(|| (2_001..=6_000).for_each(|number| put(number, number)));
        for at in (1..40).map(|step| step * 50) {
            let keys: Vec<Bytes> = table
                .cursor(
                    Bound::Unbounded,
                    Bound::Unbounded,
                    Position(at),
                    Direction::Forward,
                )
                .map(|(key, _)| key)
                .collect();
            assert_eq!(keys.len() as u64, at);
            assert!(keys.is_sorted());
        }
    });
}

/// By hand, `--ignored --nocapture`: a memtable full of small rows of one partition key, in no order.
#[test]
#[ignore = "measures"]
fn how_long_a_writer_waits_for_a_sort() {
    let table = Memtable::new(Position::ZERO, 0, 1 << 20);
    let value = Bytes::from(vec![7; 180]);
    let put = |number: u64| {
        let key = format!(
            "gdevice-of-somebody-{:016x}",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        );
        insert(&table, number, &[(key.as_bytes(), &value)]);
    };
    let mut number = 0;
    while table.bytes() < 128 << 20 {
        number += 1;
        put(number);
    }
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut longest = std::time::Duration::ZERO;
            let mut next = number;
            while !is_done.load(Ordering::Relaxed) {
                next += 1;
                let begun = std::time::Instant::now();
                put(next);
                longest = longest.max(begun.elapsed());
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            longest
        });
        let begun = std::time::Instant::now();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = table.cursor(all.0, all.1, Position(number), Direction::Forward);
        assert!(cursor.next().is_some());
        let sorted = begun.elapsed();
        is_done.store(true, Ordering::Relaxed);
        let waited = writer.join().expect("no panic");
        writeln!(
            std::io::stderr(),
            "{} rows sorted in {sorted:?}; the writer waited {waited:?}",
            table.rows()
        )
        .unwrap();
    });
}

#[test]
fn walks_both_ways_within_bounds() {
    use Bound::{Excluded, Included, Unbounded};
    use Direction::{Backward, Forward};
    let table = filled();
    assert_eq!(
        walk(&table, 9, Forward, Unbounded, Unbounded),
        ["a1", "b3", "ca2", "cb1"]
    );
    assert_eq!(
        walk(&table, 9, Backward, Unbounded, Unbounded),
        ["cb1", "ca2", "b3", "a1"]
    );
    assert_eq!(
        walk(&table, 1, Backward, Unbounded, Unbounded),
        ["cb1", "b1", "a1"]
    );
    assert_eq!(
        walk(&table, 9, Forward, Excluded("a"), Excluded("cb")),
        ["b3", "ca2"]
    );
    assert_eq!(
        walk(&table, 9, Backward, Excluded("a"), Included("ca")),
        ["ca2", "b3"]
    );
    assert_eq!(
        walk(&table, 9, Backward, Included("a"), Excluded("c")),
        ["b3", "a1"]
    );
    assert_eq!(
        walk(&table, 9, Forward, Included("ca1"), Unbounded),
        ["cb1"]
    );
    assert!(walk(&table, 9, Forward, Included("d"), Included("a")).is_empty());
}

#[test]
fn a_cursor_of_many_chunks_gives_each_row_once() {
    let table = Memtable::new(Position::ZERO, 0, 0);
    let key = |number: u32| Bytes::from(format!("{}{number:05}", number % 3));
    for number in 0..1_000 {
        insert(
            &table,
            u64::from(number) + 1,
            &[(&key(number), &key(number))],
        );
    }
    let mut expected: Vec<Bytes> = (0..1_000).map(key).collect();
    expected.sort();
    let keys = |direction| -> Vec<Bytes> {
        let cursor = table.cursor(
            Bound::Unbounded,
            Bound::Unbounded,
            Position(u64::MAX),
            direction,
        );
        cursor.map(|(key, _)| key).collect()
    };
    assert_eq!(keys(Direction::Forward), expected);
    expected.reverse();
    assert_eq!(keys(Direction::Backward), expected);
}

#[test]
fn what_lies_above_a_position_can_be_discarded() {
    let table = filled();
    let bytes = table.bytes();
    table.discard_above(Position(3));
    assert_eq!((table.bytes(), table.rows()), (bytes, 4));
    table.discard_above(Position(1));
    assert_eq!((table.last(), table.rows()), (Position(1), 3));
    let all = |table: &Memtable| {
        walk(
            table,
            9,
            Direction::Forward,
            Bound::Unbounded,
            Bound::Unbounded,
        )
    };
    assert_eq!(all(&table), ["a1", "b1", "cb1"]);
    // Other batches take the places.
    insert(&table, 2, &[(b"cc", b"cc2"), (b"a", b"a2")]);
    assert_eq!(all(&table), ["a2", "b1", "cb1", "cc2"]);
    table.discard_above(Position(0));
    assert!(table.is_empty() && table.bytes() == 0 && all(&table).is_empty());
    assert_eq!(table.log_bytes(), 0);
}

/// Batches that are taken back again and again take no memory.
#[test]
fn what_is_discarded_lets_go_of_its_batch() {
    let (table, kind) = (filled(), EntryKind::Put);
    let log_bytes = table.log_bytes();
    let (key, value) = (&b"a"[..], &b"a4"[..]);
    let batch = frame_of(4, &[KeyedEntry { key, kind, value }]);
    table.insert(&batch, &ToyRules);
    let buffer = batch.buffer().clone();
    drop(batch);
    assert!(table.log_bytes() > log_bytes && !buffer.is_unique());
    table.discard_above(Position(3));
    assert!(table.log_bytes() == log_bytes && buffer.is_unique());
}

/// Each key once.
type Puts = BTreeMap<[u8; 2], u8>;

/// Batches, and how many of them are discarded afterwards.
fn batches() -> impl Strategy<Value = Vec<(Vec<Puts>, usize)>> {
    let key = [0u8..4, 0u8..6];
    let batch = prop::collection::btree_map(key, any::<u8>(), 1..6);
    prop::collection::vec((prop::collection::vec(batch, 1..6), 0usize..6), 1..5)
}

proptest! {
    /// A memtable from which batches were discarded equals one that never had them.
    #[test]
    fn discarding_leaves_what_never_saw_it(rounds in batches(), sorts in any::<bool>()) {
        let table = Memtable::new(Position::ZERO, 0, 0);
        let mut kept: Vec<Puts> = Vec::new();
        let all = |table: &Memtable, at: u64, direction| -> Vec<_> {
            table.cursor(Bound::Unbounded, Bound::Unbounded, Position(at), direction).collect()
        };
        for (batches, discarded) in rounds {
            for batch in batches {
                kept.push(batch);
                let rows: Vec<_> = kept[kept.len() - 1]
                    .iter()
                    .map(|(key, value)| (&key[..], std::slice::from_ref(value)))
                    .collect();
                insert(&table, kept.len() as u64, &rows);
            }
            if sorts {
                all(&table, u64::MAX, Direction::Forward);
            }
            kept.truncate(kept.len().saturating_sub(discarded));
            table.discard_above(Position(kept.len() as u64));
            let fresh = Memtable::new(Position::ZERO, 0, 0);
            for (batch, position) in kept.iter().zip(1..) {
                let rows: Vec<_> = batch
                    .iter()
                    .map(|(key, value)| (&key[..], std::slice::from_ref(value)))
                    .collect();
                insert(&fresh, position, &rows);
            }
            prop_assert_eq!((table.bytes(), table.rows()), (fresh.bytes(), fresh.rows()));
            prop_assert_eq!((table.last(), table.log_bytes()), (fresh.last(), fresh.log_bytes()));
            for at in [u64::MAX, kept.len() as u64 / 2] {
                for direction in [Direction::Forward, Direction::Backward] {
                    prop_assert_eq!(all(&table, at, direction), all(&fresh, at, direction));
                }
            }
            let flushed: Vec<_> = table.collapsed(&ToyRules).collect();
            prop_assert_eq!(flushed, fresh.collapsed(&ToyRules).collect::<Vec<_>>());
        }
    }
}
