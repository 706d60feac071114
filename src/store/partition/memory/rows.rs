//! A memtable's rows: by key, and in order (the walks over them are in `walk.rs`).
//!
//! Owns: the tables and lists. A hash finds a row; rows of one partition key are a group, and groups in
//! order, so that a range is a walk. Promises: an insert never sorts (rows mostly arrive in order; where not, a walk
//! asks for it). Must not: lock, or know how far a reader may see but by the position that it names.
//!
//! Nearly all of the work here is waiting for memory. So what is done to many rows is done in loops of one small step
//! each: then the processor waits for many rows at once.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::super::Rules;
use super::batches::{BatchRef, Batches};
use crate::log::Frame;
use tideline_base::entry::{Entry, EntryKind};
use tideline_base::ids::Position;

/// Bytes that an entry adds to a run beside its key and value.
pub(in super::super) const ENTRY_BYTES: usize = 32;

/// No older version; no such row.
const NONE: u32 = u32::MAX;

/// Tables of numbers into lists: a look-up touches little memory, and that is what it costs.
#[derive(Default)]
pub(in super::super) struct Rows {
    pub(in super::super) batches: Batches,
    pub(in super::super) list: Vec<Row>,
    by_key: HashTable<u32>,
    /// Versions that are not the newest of their row.
    older: Vec<Version>,
    pub(in super::super) groups: Vec<Group>,
    by_name: HashTable<u32>,
    pub(in super::super) in_order: BTreeMap<Bytes, u32>,
    hasher: RandomState,
    /// Where the entries of a batch go, while it is taken in.
    sites: Vec<Site>,
}

/// Where an entry goes; `NONE` = there is no such row or group yet.
struct Site {
    hash: u64,
    row: u32,
    group: u32,
    /// Of the group's name, for a row that is new.
    name_hash: u64,
}

/// A key and its newest version.
pub(in super::super) struct Row {
    hash: u64,
    pub(in super::super) key: BatchRef,
    pub(in super::super) newest: Version,
}

/// What one batch did to a row.
#[derive(Clone, Copy)]
pub(in super::super) struct Version {
    position: Position,
    value: BatchRef,
    pub(in super::super) kind: EntryKind,
    /// The version before, in `older`.
    before: u32,
}

/// The rows of one partition key.
pub(in super::super) struct Group {
    hash: u64,
    pub(in super::super) name: Bytes,
    pub(in super::super) rows: Vec<u32>,
    /// So many of its first rows are known to be in order.
    pub(in super::super) sorted: usize,
}

/// Some bytes of a key, behind its group's name and what all keys in hand begin with, as a number that orders most rows
/// without their keys; and the row.
pub(in super::super) type SortKey = (u128, u32);

