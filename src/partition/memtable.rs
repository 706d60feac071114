//! A memtable: the newest entries of a partition, with several positions per key.
//!
//! Owns: entries between two log positions, from their commit until an image run holds them. A hash finds a row; rows of one
//! partition key stand together in a group, and groups in order, so that a range is a walk. Promises: a reader at position V
//! sees exactly the entries at or below V; an insert never sorts (rows mostly arrive in order; where not, the first range
//! that cares does). Must not: compose deltas or know what a row is.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::arena::{Arena, Place};
use super::merge::Direction;
use super::{Effect, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;

/// Bytes that an entry adds to a run beside its key and value.
const ENTRY_BYTES: usize = 32;
/// Rows that a cursor copies out at first, and later: few for who wants few, and never so many that writers wait long.
const CHUNK_ROWS_MIN: usize = 16;
const CHUNK_ROWS_MAX: usize = 256;

/// Groups that are brought into order under one lock.
const SORT_GROUPS: u32 = 256;

/// No older version.
const NONE: u32 = u32::MAX;

/// Rows by key, each with its entries by position.
pub(super) struct Memtable {
    rows: RwLock<Rows>,
    /// Everything at or below is older than this memtable.
    after: Position,
    last: AtomicU64,
    bytes: AtomicUsize,
    log_bytes: AtomicUsize,
    created_ms: u64,
}

/// Tables of numbers into lists: a look-up touches little memory, and that is what it costs.
#[derive(Default)]
struct Rows {
    arena: Arena,
    list: Vec<Row>,
    by_key: HashTable<u32>,
    /// Versions that are not the newest of their row.
    older: Vec<Version>,
    groups: Vec<Group>,
    by_name: HashTable<u32>,
    in_order: BTreeMap<Bytes, u32>,
    hasher: RandomState,
}

/// A key and its newest version.
struct Row {
    hash: u64,
    key: Place,
    newest: Version,
}

/// What one batch did to a row.
#[derive(Clone, Copy)]
struct Version {
    position: Position,
    value: Place,
    kind: EntryKind,
    /// The version before, in `older`.
    before: u32,
}

/// The rows of one partition key.
struct Group {
    hash: u64,
    name: Bytes,
    rows: Vec<u32>,
    /// So many of its first rows are known to be in order.
    sorted: usize,
}

impl Memtable {
    /// `rows_expected`: how many rows it will hold, about; a table that need not grow never makes a writer wait for it.
    pub(super) fn new(after: Position, created_ms: u64, rows_expected: usize) -> Memtable {
        let by_key = HashTable::with_capacity(rows_expected);
        Memtable {
            rows: RwLock::new(Rows {
                by_key,
                ..Rows::default()
            }),
            after,
            last: AtomicU64::new(after.0),
            bytes: AtomicUsize::new(0),
            log_bytes: AtomicUsize::new(0),
            created_ms,
        }
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
        self.read().list.is_empty()
    }

    /// How many rows it holds.
    pub(super) fn rows(&self) -> usize {
        self.read().list.len()
    }

    /// Takes in the batch at `position`, of `log_bytes` in the log. Invisible until the tail reaches `position`. Batches come
    /// in order, each key once in a batch.
    pub(super) fn insert(
        &self,
        position: Position,
        effects: &[Effect],
        log_bytes: usize,
        rules: &dyn Rules,
    ) {
        let mut bytes = 0;
        let mut rows = self.write();
        for effect in effects {
            bytes += ENTRY_BYTES + effect.key.len() + effect.value.len();
            rows.insert(position, effect, rules);
        }
        drop(rows);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.last.store(position.0, Ordering::Release);
    }

    /// Brings all rows into order, for who will walk them all. Readers wait for a few groups at a time only.
    pub(super) fn sort(&self) {
        let mut group = 0;
        loop {
            let mut rows = self.write();
            let end = number(rows.groups.len()).min(group + SORT_GROUPS);
            (group..end).for_each(|group| rows.sort(group));
            if group == end {
                return;
            }
            group = end;
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
            match rows.chunk(bounds, walk) {
                Ok(chunk) => return chunk,
                Err(unsorted) => {
                    drop(rows);
                    self.write().sort(unsorted);
                }
            }
        }
    }
}

/// A key with its entries newest first.
type Walked = (Bytes, Vec<Entry>);
type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl Rows {
    fn insert(&mut self, position: Position, effect: &Effect, rules: &dyn Rules) {
        let hash = self.hasher.hash_one(&effect.key[..]);
        let value = self.arena.push(&effect.value);
        let mut version = Version {
            position,
            value,
            kind: effect.kind,
            before: NONE,
        };
        let Rows {
            arena,
            list,
            by_key,
            ..
        } = self;
        let is_it = |&row: &u32| {
            let row = &list[row as usize];
            row.hash == hash && *arena.get(row.key) == effect.key[..]
        };
        if let Some(&row) = by_key.find(hash, is_it) {
            version.before = number(self.older.len());
            let newest = &mut self.list[row as usize].newest;
            self.older.push(std::mem::replace(newest, version));
            return;
        }
        let row = number(self.list.len());
        let key = self.arena.push(&effect.key);
        self.list.push(Row {
            hash,
            key,
            newest: version,
        });
        let list = &self.list;
        self.by_key
            .insert_unique(hash, row, |&row| list[row as usize].hash);
        let name = rules.filter_prefix(&effect.key).unwrap_or(&effect.key);
        let group = self.group(name);
        self.groups[group as usize].rows.push(row);
    }

    /// The group of this name, made if there is none.
    fn group(&mut self, name: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(name);
        let groups = &self.groups;
        let is_it = |&group: &u32| {
            let group = &groups[group as usize];
            group.hash == hash && group.name == name
        };
        if let Some(&group) = self.by_name.find(hash, is_it) {
            return group;
        }
        let group = number(self.groups.len());
        let name = Bytes::copy_from_slice(name);
        self.in_order.insert(name.clone(), group);
        self.groups.push(Group {
            hash,
            name,
            rows: Vec::new(),
            sorted: 0,
        });
        let groups = &self.groups;
        self.by_name
            .insert_unique(hash, group, |&group| groups[group as usize].hash);
        group
    }

    fn find(&self, key: &[u8]) -> Option<&Row> {
        let hash = self.hasher.hash_one(key);
        let is_it = |&row: &u32| {
            let row = &self.list[row as usize];
            row.hash == hash && self.arena.get(row.key) == key
        };
        self.by_key
            .find(hash, is_it)
            .map(|&row| &self.list[row as usize])
    }

    /// A row's versions at or below `at`.
    fn newest_first<'r>(&'r self, row: &'r Row, at: Position) -> impl Iterator<Item = &'r Version> {
        let before = |version: &&'r Version| self.older.get(version.before as usize);
        std::iter::successors(Some(&row.newest), before)
            .skip_while(move |version| version.position > at)
    }

    /// A row's entries at or below `at`, newest first, down to the first that masks the rest.
    fn entries(&self, row: &Row, at: Position) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(1);
        for version in self.newest_first(row, at) {
            entries.push(self.entry(version));
            if version.kind != EntryKind::Delta {
                break;
            }
        }
        entries
    }

    fn entry(&self, version: &Version) -> Entry {
        Entry {
            kind: version.kind,
            value: self.arena.take(version.value),
        }
    }

    fn key(&self, row: u32) -> &[u8] {
        self.arena.get(self.list[row as usize].key)
    }

    /// Brings a group's rows into order. They mostly are.
    fn sort(&mut self, group: u32) {
        let Rows {
            arena,
            list,
            groups,
            ..
        } = self;
        let group = &mut groups[group as usize];
        let key = |row: &u32| arena.get(list[*row as usize].key);
        // From the last row that is known to be in order.
        let new = &group.rows[group.sorted.saturating_sub(1)..];
        if !new.is_sorted_by(|a, b| key(a) < key(b)) {
            // Stable: made for lists of which much is in order already, as here.
            group.rows.sort_by(|a, b| key(a).cmp(key(b)));
        }
        group.sorted = group.rows.len();
    }

    /// `Err` names a group that must be sorted first.
    fn chunk(&self, bounds: Bounds<'_>, walk: &Cursor<'_>) -> Result<(Vec<Walked>, bool), u32> {
        let mut found = Vec::new();
        let mut groups = self.groups_between(bounds);
        let mut next = || match walk.direction {
            Direction::Forward => groups.next(),
            Direction::Backward => groups.next_back(),
        };
        while let Some((_, &group)) = next() {
            let rows = &self.groups[group as usize];
            if rows.sorted < rows.rows.len() {
                if found.is_empty() {
                    return Err(group);
                }
                // What was found so far is not found again for it.
                found.reverse();
                return Ok((found, true));
            }
            let rows = self.between(rows, bounds);
            for index in 0..rows.len() {
                let row = match walk.direction {
                    Direction::Forward => &self.list[rows[index] as usize],
                    Direction::Backward => &self.list[rows[rows.len() - 1 - index] as usize],
                };
                let entries = self.entries(row, walk.at);
                if !entries.is_empty() {
                    found.push((self.arena.take(row.key), entries));
                }
                if found.len() == walk.chunk_rows {
                    found.reverse();
                    return Ok((found, true));
                }
            }
        }
        found.reverse();
        Ok((found, false))
    }

    /// The groups that may hold keys between two bounds. All keys of a group begin with its name, and no name begins with
    /// another, so only the last group at or below the lower bound can reach over it.
    fn groups_between(&self, (from, to): Bounds<'_>) -> Range<'_, Bytes, u32> {
        let first = match from {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => {
                let below = (Bound::Unbounded, Bound::Included(key));
                self.in_order
                    .range::<[u8], _>(below)
                    .next_back()
                    .map(|(name, _)| &name[..])
            }
        };
        let last = match to {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) | Bound::Excluded(key) => Bound::Included(key),
        };
        self.in_order
            .range::<[u8], _>((first.map_or(Bound::Unbounded, Bound::Included), last))
    }

    fn between<'r>(&self, group: &'r Group, (from, to): Bounds<'_>) -> &'r [u32] {
        let first_not = |is_before: &dyn Fn(&[u8]) -> bool| {
            group.rows.partition_point(|&row| is_before(self.key(row)))
        };
        let start = match from {
            Bound::Unbounded => 0,
            Bound::Included(bound) => first_not(&|key| key < bound),
            Bound::Excluded(bound) => first_not(&|key| key <= bound),
        };
        let end = match to {
            Bound::Unbounded => group.rows.len(),
            Bound::Included(bound) => first_not(&|key| key <= bound),
            Bound::Excluded(bound) => first_not(&|key| key < bound),
        };
        group.rows.get(start..end).unwrap_or_default()
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

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a memtable holds far less than 2^32 rows")
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
