//! A memtable: the newest entries of a partition, sorted, with several positions per key.
//!
//! Owns: entries between two log positions, from their commit (or a little before: nobody sees them yet) until an image run
//! holds them. Promises: one thread inserts while any number read, without locks; a reader at position V sees exactly the
//! entries at or below V. Must not: compose deltas or know what a row is.

use std::borrow::Borrow;
use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry as Node;

use super::Direction;
use crate::ids::Position;
use crate::image::Entry;

/// Bytes that an entry adds to a run beside its key and value.
const NODE_BYTES: usize = 32;

/// A sorted map from (key, position descending) to an entry.
pub(super) struct Memtable {
    nodes: SkipMap<Versioned, Entry>,
    /// Everything at or below is older than this memtable.
    after: Position,
    last: AtomicU64,
    bytes: AtomicUsize,
    log_bytes: AtomicUsize,
    created_ms: u64,
}

impl Memtable {
    pub(super) fn new(after: Position, created_ms: u64) -> Memtable {
        Memtable {
            nodes: SkipMap::new(),
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

    /// Memory that its entries take, about.
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
        self.nodes.is_empty()
    }

    /// Adds the entry that `position` gives `key`. Invisible until the tail reaches `position`.
    pub(super) fn insert(&self, key: Bytes, position: Position, entry: Entry) {
        self.bytes.fetch_add(
            NODE_BYTES + key.len() + entry.value.len(),
            Ordering::Relaxed,
        );
        self.nodes.insert(Versioned { key, position }, entry);
    }

    /// Notes that the batch at `position`, of `log_bytes`, is in.
    pub(super) fn advance(&self, position: Position, log_bytes: usize) {
        self.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.last.store(position.0, Ordering::Release);
    }

    /// The key's entries at or below `at`, newest first, until `found` says stop.
    pub(super) fn get(&self, key: &[u8], at: Position, mut found: impl FnMut(&Entry) -> bool) {
        let probe = (key, at);
        let mut node = self
            .nodes
            .lower_bound(Bound::Included(&probe as &dyn Probe));
        while let Some(current) = node {
            if current.key().key != key || !found(current.value()) {
                return;
            }
            node = current.next();
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
        let node = match direction {
            Direction::Forward => match from {
                Bound::Unbounded => self.nodes.front(),
                Bound::Included(key) => self.first_at(key, Position(u64::MAX)),
                // Behind the key's oldest possible entry.
                Bound::Excluded(key) => {
                    let probe = (key, Position::ZERO);
                    self.nodes
                        .lower_bound(Bound::Excluded(&probe as &dyn Probe))
                }
            },
            Direction::Backward => match to {
                Bound::Unbounded => self.nodes.back(),
                Bound::Included(key) => {
                    let probe = (key, Position::ZERO);
                    self.nodes
                        .upper_bound(Bound::Included(&probe as &dyn Probe))
                }
                Bound::Excluded(key) => {
                    let probe = (key, Position(u64::MAX));
                    self.nodes
                        .upper_bound(Bound::Excluded(&probe as &dyn Probe))
                }
            },
        };
        let end = match direction {
            Direction::Forward => to,
            Direction::Backward => from,
        };
        Cursor {
            node,
            end: end.map(Bytes::copy_from_slice),
            at,
            direction,
        }
    }

    fn first_at(&self, key: &[u8], at: Position) -> Option<Node<'_, Versioned, Entry>> {
        let probe = (key, at);
        self.nodes
            .lower_bound(Bound::Included(&probe as &dyn Probe))
    }
}

/// A walk over one memtable: (key, its entries newest first).
pub(super) struct Cursor<'a> {
    node: Option<Node<'a, Versioned, Entry>>,
    end: Bound<Bytes>,
    at: Position,
    direction: Direction,
}

impl Cursor<'_> {
    fn is_past_end(&self, key: &[u8]) -> bool {
        match (&self.end, self.direction) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end), Direction::Forward) => key > end.as_ref(),
            (Bound::Excluded(end), Direction::Forward) => key >= end.as_ref(),
            (Bound::Included(end), Direction::Backward) => key < end.as_ref(),
            (Bound::Excluded(end), Direction::Backward) => key <= end.as_ref(),
        }
    }
}