impl Rows {
    /// An empty table with room for so many rows.
    pub(in super::super) fn with_capacity(rows: usize) -> Rows {
        Rows {
            by_key: HashTable::with_capacity(rows),
            list: Vec::with_capacity(rows),
            // An append makes two rows and one more version of its timeline's head.
            older: Vec::with_capacity(rows / 2),
            ..Rows::default()
        }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes in what a batch does; each key once.
    pub(in super::super) fn insert(&mut self, batch: &Frame, rules: &dyn Rules) {
        let mut sites = std::mem::take(&mut self.sites);
        sites.clear();
        sites.extend(batch.entries().map(|entry| Site {
            hash: self.hasher.hash_one(entry.key),
            row: NONE,
            group: NONE,
            name_hash: 0,
        }));
        for site in &mut sites {
            let is_it = |&row: &u32| self.list[row as usize].hash == site.hash;
            site.row = self.by_key.find(site.hash, is_it).copied().unwrap_or(NONE);
        }
        let found = sites.iter().filter(|site| site.row != NONE);
        look_at(found.map(|site| self.key(site.row)));
        for (site, entry) in sites.iter_mut().zip(batch.entries()) {
            // Another key's hash may be the same.
            if site.row != NONE && self.key(site.row) != entry.key {
                site.row = self.find_hashed(site.hash, entry.key).unwrap_or(NONE);
            }
            if site.row == NONE {
                site.name_hash = self.hasher.hash_one(name_of(entry.key, rules));
            }
        }
        for site in sites.iter_mut().filter(|site| site.row == NONE) {
            let is_it = |&group: &u32| self.groups[group as usize].hash == site.name_hash;
            let group = self.by_name.find(site.name_hash, is_it).copied();
            site.group = group.unwrap_or(NONE);
        }
        let found = sites.iter().filter(|site| site.group != NONE);
        look_at(found.map(|site| &self.groups[site.group as usize].name[..]));
        for (site, entry) in sites.iter_mut().zip(batch.entries()) {
            if site.group != NONE {
                let name = name_of(entry.key, rules);
                if self.groups[site.group as usize].name != name {
                    site.group = self.find_group(site.name_hash, name).unwrap_or(NONE);
                }
            }
        }
        let buffer = self.batches.push(batch);
        for (site, entry) in sites.iter().zip(batch.extents()) {
            let key = BatchRef::new(buffer, entry.key);
            let version = Version {
                position: batch.position,
                value: BatchRef::new(buffer, entry.value),
                kind: entry.kind,
                before: NONE,
            };
            self.put(key, version, site, rules);
        }
        self.sites = sites;
    }

    fn put(&mut self, key: BatchRef, version: Version, site: &Site, rules: &dyn Rules) {
        if let Some(row) = self.list.get_mut(site.row as usize) {
            let before = number(self.older.len());
            let version = Version { before, ..version };
            self.older.push(std::mem::replace(&mut row.newest, version));
            return;
        }
        let row = number(self.list.len());
        self.list.push(Row {
            hash: site.hash,
            key,
            newest: version,
        });
        let list = &self.list;
        self.by_key
            .insert_unique(site.hash, row, |&row| list[row as usize].hash);
        let group = match site.group {
            // Unless an entry before it in the batch has made it.
            NONE => self.group(site.name_hash, key, rules),
            group => group,
        };
        self.groups[group as usize].rows.push(row);
    }

    /// Forgets what batches above `position` did; gives how many bytes that were, and how many of log. Rows, groups and
    /// older versions lie in the order of the batches that made them, so those of the forgotten ones lie at the ends.
    pub(in super::super) fn discard_above(&mut self, position: Position) -> (usize, usize) {
        let (mut bytes, mut older) = (0, self.older.len());
        for row in &mut self.list {
            while row.newest.position > position {
                bytes += ENTRY_BYTES + row.key.len() + row.newest.value.len();
                let Some(before) = self.older.get(row.newest.before as usize) else {
                    break;
                };
                older = older.min(row.newest.before as usize);
                row.newest = *before;
            }
        }
        self.older.truncate(older);
        let stays = |row: &Row| row.newest.position <= position;
        let rows = self.list.partition_point(stays);
        for (number, row) in self.list.iter().enumerate().skip(rows) {
            let is_it = |&known: &u32| known as usize == number;
            if let Ok(found) = self.by_key.find_entry(row.hash, is_it) {
                found.remove();
            }
        }
        self.list.truncate(rows);
        for group in &mut self.groups {
            let stays = |row: &u32| (*row as usize) < rows;
            group.sorted = group.rows[..group.sorted]
                .iter()
                .filter(|row| stays(row))
                .count();
            group.rows.retain(stays);
        }
        while let Some(group) = self.groups.pop_if(|group| group.rows.is_empty()) {
            let number = number(self.groups.len());
            if let Ok(found) = self
                .by_name
                .find_entry(group.hash, |&known| known == number)
            {
                found.remove();
            }
            self.in_order.remove(&group.name);
        }
        (bytes, self.batches.discard_above(position))
    }

    /// Forgets all rows and keeps the memory.
    pub(in super::super) fn clear(&mut self) {
        self.batches.clear();
        self.list.clear();
        self.by_key.clear();
        self.older.clear();
        self.groups.clear();
        self.by_name.clear();
        self.in_order.clear();
    }

    /// The group of a key, whose name has this hash; made if there is none.
    fn group(&mut self, hash: u64, key: BatchRef, rules: &dyn Rules) -> u32 {
        let name = name_of(self.batches.get(key), rules);
        if let Some(group) = self.find_group(hash, name) {
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

    fn find_group(&self, hash: u64, name: &[u8]) -> Option<u32> {
        let is_it = |&group: &u32| {
            let group = &self.groups[group as usize];
            group.hash == hash && group.name == name
        };
        self.by_name.find(hash, is_it).copied()
    }

    pub(in super::super) fn find(&self, key: &[u8]) -> Option<&Row> {
        self.find_hashed(self.hasher.hash_one(key), key)
            .map(|row| &self.list[row as usize])
    }

    fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |&row: &u32| {
            let row = &self.list[row as usize];
            row.hash == hash && self.batches.get(row.key) == key
        };
        self.by_key.find(hash, is_it).copied()
    }

    /// Takes the mark from each key that may be here, as its hash says.
    pub(in super::super) fn sift(&self, keys: &[&[u8]], lacks: &mut [bool]) {
        for (&key, lacks) in keys.iter().zip(lacks) {
            let hash = self.hasher.hash_one(key);
            let is_it = |&row: &u32| self.list[row as usize].hash == hash;
            *lacks &= self.by_key.find(hash, is_it).is_none();
        }
    }

    /// A row's versions at or below `at`.
    pub(in super::super) fn newest_first<'r>(
        &'r self,
        row: &'r Row,
        at: Position,
    ) -> impl Iterator<Item = &'r Version> {
        let before = |version: &&'r Version| self.older.get(version.before as usize);
        std::iter::successors(Some(&row.newest), before)
            .skip_while(move |version| version.position > at)
    }

