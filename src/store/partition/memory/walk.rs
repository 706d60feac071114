//! Walks over a memtable's rows in order.
//!
//! Owns: what a range of rows shows to a reader at a position, and what all of them come to for the flush.
//! Promises: changes nothing; a group that a range needs sorted is named instead. Must not: lock.

use std::collections::VecDeque;
use std::collections::btree_map::Range;
use std::ops::Bound;

use bytes::Bytes;

use super::super::Rules;
use super::merge::{Direction, Stack};
use super::rows::{Group, Row, Rows, SortKey};
use tideline_base::entry::{Entry, EntryKind};
use tideline_base::ids::Position;

/// A key with its entries newest first.
pub(in super::super) type Walked = (Bytes, Vec<Entry>);
pub(in super::super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// How a range is walked: what it sees, which way, and so many rows at most.
#[derive(Clone, Copy)]
pub(in super::super) struct Walk {
    pub(in super::super) at: Position,
    pub(in super::super) direction: Direction,
    pub(in super::super) rows_max: usize,
}

impl Rows {
    /// The visible rows of a walk, last one first, and whether there may be more. `Err` names a group that must be
    /// sorted first.
    pub(in super::super) fn chunk(
        &self,
        bounds: Bounds<'_>,
        walk: Walk,
    ) -> Result<(Vec<Walked>, bool), u32> {
        let mut found = Vec::new();
        let mut groups = self.groups_between(bounds);
        let mut next = || match walk.direction {
            Direction::Forward => groups.next(),
            Direction::Backward => groups.next_back(),
        };
        while let Some((_, &group)) = next() {
            let rows = &self.groups[group as usize];
            if self.is_unsorted(rows, walk.at) {
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
                    found.push((self.batches.take(row.key), entries));
                }
                if found.len() == walk.rows_max {
                    found.reverse();
                    return Ok((found, true));
                }
            }
        }
        found.reverse();
        Ok((found, false))
    }

    /// Whether rows that may be seen at `at` are not known to be in order. The others lie in the order in which they
    /// came, so if the first of them came later, all did.
    fn is_unsorted(&self, group: &Group, at: Position) -> bool {
        let first = group.rows.get(group.sorted);
        first.is_some_and(|&row| {
            let row = &self.list[row as usize];
            self.newest_first(row, at).next().is_some()
        })
    }

    /// The groups that may hold keys between two bounds. All keys of a group begin with its name, and no name begins
    /// with another, so only the last group at or below the lower bound can reach above it.
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

    /// A group's rows in order between two bounds. All its keys begin with its name, so only a bound that does too is
    /// looked for among them.
    fn between<'r>(&self, group: &'r Group, (from, to): Bounds<'_>) -> &'r [u32] {
        let sorted = &group.rows[..group.sorted];
        let first_not = |bound: &[u8], is_before: &dyn Fn(&[u8]) -> bool| {
            if bound.starts_with(&group.name) {
                sorted.partition_point(|&row| is_before(self.key(row)))
            } else if *group.name < *bound {
                sorted.len()
            } else {
                0
            }
        };
        let start = match from {
            Bound::Unbounded => 0,
            Bound::Included(bound) => first_not(bound, &|key| key < bound),
            Bound::Excluded(bound) => first_not(bound, &|key| key <= bound),
        };
        let end = match to {
            Bound::Unbounded => sorted.len(),
            Bound::Included(bound) => first_not(bound, &|key| key <= bound),
            Bound::Excluded(bound) => first_not(bound, &|key| key < bound),
        };
        sorted.get(start..end).unwrap_or_default()
    }

    /// Adds all rows of a group to `out`, in order, each with one entry that does what all of its entries do. Changes
    /// nothing, so that others may read meanwhile; `keys` is memory to work in.
    pub(in super::super) fn collapse(
        &self,
        group: u32,
        rules: &dyn Rules,
        keys: &mut Vec<SortKey>,
        out: &mut VecDeque<(Bytes, Entry)>,
    ) {
        keys.clear();
        // Rows of one sender, say, differ only far behind the name.
        let shared = self.shared_bytes(group);
        self.sort_keys(group, 0..self.sorted(group).1, shared, keys);
        keys.sort_by(|a, b| self.order(a, b));
        for &(_, row) in &*keys {
            let row = &self.list[row as usize];
            let key = self.batches.take(row.key);
            let entry = match row.newest.kind {
                EntryKind::Put | EntryKind::Tombstone => self.entry(&row.newest),
                EntryKind::Delta => self.collapse_deltas(row, &key, rules),
            };
            out.push_back((key, entry));
        }
    }

    fn collapse_deltas(&self, row: &Row, key: &[u8], rules: &dyn Rules) -> Entry {
        let mut stack = Stack::default();
        let mut versions = self.newest_first(row, Position(u64::MAX));
        while versions
            .next()
            .is_some_and(|version| stack.push(self.entry(version)))
        {}
        stack.collapse(key, rules).expect("a row has a version")
    }

    /// All groups in order.
    pub(in super::super) fn groups_in_order(&self) -> Vec<u32> {
        self.in_order.values().copied().collect()
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
}
