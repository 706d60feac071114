//! A memtable's rows: by key, and in order.
//!
//! Owns: the tables and lists. A hash finds a row; rows of one partition key stand together in a group, and groups in
//! order, so that a range is a walk. Promises: an insert never sorts (rows mostly arrive in order; where not, a walk
//! asks for it). Must not: lock, or know how far a reader may see but by the position that it names.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::hash::BuildHasher;
use std::ops::Bound;

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::arena::{Arena, Place};
use super::merge::Direction;
use super::{Effect, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;

/// No older version; no such row.
const NONE: u32 = u32::MAX;

/// Tables of numbers into lists: a look-up touches little memory, and that is what it costs.
#[derive(Default)]
pub(super) struct Rows {
    arena: Arena,
    list: Vec<Row>,
    by_key: HashTable<u32>,
    /// Versions that are not the newest of their row.
    older: Vec<Version>,
    groups: Vec<Group>,
    by_name: HashTable<u32>,
    in_order: BTreeMap<Bytes, u32>,
    hasher: RandomState,
    /// Where the effects of a batch go, while it is taken in.
    sites: Vec<Site>,
}

/// Where an effect goes; `NONE` = there is no such row or group yet.
struct Site {
    hash: u64,
    row: u32,
    group: u32,
}

/// A key and its newest version.
pub(super) struct Row {
    hash: u64,
    key: Place,
    newest: Version,
}

/// What one batch did to a row.
#[derive(Clone, Copy)]
pub(super) struct Version {
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

/// A key with its entries newest first.
pub(super) type Walked = (Bytes, Vec<Entry>);
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// How a range is walked: what it sees, which way, and so many rows at most.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) at: Position,
    pub(super) direction: Direction,
    pub(super) rows_max: usize,
}

impl Rows {
    /// An empty table with room for so many rows.
    pub(super) fn with_capacity(rows: usize) -> Rows {
        Rows {
            by_key: HashTable::with_capacity(rows),
            list: Vec::with_capacity(rows),
            ..Rows::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many groups there are.
    pub(super) fn groups(&self) -> u32 {
        number(self.groups.len())
    }

    /// Takes in what the batch at `position` does; each key once.
    pub(super) fn insert(&mut self, position: Position, effects: &[Effect], rules: &dyn Rules) {
        // A look-up is little work and much waiting for memory: side by side in loops of their own they wait together.
        let mut sites = std::mem::take(&mut self.sites);
        sites.clear();
        sites.extend(effects.iter().map(|effect| {
            let hash = self.hasher.hash_one(&effect.key[..]);
            let row = self.find_hashed(hash, &effect.key).unwrap_or(NONE);
            Site {
                hash,
                row,
                group: NONE,
            }
        }));
        for (site, effect) in sites.iter_mut().zip(effects) {
            if site.row == NONE {
                site.group = self.find_group(name_of(effect, rules)).unwrap_or(NONE);
            }
        }
        for (site, effect) in sites.iter().zip(effects) {
            self.put(position, effect, site, rules);
        }
        self.sites = sites;
    }

    fn put(&mut self, position: Position, effect: &Effect, site: &Site, rules: &dyn Rules) {
        let value = self.arena.push(&effect.value);
        let mut version = Version {
            position,
            value,
            kind: effect.kind,
            before: NONE,
        };
        if let Some(row) = self.list.get_mut(site.row as usize) {
            version.before = number(self.older.len());
            self.older.push(std::mem::replace(&mut row.newest, version));
            return;
        }
        let row = number(self.list.len());
        let key = self.arena.push(&effect.key);
        self.list.push(Row {
            hash: site.hash,
            key,
            newest: version,
        });
        let list = &self.list;
        self.by_key
            .insert_unique(site.hash, row, |&row| list[row as usize].hash);
        let group = match site.group {
            // Unless an effect before it in the batch has made it.
            NONE => self.group(name_of(effect, rules)),
            group => group,
        };
        self.groups[group as usize].rows.push(row);
    }

    /// Forgets all rows and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.list.clear();
        self.by_key.clear();
        self.older.clear();
        self.groups.clear();
        self.by_name.clear();
        self.in_order.clear();
    }

    /// The group of this name, made if there is none.
    fn group(&mut self, name: &[u8]) -> u32 {
        if let Some(group) = self.find_group(name) {
            return group;
        }
        let hash = self.hasher.hash_one(name);
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

    fn find_group(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let is_it = |&group: &u32| {
            let group = &self.groups[group as usize];
            group.hash == hash && group.name == name
        };
        self.by_name.find(hash, is_it).copied()
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&Row> {
        self.find_hashed(self.hasher.hash_one(key), key)
            .map(|row| &self.list[row as usize])
    }

    fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |&row: &u32| {
            let row = &self.list[row as usize];
            row.hash == hash && self.arena.get(row.key) == key
        };
        self.by_key.find(hash, is_it).copied()
    }

    /// A row's versions at or below `at`.
    pub(super) fn newest_first<'r>(
        &'r self,
        row: &'r Row,
        at: Position,
    ) -> impl Iterator<Item = &'r Version> {
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

    pub(super) fn entry(&self, version: &Version) -> Entry {
        Entry {
            kind: version.kind,
            value: self.arena.take(version.value),
        }
    }

    fn key(&self, row: u32) -> &[u8] {
        self.arena.get(self.list[row as usize].key)
    }

    /// Brings a group's rows into order. They mostly are.
    pub(super) fn sort(&mut self, group: u32) {
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

    /// The visible rows of a walk, last one first, and whether there may be more. `Err` names a group that must be
    /// sorted first.
    pub(super) fn chunk(&self, bounds: Bounds<'_>, walk: Walk) -> Result<(Vec<Walked>, bool), u32> {
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
                if found.len() == walk.rows_max {
                    found.reverse();
                    return Ok((found, true));
                }
            }
        }
        found.reverse();
        Ok((found, false))
    }

    /// The groups that may hold keys between two bounds. All keys of a group begin with its name, and no name begins
    /// with another, so only the last group at or below the lower bound can reach over it.
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

    /// A group's rows between two bounds. All its keys begin with its name, so only a bound that does too is looked
    /// for among them.
    fn between<'r>(&self, group: &'r Group, (from, to): Bounds<'_>) -> &'r [u32] {
        let first_not = |bound: &[u8], is_before: &dyn Fn(&[u8]) -> bool| {
            if bound.starts_with(&group.name) {
                group.rows.partition_point(|&row| is_before(self.key(row)))
            } else if *group.name < *bound {
                group.rows.len()
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
            Bound::Unbounded => group.rows.len(),
            Bound::Included(bound) => first_not(bound, &|key| key <= bound),
            Bound::Excluded(bound) => first_not(bound, &|key| key < bound),
        };
        group.rows.get(start..end).unwrap_or_default()
    }
}

/// The partition key's part of a key: what rows are grouped by.
fn name_of<'e>(effect: &'e Effect, rules: &dyn Rules) -> &'e [u8] {
    rules.filter_prefix(&effect.key).unwrap_or(&effect.key)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a memtable holds far less than 2^32 rows")
}