    pub(in super::super) fn entry(&self, version: &Version) -> Entry {
        Entry {
            kind: version.kind,
            value: self.batches.take(version.value),
        }
    }

    pub(in super::super) fn key(&self, row: u32) -> &[u8] {
        self.batches.get(self.list[row as usize].key)
    }

    /// How many rows of a group are known to be in order, and how many it has.
    pub(in super::super) fn sorted(&self, group: u32) -> (usize, usize) {
        let group = &self.groups[group as usize];
        (group.sorted, group.rows.len())
    }

    /// Notes the order of a group's first rows, if it is another than that in which they lie.
    pub(in super::super) fn set_sorted(
        &mut self,
        group: u32,
        sorted: usize,
        order: Option<&[u32]>,
    ) {
        let group = &mut self.groups[group as usize];
        if let Some(order) = order {
            group.rows[..sorted].copy_from_slice(order);
        }
        group.sorted = sorted;
    }

    /// Adds the sort keys of some of a group's rows: those bytes that follow the first `shared` behind the name.
    pub(in super::super) fn sort_keys(
        &self,
        group: u32,
        range: Range<usize>,
        shared: usize,
        keys: &mut Vec<SortKey>,
    ) {
        let Group { name, rows, .. } = &self.groups[group as usize];
        keys.extend(rows[range].iter().map(|&row| {
            // Every key of the group begins with its name.
            let rest = &self.key(row)[name.len() + shared..];
            let first = rest.first_chunk::<16>().copied().unwrap_or_else(|| {
                let mut first = [0; 16];
                first[..rest.len()].copy_from_slice(rest);
                first
            });
            (u128::from_be_bytes(first), row)
        }));
    }

    /// How many bytes behind the name all keys of a group begin with.
    pub(in super::super) fn shared_bytes(&self, group: u32) -> usize {
        let Group { name, rows, .. } = &self.groups[group as usize];
        let mut rests = rows.iter().map(|&row| &self.key(row)[name.len()..]);
        let mut shared = rests.next().unwrap_or_default();
        for rest in rests {
            while !rest.starts_with(shared) {
                shared = &shared[..shared.len() - 1];
            }
        }
        shared.len()
    }

    pub(in super::super) fn order(&self, a: &SortKey, b: &SortKey) -> Ordering {
        let by_key = || self.key(a.1).cmp(self.key(b.1));
        a.0.cmp(&b.0).then_with(by_key)
    }
}

/// Fetches many pieces into the cache at once. Comparisons alone would wait for one after the other.
fn look_at<'p>(pieces: impl Iterator<Item = &'p [u8]>) {
    let first = |piece: &[u8]| piece.first().copied().unwrap_or(0);
    std::hint::black_box(pieces.fold(0, |seen, piece| seen ^ first(piece)));
}

/// The partition key's part of a key: what rows are grouped by.
fn name_of<'k>(key: &'k [u8], rules: &dyn Rules) -> &'k [u8] {
    rules.filter_prefix(key).unwrap_or(key)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a memtable holds far less than 2^32 rows")
}
