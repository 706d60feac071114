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

use super::super::Rules;
use super::merge::Direction;
use super::rows::{ENTRY_BYTES, Rows, SortKey};
use super::walk::{Bounds, Walk, Walked};
use crate::log::Frame;
use tideline_base::entry::Entry;
use tideline_base::ids::Position;

/// Rows that a cursor copies out at first, and later: few for a reader that wants few, and never so many that writers
/// wait long.
const CHUNK_ROWS_MIN: usize = 16;
const CHUNK_ROWS_MAX: usize = 256;

/// Rows that are looked at under one lock to be sorted.
const SORT_STEP: usize = 1_024;

/// Groups that are walked under one lock by the flush: few, so that their rows are still in the processor's memory when
/// they are put into pages.
const LOCKED_GROUPS: usize = 8;

/// Memory that a flushed memtable leaves.
pub(in super::super) struct Spare(Rows);

/// Rows by key, each with its entries by position.
pub(in super::super) struct Memtable {
    rows: RwLock<Rows>,
    /// Held while sorting.
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
    pub(in super::super) fn new(
        after: Position,
        created_ms: u64,
        rows_expected: usize,
    ) -> Memtable {
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
    pub(in super::super) fn within(spare: Spare, after: Position, created_ms: u64) -> Memtable {
        Memtable {
            rows: RwLock::new(spare.0),
            ..Memtable::new(after, created_ms, 0)
        }
    }

    /// Its memory without what it held.
    pub(in super::super) fn empty(self) -> Spare {
        let mut rows = self
            .rows
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        rows.clear();
        Spare(rows)
    }

    /// The position before its first batch.
    pub(in super::super) fn after(&self) -> Position {
        self.after
    }

    /// The position of its last batch.
    pub(in super::super) fn last(&self) -> Position {
        Position(self.last.load(Ordering::Acquire))
    }

    /// What its entries will take in a run, about.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of log that a recovery would replay for it.
    pub(in super::super) fn log_bytes(&self) -> usize {
        self.log_bytes.load(Ordering::Relaxed)
    }

    pub(in super::super) fn created_ms(&self) -> u64 {
        self.created_ms
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// How many rows it holds.
    pub(in super::super) fn rows(&self) -> usize {
        self.read().len()
    }

    /// Takes in a batch. Invisible until the tail reaches its position. Batches come in order.
    pub(in super::super) fn insert(&self, batch: &Frame, rules: &dyn Rules) {
        let bytes = batch
            .entries()
            .map(|entry| ENTRY_BYTES + entry.key.len() + entry.value.len())
            .sum();
        self.write().insert(batch, rules);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log_bytes.fetch_add(batch.bytes(), Ordering::Relaxed);
        self.last.store(batch.position.0, Ordering::Release);
    }

    /// Forgets the batches above `position`: the log has not got them after all. Nobody may see them yet. Slow: looks
    /// at every row.
    pub(in super::super) fn discard_above(&self, position: Position) {
        assert!(position >= self.after, "what is older is not in here");
        // A sort has counted the rows.
        let _nobody = self.sorting.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, log_bytes) = self.write().discard_above(position);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.log_bytes.fetch_sub(log_bytes, Ordering::Relaxed);
        self.last.fetch_min(position.0, Ordering::AcqRel);
    }

    /// All rows in order, each with one entry that does what all of its entries do, for the flush: nothing may be
    /// inserted any more.
    pub(in super::super) fn collapsed<'m>(&'m self, rules: &'m dyn Rules) -> Collapsed<'m> {
        let groups = self.read().groups_in_order().into_iter();
        Collapsed {
            memtable: self,
            rules,
            groups,
            keys: Vec::new(),
            rows: VecDeque::new(),
        }
    }

    /// The key's entries at or below `at`, newest first, until `found` says stop.
    pub(in super::super) fn get(
        &self,
        key: &[u8],
        at: Position,
        mut found: impl FnMut(&Entry) -> bool,
    ) {
        let rows = self.read();
        if let Some(row) = rows.find(key) {
            let _ = rows
                .newest_first(row, at)
                .all(|version| found(&rows.entry(version)));
        }
    }

    /// Takes the mark from each key that may be here.
    pub(in super::super) fn sift(&self, keys: &[&[u8]], lacks: &mut [bool]) {
        self.read().sift(keys, lacks);
    }

    /// Walks the keys between two bounds; each key once, with its entries at or below `at`.
    pub(in super::super) fn cursor(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Position,
        direction: Direction,
    ) -> MemtableCursor<'_> {
        let (from, to) = (
            from.map(Bytes::copy_from_slice),
            to.map(Bytes::copy_from_slice),
        );
        let chunk_rows = CHUNK_ROWS_MIN;
        MemtableCursor {
            memtable: self,
            from,
            to,
            at,
            direction,
            chunk: Vec::new(),
            chunk_rows,
            is_done: false,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next visible rows of a walk, last one first, and whether there may be more.
    fn chunk(&self, walk: &MemtableCursor<'_>) -> (Vec<Walked>, bool) {
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
        let mut keys = self.sort_keys(group, known.saturating_sub(1)..count);
        let order = |a: &SortKey, b: &SortKey| {
            let by_key = || self.read().order(a, b);
            a.0.cmp(&b.0).then_with(by_key)
        };
        if keys.is_sorted_by(|a, b| order(a, b).is_lt()) {
            self.write().set_sorted(group, count, None);
            return;
        }
        keys = self.sort_keys(group, 0..count);
        // Stable: made for lists of which much is in order already, as here.
        keys.sort_by(order);
        let rows: Vec<u32> = keys.iter().map(|&(_, row)| row).collect();
        self.write().set_sorted(group, count, Some(&rows));
    }

    fn sort_keys(&self, group: u32, mut range: Range<usize>) -> Vec<SortKey> {
        let mut keys = Vec::with_capacity(range.len());
        while !range.is_empty() {
            let end = range.end.min(range.start + SORT_STEP);
            self.read().sort_keys(group, range.start..end, 0, &mut keys);
            range.start = end;
        }
        keys
    }
}

/// A walk over one memtable: (key, its entries newest first).
pub(in super::super) struct MemtableCursor<'a> {
    memtable: &'a Memtable,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    at: Position,
    direction: Direction,
    /// Rows in hand, last one first.
    chunk: Vec<Walked>,
    chunk_rows: usize,
    is_done: bool,
}

impl Iterator for MemtableCursor<'_> {
    type Item = Walked;

    fn next(&mut self) -> Option<Walked> {
        if self.chunk.is_empty() && !self.is_done {
            let (chunk, has_more) = self.memtable.chunk(self);
            self.is_done = !has_more;
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
pub(in super::super) struct Collapsed<'a> {
    memtable: &'a Memtable,
    rules: &'a dyn Rules,
    groups: std::vec::IntoIter<u32>,
    keys: Vec<SortKey>,
    rows: VecDeque<(Bytes, Entry)>,
}

impl Iterator for Collapsed<'_> {
    type Item = (Bytes, Entry);

    fn next(&mut self) -> Option<(Bytes, Entry)> {
        if self.rows.is_empty() {
            let rows = self.memtable.read();
            for group in self.groups.by_ref().take(LOCKED_GROUPS) {
                rows.collapse(group, self.rules, &mut self.keys, &mut self.rows);
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
