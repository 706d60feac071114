//! What a submitted closure sees and does, and the batch that closures fill.
//!
//! Owns: the pending batch (each key once) and taking back what a refused closure did. Promises: a closure reads its
//! own writes, those before it in the batch, and everything committed. Must not: touch the log or the memtable.

use std::any::Any;
use std::collections::HashMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::merge::{Direction, Entries, Merge};
use super::view::{Rows, View, settled};
use super::{Effect, ReadError, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;

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
    }

    /// The newest value of a key, this batch included. `Err` = damage or a failing disk.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        let Some(effect) = self.pending.find(key) else {
            return self.base.get(key);
        };
        match effect.kind {
            EntryKind::Put => Ok(Some(effect.value.clone())),
            EntryKind::Tombstone => Ok(None),
            EntryKind::Delta => {
                let older = self.base.get(key)?;
                let older = older.map_or_else(Entry::tombstone, Entry::put);
                let merged = self.rules.compose(key, &older, &effect.entry());
                Ok((merged.kind == EntryKind::Put).then_some(merged.value))
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
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> u32 {
        self.pending.stage(key.into(), Entry::put(value.into()))
    }

    /// Changes some cells of a row (the bytes mean something to [`super::Rules`] only).
    pub fn delta(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> u32 {
        let key = key.into();
        let delta = Entry {
            kind: EntryKind::Delta,
            value: value.into(),
        };
        let entry = match self.pending.find(&key) {
            Some(earlier) => self.rules.compose(&key, &earlier.entry(), &delta),
            None => delta,
        };
        self.pending.stage(key, entry)
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: impl Into<Bytes>) -> u32 {
        self.pending.stage(key.into(), Entry::tombstone())
    }

    /// Adds an opaque change record to the batch, for those who follow the log.
    pub fn change(&mut self, record: impl Into<Bytes>) {
        let record = record.into();
        self.pending.bytes += record.len();
        self.pending.changes.push(record);
    }
}

/// A batch while it is being filled.
pub(super) struct Pending {
    pub(super) position: Position,
    pub(super) now_ms: u64,
    pub(super) effects: Vec<Effect>,
    pub(super) changes: Vec<Bytes>,
    /// Payload bytes so far, about.
    pub(super) bytes: usize,
    index: HashMap<Bytes, u32, RandomState>,
    /// See [`Txn::memo`].
    memo: Option<Box<dyn Any + Send>>,
    /// What the running closure replaced, to be put back if it refuses.
    replaced: Vec<(u32, Entry)>,
    mark: Mark,
}

/// How far the batch was before the running closure.
#[derive(Clone, Copy, Default)]
struct Mark {
    effects: usize,
    changes: usize,
    bytes: usize,
}

impl Pending {
    pub(super) fn new() -> Pending {
        Pending {
            position: Position::ZERO,
            now_ms: 0,
            effects: Vec::new(),
            changes: Vec::new(),
            bytes: 0,
            index: HashMap::default(),
            memo: None,
            replaced: Vec::new(),
            mark: Mark::default(),
        }
    }

    /// Empties the batch and gives it its place.
    pub(super) fn begin(&mut self, position: Position, now_ms: u64) {
        self.position = position;
        self.now_ms = now_ms;
        self.effects.clear();
        self.changes.clear();
        self.index.clear();
        self.bytes = 0;
        self.keep();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.changes.is_empty()
    }

    /// The running closure stands.
    fn keep(&mut self) {
        self.replaced.clear();
        self.mark = Mark {
            effects: self.effects.len(),
            changes: self.changes.len(),
            bytes: self.bytes,
        };
    }

    /// The running closure refused: nothing of it stays.
    fn take_back(&mut self) {
        if !self.replaced.is_empty() || self.effects.len() > self.mark.effects {
            self.forget();
        }
        while let Some((index, entry)) = self.replaced.pop() {
            let effect = &mut self.effects[index as usize];
            (effect.kind, effect.value) = (entry.kind, entry.value);
        }
        for effect in self.effects.drain(self.mark.effects..) {
            self.index.remove(&effect.key);
        }
        self.changes.truncate(self.mark.changes);
        self.bytes = self.mark.bytes;
    }

    /// What closures did is not so: nothing that they remember may be believed.
    pub(super) fn forget(&mut self) {
        self.memo = None;
    }

    /// The batch's entries between two bounds. Sorted on demand: a range inside a transaction is rare.
    fn between(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Entries<'_> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (from, to);
        let mut found: Vec<&Effect> = self
            .effects
            .iter()
            .filter(|effect| RangeBounds::<[u8]>::contains(&bounds, effect.key.as_ref()))
            .collect();
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if direction == Direction::Backward {
            found.reverse();
        }
        Box::new(
            found
                .into_iter()
                .map(|effect| Ok((effect.key.clone(), vec![effect.entry()]))),
        )
    }

    fn find(&self, key: &[u8]) -> Option<&Effect> {
        self.index
            .get(key)
            .map(|&index| &self.effects[index as usize])
    }

    fn stage(&mut self, key: Bytes, entry: Entry) -> u32 {
        self.bytes += entry.value.len();
        if let Some(&index) = self.index.get(&key) {
            let effect = &mut self.effects[index as usize];
            let before = Entry {
                kind: effect.kind,
                value: std::mem::replace(&mut effect.value, entry.value),
            };
            effect.kind = entry.kind;
            if (index as usize) < self.mark.effects {
                self.replaced.push((index, before));
            }
            return index;
        }
        let index =
            u32::try_from(self.effects.len()).expect("a batch is bounded far below 2^32 effects");
        self.bytes += key.len();
        self.index.insert(key.clone(), index);
        self.effects.push(Effect {
            key,
            kind: entry.kind,
            value: entry.value,
        });
        index
    }
}
