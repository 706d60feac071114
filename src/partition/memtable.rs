//! A memtable: the newest entries of a partition, with several positions per key.
//!
//! Owns: entries between two log positions, from their commit until an image run holds them. Promises: a reader at
//! position V sees exactly the entries at or below V; a writer never waits for a sort (the first range that cares
//! sorts, beside the lock). Must not: compose deltas or know what a row is.

use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use super::merge::Direction;
use super::rows::{Head, Rows};
use super::walk::{Bounds, Walk, Walked};
use super::{Effect, Rules};
use crate::ids::Position;
use crate::image::Entry;

/// Bytes that an entry adds to a run beside its key and value.
const ENTRY_BYTES: usize = 32;
/// Rows that a cursor copies out at first, and later: few for who wants few, and never so many that writers wait long.
const CHUNK_ROWS_MIN: usize = 16;
const CHUNK_ROWS_MAX: usize = 256;

/// Rows that are looked at under one lock to be sorted.
const HEADS_STEP: usize = 1_024;

/// Groups that are walked under one lock by who writes them all away.
const LOCKED_GROUPS: usize = 64;

/// Memory that a flushed memtable leaves.
pub(super) struct Spare(Rows);

/// Rows by key, each with its entries by position.
pub(super) struct Memtable {
    rows: RwLock<Rows>,
    /// Held by who sorts.
    sorting: Mutex<()>,
    /// Everything at or below is older than this memtable.
    after: Position,
    last: AtomicU64,
    bytes: AtomicUsize,
    log_bytes: AtomicUsize,
    created_ms: u64,
}

impl Memtable {
    /// `rows_expected`: how many rows it will hold, about; a table that need not grow never makes a writer wait for it.
    pub(super) fn new(after: Position, created_ms: u64, rows_expected: usize) -> Memtable {
        Memtable {
            rows: RwLock::new(Rows::with_capacity(rows_expected)),
            sorting: Mutex::new(()),
            after,
            last: AtomicU64::new(after.0),
            bytes: AtomicUsize::new(0),
            log_bytes: AtomicUsize::new(0),
            created_ms,
        }
    }

    /// The same in the memory of an earlier one.
    pub(super) fn within(spare: Spare, after: Position, created_ms: u64) -> Memtable {
        Memtable {
            rows: RwLock::new(spare.0),
            ..Memtable::new(after, created_ms, 0)
        }
    }

    /// Its memory without what it held.
    pub(super) fn empty(self) -> Spare {
        let mut rows = self
            .rows
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        rows.clear();
        Spare(rows)
    }

    /// The position before its first batch.
    pub(super) fn after(&self) -> Position {
        self.after
    }

    /// The position of its last batch.
    pub(super) fn last(&self) -> Position {
        Position(self.last.load(Ordering::Acquire))
    }

    /// What its entries will take in a run, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of log that a recovery would replay for it.
    pub(super) fn log_bytes(&self) -> usize {
        self.log_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn created_ms(&self) -> u64 {
        self.created_ms
    }

    pub(super) fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// How many rows it holds.
    pub(super) fn rows(&self) -> usize {
        self.read().len()
    }

    /// Takes in the batch at `position`, of `log_bytes` in the log. Invisible until the tail reaches `position`.
    /// Batches come in order, each key once in a batch.
    pub(super) fn insert(
        &self,
        position: Position,
        effects: &[Effect],
        log_bytes: usize,
        rules: &dyn Rules,
    ) {
        let bytes = effects
            .iter()
            .map(|effect| ENTRY_BYTES + effect.key.len() + effect.value.len())
            .sum();
        self.write().insert(position, effects, rules);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.last.store(position.0, Ordering::Release);
    }

    /// All rows in order, each with one entry that does what all of its entries do, for who writes them away: nothing
    /// may be inserted any more.
    pub(super) fn collapsed<'m>(&'m self, rules: &'m dyn Rules) -> Collapsed<'m> {
        let groups = self.read().groups_in_order().into_iter();
        Collapsed {
            memtable: self,
            rules,
            groups,
            heads: Vec::new(),
            rows: VecDeque::new(),
        }
    }

    /// The key's entries at or below `at`, newest first, until `found` says stop.
    pub(super) fn get(&self, key: &[u8], at: Position, mut found: impl FnMut(&Entry) -> bool) {
        let rows = self.read();
        if let Some(row) = rows.find(key) {
            let _ = rows
                .newest_first(row, at)
                .all(|version| found(&rows.entry(version)));
        }
    }

    /// Walks the keys between two bounds; each key once, with its entries at or below `at`.
    pub(super) fn cursor(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Position,
        direction: Direction,
    ) -> Cursor<'_> {
        let (from, to) = (
            from.map(Bytes::copy_from_slice),
            to.map(Bytes::copy_from_slice),
        );
        let chunk_rows = CHUNK_ROWS_MIN;
        Cursor {
            memtable: self,
            from,
            to,
            at,
            direction,
            chunk: Vec::new(),
            chunk_rows,
            is_over: false,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next visible rows of a walk, last one first, and whether there may be more.
    fn chunk(&self, walk: &Cursor<'_>) -> (Vec<Walked>, bool) {
        let bounds: Bounds<'_> = (
            walk.from.as_ref().map(|b| &b[..]),
            walk.to.as_ref().map(|b| &b[..]),
        );
        if is_empty(bounds) {
            return (Vec::new(), false);
        }
        loop {
            let rows = self.read();
            let how = Walk {
                at: walk.at,
                direction: walk.direction,
                rows_max: walk.chunk_rows,
            };
            match rows.chunk(bounds, how) {
                Ok(chunk) => return chunk,
                Err(unsorted) => {
                    drop(rows);
                    self.sort(unsorted);
                }
            }
        }
    }

    /// Brings the rows that a group has now into order. They mostly are. Sorting half a million takes a second and
    /// more, so it is done beside the lock, which the writer needs for every batch: rows never change their place but
    /// here.
    fn sort(&self, group: u32) {
        let one = self.sorting.lock();
        let _one = one.unwrap_or_else(PoisonError::into_inner);
        let (known, count) = self.read().sorted(group);
        // From the last row that is known to be in order.
        let mut heads = self.heads(group, known.saturating_sub(1)..count);
        let order = |a: &Head, b: &Head| {
            let by_key = || self.read().order(a, b);
            a.0.cmp(&b.0).then_with(by_key)
        };
        if heads.is_sorted_by(|a, b| order(a, b).is_lt()) {
            self.write().set_sorted(group, count, None);
            return;
        }
        heads = self.heads(group, 0..count);
        // Stable: made for lists of which much is in order already, as here.
        heads.sort_by(order);
        let rows: Vec<u32> = heads.iter().map(|&(_, row)| row).collect();
        self.write().set_sorted(group, count, Some(&rows));
    }

    fn heads(&self, group: u32, mut range: Range<usize>) -> Vec<Head> {
        let mut heads = Vec::with_capacity(range.len());
        while !range.is_empty() {
            let end = range.end.min(range.start + HEADS_STEP);
            self.read().heads(group, range.start..end, &mut heads);
            range.start = end;
        }
        heads
    }
}

/// A walk over one memtable: (key, its entries newest first).
pub(super) struct Cursor<'a> {
    memtable: &'a Memtable,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    at: Position,
    direction: Direction,
    /// Rows in hand, last one first.
    chunk: Vec<Walked>,
    chunk_rows: usize,
    is_over: bool,
}

