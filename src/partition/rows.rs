//! A memtable's rows: by key, and in order (the walks over them are in `walk.rs`).
//!
//! Owns: the tables and lists. A hash finds a row; rows of one partition key stand together in a group, and groups in
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

use super::arena::{Arena, Place};
use super::{Effect, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;

/// No older version; no such row.
const NONE: u32 = u32::MAX;

/// Tables of numbers into lists: a look-up touches little memory, and that is what it costs.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) arena: Arena,
    pub(super) list: Vec<Row>,
    by_key: HashTable<u32>,
    /// Versions that are not the newest of their row.
    older: Vec<Version>,
    pub(super) groups: Vec<Group>,
    by_name: HashTable<u32>,
    pub(super) in_order: BTreeMap<Bytes, u32>,
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
    pub(super) key: Place,
    pub(super) newest: Version,
}

/// What one batch did to a row.
#[derive(Clone, Copy)]
pub(super) struct Version {
    position: Position,
    value: Place,
    pub(super) kind: EntryKind,
    /// The version before, in `older`.
    before: u32,
}

/// The rows of one partition key.
pub(super) struct Group {
    hash: u64,
    pub(super) name: Bytes,
    pub(super) rows: Vec<u32>,
    /// So many of its first rows are known to be in order.
    pub(super) sorted: usize,
}

/// The first bytes of a key behind its group's name, as a number that orders most rows without their keys; and the row.
pub(super) type Head = (u128, u32);

impl Rows {
    /// An empty table with room for so many rows.
    pub(super) fn with_capacity(rows: usize) -> Rows {
        Rows {
            by_key: HashTable::with_capacity(rows),
            list: Vec::with_capacity(rows),
            // An append makes two rows and one more version of its timeline's head.
            older: Vec::with_capacity(rows / 2),
            ..Rows::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes in what the batch at `position` does; each key once.
    pub(super) fn insert(&mut self, position: Position, effects: &[Effect], rules: &dyn Rules) {
        let mut sites = std::mem::take(&mut self.sites);
        sites.clear();
        sites.extend(effects.iter().map(|effect| Site {
            hash: self.hasher.hash_one(&effect.key[..]),
            row: NONE,
            group: NONE,
        }));
        for site in &mut sites {
            let is_it = |&row: &u32| self.list[row as usize].hash == site.hash;
            site.row = self.by_key.find(site.hash, is_it).copied().unwrap_or(NONE);
        }
        for (site, effect) in sites.iter_mut().zip(effects) {
            // Another key's hash may be the same.
            if site.row != NONE && self.key(site.row) != effect.key {
                site.row = self.find_hashed(site.hash, &effect.key).unwrap_or(NONE);
            }
        }
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
        if let Some(row) = self.list.get_mut(site.row as usize) {
            let before = number(self.older.len());
            let version = version(&mut self.arena, position, effect, before);
            self.older.push(std::mem::replace(&mut row.newest, version));
            return;
        }
        let row = number(self.list.len());
        // The key right before the value: who reads both reads on.
        let key = self.arena.push(&effect.key);
        let newest = version(&mut self.arena, position, effect, NONE);
        self.list.push(Row {
            hash: site.hash,
            key,
            newest,
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

    pub(super) fn entry(&self, version: &Version) -> Entry {
        Entry {
            kind: version.kind,
            value: self.arena.take(version.value),
        }
    }

    pub(super) fn key(&self, row: u32) -> &[u8] {
        self.arena.get(self.list[row as usize].key)
    }

    /// How many rows of a group are known to be in order, and how many it has.
    pub(super) fn sorted(&self, group: u32) -> (usize, usize) {
        let group = &self.groups[group as usize];
        (group.sorted, group.rows.len())
    }

    /// Notes the order of a group's first rows, if it is another than that in which they lie.
    pub(super) fn set_sorted(&mut self, group: u32, sorted: usize, order: Option<&[u32]>) {
        let group = &mut self.groups[group as usize];
        if let Some(order) = order {
            group.rows[..sorted].copy_from_slice(order);
        }
        group.sorted = sorted;
    }

    /// Adds the heads of some of a group's rows.
    pub(super) fn heads(&self, group: u32, range: Range<usize>, heads: &mut Vec<Head>) {
        let Group { name, rows, .. } = &self.groups[group as usize];
        heads.extend(rows[range].iter().map(|&row| {
            // Every key of the group begins with its name.
            let rest = &self.key(row)[name.len()..];
            let head = rest.first_chunk::<16>().copied().unwrap_or_else(|| {
                let mut head = [0; 16];
                head[..rest.len()].copy_from_slice(rest);
                head
            });
            (u128::from_be_bytes(head), row)
        }));
    }

    pub(super) fn order(&self, a: &Head, b: &Head) -> Ordering {
        let by_key = || self.key(a.1).cmp(self.key(b.1));
        a.0.cmp(&b.0).then_with(by_key)
    }
}

fn version(arena: &mut Arena, position: Position, effect: &Effect, before: u32) -> Version {
    Version {
        position,
        value: arena.push(&effect.value),
        kind: effect.kind,
        before,
    }
}

/// The partition key's part of a key: what rows are grouped by.
fn name_of<'e>(effect: &'e Effect, rules: &dyn Rules) -> &'e [u8] {
    rules.filter_prefix(&effect.key).unwrap_or(&effect.key)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a memtable holds far less than 2^32 rows")
}
