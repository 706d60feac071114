//! What a submitted closure sees and does.
//!
//! Owns: what a read in a batch is made of. Promises: a closure reads its own writes, those before it in the batch, and
//! everything committed. Must not: touch the log or the memtable.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::super::memory::merge::{Direction, Merge};
use super::super::memory::view::{Found, Rows, View, settled};
use super::super::{ReadError, Rules};
use super::pending::Pending;
use tideline_base::entry::{Entry, EntryKind, KeyedEntry};
use tideline_base::ids::Position;

/// The partition as one closure sees it: memtables, image and what this batch has done so far.
pub struct Txn<'a> {
    pending: &'a mut Pending,
    base: &'a View,
    rules: &'a Arc<dyn Rules>,
}

impl<'a> Txn<'a> {
    pub(in super::super) fn new(
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

    /// The clock's time, ms since 1970; the same for the whole batch. It may be below an earlier batch's, if the clock
    /// was set back: a caller that needs times that never fall keeps the last one with what they are of.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.pending.now_ms
    }

    /// What the layer above remembers of the rows from one closure to the next, in its own form; one type a partition.
    /// It must say what [`Txn::get`] would: the partition forgets it when a closure that wrote refuses or a batch is
    /// not written, so what writes a row must write it here too, at once.
    pub fn memo<T: Default + Send + 'static>(&mut self) -> &mut T {
        let memo = self
            .pending
            .memo
            .get_or_insert_with(|| Box::new(T::default()));
        memo.downcast_mut().expect("one type a partition")
    }

    /// The running closure has ended: what it did stays, or nothing of it.
    pub(in super::super) fn end(&mut self, stays: bool) {
        if stays {
            self.pending.keep();
        } else {
            self.pending.take_back();
        }
        self.pending.turn += 1;
    }

    /// Whether the batch is to be written before another closure runs.
    pub(in super::super) fn is_full(&self) -> bool {
        self.pending.is_full()
    }

    /// The running closure has panicked.
    pub(in super::super) fn panicked(&self) {
        self.pending.panics.increment(1);
    }

    /// Nothing that closures remember may be believed.
    pub(in super::super) fn forget(&mut self) {
        self.pending.forget();
    }

    /// How many bytes the running closure has written, if that is more than it may: nothing of it will stay, and what
    /// else it writes is only counted. One that does much work may look and end early, however it likes.
    #[must_use]
    pub fn too_large(&self) -> Option<usize> {
        self.pending.too_large
    }

    /// How many bytes a closure may write.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.pending.closure_bytes_max()
    }

    /// Bytes that the running closure has written so far, about.
    #[must_use]
    pub fn written(&self) -> usize {
        self.pending.written()
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
        let entry = staged.to_entry();
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

    /// Of keys, whether surely nothing is committed under each, this batch left out: it stays so until the batch is
    /// written. Many at once take less than one by one, which mostly waits for memory.
    #[must_use]
    pub fn lacks(&self, keys: &[&[u8]]) -> Vec<bool> {
        self.base.lacks(keys)
    }

    /// What this batch does to a key so far.
    #[must_use]
    pub fn staged(&self, key: &[u8]) -> Option<KeyedEntry<'_>> {
        self.pending.find(key)
    }

    /// The visible rows between two keys (`from` the lower, `to` the upper bound in both directions), this batch
    /// included.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Rows<'_> {
        let mut sources = self.base.sources(from, to, direction);
        sources.insert(0, self.pending.between(from, to, direction));
        settled(Merge::new(sources, direction), Arc::clone(self.rules))
    }

    /// Writes a whole row. The number returned names the entry in this batch (for change records).
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> u32 {
        self.pending
            .stage(key.as_ref(), EntryKind::Put, value.as_ref())
    }

    /// Changes some cells of a row (the bytes mean something to [`super::super::Rules`] only).
    pub fn delta(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> u32 {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some(earlier) = self.pending.find(key) else {
            return self.pending.stage(key, EntryKind::Delta, value);
        };
        let delta = Entry {
            kind: EntryKind::Delta,
            value: Bytes::copy_from_slice(value),
        };
        let entry = self.rules.compose(key, &earlier.to_entry(), &delta);
        self.pending.stage(key, entry.kind, &entry.value)
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> u32 {
        self.pending.stage(key.as_ref(), EntryKind::Tombstone, &[])
    }

    /// Adds an opaque change record to the batch, for followers of the log.
    pub fn change(&mut self, record: impl AsRef<[u8]>) {
        self.pending.change(record.as_ref());
    }
}