impl Iterator for Cursor<'_> {
    type Item = Walked;

    fn next(&mut self) -> Option<Walked> {
        if self.chunk.is_empty() && !self.is_over {
            let (chunk, has_more) = self.memtable.chunk(self);
            self.is_over = !has_more;
            self.chunk_rows = (self.chunk_rows * 2).min(CHUNK_ROWS_MAX);
            if let Some((last, _)) = chunk.first() {
                match self.direction {
                    Direction::Forward => self.from = Bound::Excluded(last.clone()),
                    Direction::Backward => self.to = Bound::Excluded(last.clone()),
                }
            }
            self.chunk = chunk;
        }
        self.chunk.pop()
    }
}

/// A walk over all rows of a memtable that takes no more.
pub(super) struct Collapsed<'a> {
    memtable: &'a Memtable,
    rules: &'a dyn Rules,
    groups: std::vec::IntoIter<u32>,
    heads: Vec<Head>,
    rows: VecDeque<(Bytes, Entry)>,
}

impl Iterator for Collapsed<'_> {
    type Item = (Bytes, Entry);

    fn next(&mut self) -> Option<(Bytes, Entry)> {
        if self.rows.is_empty() {
            let rows = self.memtable.read();
            for group in self.groups.by_ref().take(LOCKED_GROUPS) {
                rows.collapse(group, self.rules, &mut self.heads, &mut self.rows);
            }
        }
        self.rows.pop_front()
    }
}

fn is_empty((from, to): Bounds<'_>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EntryKind;
    use crate::partition::model_test::ToyRules;

    fn filled() -> Memtable {
        let table = Memtable::new(Position::ZERO, 0, 0);
        // "cb" before "ca": a group that is out of order.
        let batches = [
            (1, vec![("a", "a1"), ("b", "b1"), ("cb", "cb1")]),
            (2, vec![("ca", "ca2")]),
            (3, vec![("b", "b3")]),
        ];
        for (position, rows) in batches {
            let effect = |(key, value): (&'static str, &'static str)| Effect {
                key: Bytes::from_static(key.as_bytes()),
                kind: EntryKind::Put,
                value: Bytes::from_static(value.as_bytes()),
            };
            let effects: Vec<Effect> = rows.into_iter().map(effect).collect();
            table.insert(Position(position), &effects, 1, &ToyRules);
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
            let effect = Effect {
                value: key.clone(),
                key,
                kind: EntryKind::Put,
            };
            table.insert(Position(position), &[effect], 1, &ToyRules);
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
    #[allow(clippy::disallowed_macros)] // it tells what it measured
    fn how_long_a_writer_waits_for_a_sort() {
        let table = Memtable::new(Position::ZERO, 0, 1 << 20);
        let value = Bytes::from(vec![7; 180]);
        let put = |number: u64| {
            let key = format!(
                "gdevice-of-somebody-{:016x}",
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            );
            let effect = Effect {
                key: key.into(),
                kind: EntryKind::Put,
                value: value.clone(),
            };
            table.insert(Position(number), &[effect], 1, &ToyRules);
        };
        let mut number = 0;
        while table.bytes() < 128 << 20 {
            number += 1;
            put(number);
        }
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut longest = std::time::Duration::ZERO;
                let mut next = number;
                while !is_over.load(Ordering::Relaxed) {
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
            is_over.store(true, Ordering::Relaxed);
            let waited = writer.join().expect("no panic");
            eprintln!(
                "{} rows sorted in {sorted:?}; the writer waited {waited:?}",
                table.rows()
            );
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
            let effect = Effect {
                key: key(number),
                kind: EntryKind::Put,
                value: key(number),
            };
            table.insert(Position(u64::from(number) + 1), &[effect], 1, &ToyRules);
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
}