impl Iterator for Cursor<'_> {
    type Item = (Bytes, Vec<Entry>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let node = self.node.take()?;
            let key = node.key().key.clone();
            if self.is_past_end(&key) {
                return None;
            }
            let mut entries = Vec::with_capacity(1);
            let mut next = Some(node);
            while let Some(node) = next {
                if node.key().key != key {
                    self.node = Some(node);
                    break;
                }
                if node.key().position <= self.at {
                    entries.push(node.value().clone());
                }
                next = match self.direction {
                    Direction::Forward => node.next(),
                    Direction::Backward => node.prev(),
                };
            }
            if self.direction == Direction::Backward {
                entries.reverse();
            }
            if !entries.is_empty() {
                return Some((key, entries));
            }
        }
    }
}

/// Orders by key, then newest position first.
#[derive(PartialEq, Eq)]
struct Versioned {
    key: Bytes,
    position: Position,
}

impl Ord for Versioned {
    fn cmp(&self, other: &Versioned) -> Order {
        self.key
            .cmp(&other.key)
            .then_with(|| other.position.cmp(&self.position))
    }
}

impl PartialOrd for Versioned {
    fn partial_cmp(&self, other: &Versioned) -> Option<Order> {
        Some(self.cmp(other))
    }
}

/// Lets a borrowed key be looked up without making a [`Versioned`] of it.
trait Probe {
    fn parts(&self) -> (&[u8], Position);
}

impl Probe for Versioned {
    fn parts(&self) -> (&[u8], Position) {
        (&self.key, self.position)
    }
}

impl Probe for (&[u8], Position) {
    fn parts(&self) -> (&[u8], Position) {
        (self.0, self.1)
    }
}

impl<'a> Borrow<dyn Probe + 'a> for Versioned {
    fn borrow(&self) -> &(dyn Probe + 'a) {
        self
    }
}

impl PartialEq for dyn Probe + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Probe + '_ {}

impl Ord for dyn Probe + '_ {
    fn cmp(&self, other: &Self) -> Order {
        let (key, position) = self.parts();
        let (other_key, other_position) = other.parts();
        key.cmp(other_key)
            .then_with(|| other_position.cmp(&position))
    }
}

impl PartialOrd for dyn Probe + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EntryKind;

    fn put(value: &'static str) -> Entry {
        Entry {
            kind: EntryKind::Put,
            value: Bytes::from_static(value.as_bytes()),
        }
    }

    fn filled() -> Memtable {
        let table = Memtable::new(Position::ZERO, 0);
        for (key, position, value) in [
            ("a", 1, "a1"),
            ("b", 1, "b1"),
            ("b", 3, "b3"),
            ("c", 2, "c2"),
        ] {
            table.insert(
                Bytes::from_static(key.as_bytes()),
                Position(position),
                put(value),
            );
        }
        table
    }

    fn walk(
        table: &Memtable,
        at: u64,
        direction: Direction,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Vec<String> {
        table
            .cursor(from, to, Position(at), direction)
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
        assert_eq!(newest("c", 1), None);
        assert_eq!(newest("bb", 9), None);
    }

    #[test]
    fn walks_both_ways_within_bounds() {
        let table = filled();
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(
            walk(&table, 9, Direction::Forward, all.0, all.1),
            ["a1", "b3", "c2"]
        );
        assert_eq!(
            walk(&table, 9, Direction::Backward, all.0, all.1),
            ["c2", "b3", "a1"]
        );
        assert_eq!(
            walk(&table, 1, Direction::Backward, all.0, all.1),
            ["b1", "a1"]
        );
        let (a, c) = (&b"a"[..], &b"c"[..]);
        assert_eq!(
            walk(
                &table,
                9,
                Direction::Forward,
                Bound::Excluded(a),
                Bound::Excluded(c)
            ),
            ["b3"]
        );
        assert_eq!(
            walk(
                &table,
                9,
                Direction::Backward,
                Bound::Excluded(a),
                Bound::Included(c)
            ),
            ["c2", "b3"]
        );
        assert_eq!(
            walk(
                &table,
                9,
                Direction::Backward,
                Bound::Included(a),
                Bound::Excluded(c)
            ),
            ["b3", "a1"]
        );
    }
}
