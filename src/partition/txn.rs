//! What a submitted closure sees and does, and the batch that closures fill.
//!
//! Owns: the pending batch (each key once) and taking back what a refused closure did. Promises: a closure reads its
//! own writes, those before it in the batch, and everything committed. Must not: touch the log or the memtable.

use std::any::Any;
use std::hash::BuildHasher as _;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::merge::{Direction, Entries, Merge};
use super::view::{Found, Rows, View, settled};
use super::{ReadError, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;
use crate::log::EffectRef;

/// The partition as one closure sees it: memtables, image and what this batch has done so far.
pub struct Txn<'a> {
    pending: &'a mut Pending,
    base: &'a View,
    rules: &'a Arc<dyn Rules>,
}

impl<'a> Txn<'a> {
    pub(super) fn new(
        pending: &'a mut Pending,
        base: &'a View,
        rules: &'a Arc<dyn Rules>,
    ) -> Txn<'a> {
        Txn {
            pending,
            base,
            rules,
        }
    }

    /// The position that this batch gets.
    #[must_use]
    pub fn position(&self) -> Position {
        self.pending.position
    }

    /// The running closure's number in its batch, from 0: with the position it names the closure for ever.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.pending.turn
    }

    /// The batch's commit time, ms since 1970; the same for the whole batch, never below an earlier batch's.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.pending.now_ms
    }

    /// What the layer above remembers of the rows from one closure to the next, in its own form; one type a partition.
    /// It must say what [`Txn::get`] would: the partition forgets it when a closure that wrote refuses or a batch is
    /// not written, so whoever writes a row must write it here too, at once.
    pub fn memo<T: Default + Send + 'static>(&mut self) -> &mut T {
        let memo = self
            .pending
            .memo
            .get_or_insert_with(|| Box::new(T::default()));
        memo.downcast_mut().expect("one type a partition")
    }

    /// The running closure has ended: what it did stands, or nothing of it.
    pub(super) fn end(&mut self, stands: bool) {
        if stands {
            self.pending.keep();
        } else {
            self.pending.take_back();
        }
        self.pending.turn += 1;
    }

    /// The newest value of a key, this batch included. `Err` = damage or a failing disk.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        Ok(self.get_some(key, None)?.value)
    }

    /// The same, and what it is made of; see [`View::get_some`].
    pub fn get_some(&self, key: &[u8], wanted: Option<&[&str]>) -> Result<Found, ReadError> {
        let Some(staged) = self.pending.find(key) else {
            return self.base.get_some(key, wanted);
        };
        let entry = self.pending.entry(&staged);
        let narrowed = wanted.and_then(|wanted| self.rules.narrow(&entry, wanted));
        let whole_bytes = entry.value.len();
        let entry = narrowed.unwrap_or(entry);
        let left_bytes = (whole_bytes - entry.value.len()) as u64;
        match staged.kind {
            EntryKind::Put => Ok(Found {
                value: Some(entry.value),
                left_bytes,
                deltas: 0,
            }),
            EntryKind::Tombstone => Ok(Found::default()),
            EntryKind::Delta => {
                let below = self.base.get_some(key, wanted)?;
                let older = below.value.map_or_else(Entry::tombstone, Entry::put);
                let merged = self.rules.compose(key, &older, &entry);
                Ok(Found {
                    value: (merged.kind == EntryKind::Put).then_some(merged.value),
                    left_bytes: left_bytes + below.left_bytes,
                    deltas: below.deltas + 1,
                })
            }
        }
    }

    /// The visible rows between two keys (`from` the lower, `to` the upper bound in both directions), this batch
    /// included.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Rows<'_> {
        let mut sources = self.base.sources(from, to, direction);
        sources.insert(0, self.pending.between(from, to, direction));
        settled(Merge::new(sources, direction), Arc::clone(self.rules))
    }

    /// Writes a whole row. The number returned names the effect in this batch (for change records).
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> u32 {
        self.pending
            .stage(key.as_ref(), EntryKind::Put, value.as_ref())
    }

    /// Changes some cells of a row (the bytes mean something to [`super::Rules`] only).
    pub fn delta(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> u32 {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some(earlier) = self.pending.find(key) else {
            return self.pending.stage(key, EntryKind::Delta, value);
        };
        let delta = Entry {
            kind: EntryKind::Delta,
            value: Bytes::copy_from_slice(value),
        };
        let entry = self
            .rules
            .compose(key, &self.pending.entry(&earlier), &delta);
        self.pending.stage(key, entry.kind, &entry.value)
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> u32 {
        self.pending.stage(key.as_ref(), EntryKind::Tombstone, &[])
    }

    /// Adds an opaque change record to the batch, for those who follow the log.
    pub fn change(&mut self, record: impl AsRef<[u8]>) {
        let record = self.pending.hold(record.as_ref());
        self.pending.changes.push(record);
    }
}

/// A batch while it is being filled.
pub(super) struct Pending {
    pub(super) position: Position,
    pub(super) now_ms: u64,
    /// Closures that have ended.
    turn: u32,
    /// The bytes of keys, values and records one behind the other, so that a batch costs no memory of its own.
    held: Vec<u8>,
    effects: Vec<Staged>,
    changes: Vec<Span>,
    /// Effects by the hash of their keys.
    index: HashTable<u32>,
    hasher: RandomState,
    /// See [`Txn::memo`].
    memo: Option<Box<dyn Any + Send>>,
    /// What the running closure replaced, to be put back if it refuses.
    replaced: Vec<(u32, Staged)>,
    mark: Mark,
}

/// A place in what is held.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    bytes: usize,
}

/// An effect of the batch.
#[derive(Clone, Copy)]
struct Staged {
    key: Span,
    kind: EntryKind,
    value: Span,
}

/// How far the batch was before the running closure.
#[derive(Clone, Copy, Default)]
struct Mark {
    effects: usize,
    changes: usize,
    held: usize,
}

impl Pending {
    pub(super) fn new() -> Pending {
        Pending {
            position: Position::ZERO,
            now_ms: 0,
            turn: 0,
            held: Vec::new(),
            effects: Vec::new(),
            changes: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::default(),
            memo: None,
            replaced: Vec::new(),
            mark: Mark::default(),
        }
    }

    /// Empties the batch and gives it its place.
    pub(super) fn begin(&mut self, position: Position, now_ms: u64) {
        self.position = position;
        self.now_ms = now_ms;
        self.turn = 0;
        self.effects.clear();
        self.changes.clear();
        self.index.clear();
        self.held.clear();
        self.held.shrink_to(HELD_KEPT_BYTES);
        self.keep();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.changes.is_empty()
    }

    /// Payload bytes so far, about.
    pub(super) fn bytes(&self) -> usize {
        self.held.len()
    }

    /// What the batch does, each key once.
    pub(super) fn effects(&self) -> impl Iterator<Item = EffectRef<'_>> + Clone {
        self.effects.iter().map(|staged| EffectRef {
            key: self.at(staged.key),
            kind: staged.kind,
            value: self.at(staged.value),
        })
    }

    /// The change records.
    pub(super) fn changes(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.changes.iter().map(|record| self.at(*record))
    }

    /// The running closure stands.
    fn keep(&mut self) {
        self.replaced.clear();
        self.mark = Mark {
            effects: self.effects.len(),
            changes: self.changes.len(),
            held: self.held.len(),
        };
    }

    /// The running closure refused: nothing of it stays.
    fn take_back(&mut self) {
        if !self.replaced.is_empty() || self.effects.len() > self.mark.effects {
            self.forget();
        }
        while let Some((index, before)) = self.replaced.pop() {
            self.effects[index as usize] = before;
        }
        for index in self.mark.effects..self.effects.len() {
            let hash = self.hasher.hash_one(self.at(self.effects[index].key));
            let is_it = |known: &u32| *known as usize == index;
            if let Ok(entry) = self.index.find_entry(hash, is_it) {
                entry.remove();
            }
        }
        self.effects.truncate(self.mark.effects);
        self.changes.truncate(self.mark.changes);
        self.held.truncate(self.mark.held);
    }

    /// What closures did is not so: nothing that they remember may be believed.
    pub(super) fn forget(&mut self) {
        self.memo = None;
    }

    /// The batch's entries between two bounds. Sorted on demand: a range inside a transaction is rare.
    fn between(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Entries<'_> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (from, to);
        let mut found: Vec<&Staged> = self
            .effects
            .iter()
            .filter(|staged| RangeBounds::<[u8]>::contains(&bounds, self.at(staged.key)))
            .collect();
        found.sort_unstable_by_key(|staged| self.at(staged.key));
        if direction == Direction::Backward {
            found.reverse();
        }
        Box::new(found.into_iter().map(|staged| {
            let key = Bytes::copy_from_slice(self.at(staged.key));
            Ok((key, vec![self.entry(staged)]))
        }))
    }

    fn find(&self, key: &[u8]) -> Option<Staged> {
        let index = self.index_of(self.hasher.hash_one(key), key)?;
        Some(self.effects[index as usize])
    }

    fn index_of(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |index: &u32| self.at(self.effects[*index as usize].key) == key;
        self.index.find(hash, is_it).copied()
    }

    fn stage(&mut self, key: &[u8], kind: EntryKind, value: &[u8]) -> u32 {
        let value = self.hold(value);
        let hash = self.hasher.hash_one(key);
        if let Some(index) = self.index_of(hash, key) {
            let staged = &mut self.effects[index as usize];
            if (index as usize) < self.mark.effects {
                self.replaced.push((index, *staged));
            }
            (staged.kind, staged.value) = (kind, value);
            return index;
        }
        let index =
            u32::try_from(self.effects.len()).expect("a batch is bounded far below 2^32 effects");
        let key = self.hold(key);
        self.effects.push(Staged { key, kind, value });
        let Pending {
            index: indexes,
            hasher,
            effects,
            held,
            ..
        } = self;
        let hash_of = |index: &u32| hasher.hash_one(effects[*index as usize].key.of(held));
        indexes.insert_unique(hash, index, hash_of);
        index
    }

    fn hold(&mut self, bytes: &[u8]) -> Span {
        let start = self.held.len();
        self.held.extend_from_slice(bytes);
        Span {
            start,
            bytes: bytes.len(),
        }
    }

    fn at(&self, span: Span) -> &[u8] {
        span.of(&self.held)
    }

    /// A copy that stands alone.
    fn entry(&self, staged: &Staged) -> Entry {
        Entry {
            kind: staged.kind,
            value: Bytes::copy_from_slice(self.at(staged.value)),
        }
    }
}

impl Span {
    fn of(self, held: &[u8]) -> &[u8] {
        &held[self.start..self.start + self.bytes]
    }
}

/// Memory that is kept from one batch to the next; some batches are much larger.
const HELD_KEPT_BYTES: usize = 8 << 20;
