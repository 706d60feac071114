//! The batch that closures fill.
//!
//! Owns: its entries, each key once, and taking back what a closure that refused did. Promises: a batch never passes
//! what a frame can hold, because it counts as full in time and what one closure may add has a bound. Must not: know
//! readers.

use std::any::Any;
use std::hash::BuildHasher as _;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::super::memory::merge::{Direction, Entries};
use crate::log::Draft;
use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::Position;
use tideline_base::metrics::Counter;

/// A batch while it is being filled.
pub(in super::super) struct Pending {
    pub(in super::super) position: Position,
    pub(in super::super) now_ms: u64,
    /// Closures that have ended.
    pub(in super::super) turn: u32,
    pub(in super::super) draft: Draft,
    limits: BatchLimits,
    /// Bytes that the frame will have at most.
    frame_bytes: usize,
    /// The same before the running closure.
    kept_bytes: usize,
    /// See [`super::super::Txn::too_large`].
    pub(in super::super) too_large: Option<usize>,
    /// Entries by the hash of their keys.
    index: HashTable<u32>,
    hasher: RandomState,
    /// See [`super::super::Txn::memo`].
    pub(in super::super) memo: Option<Box<dyn Any + Send>>,
    /// Closures that panicked.
    pub(in super::super) panics: Counter,
}

/// How large batches and closures may be.
#[derive(Clone, Copy)]
pub(in super::super) struct BatchLimits {
    /// A batch is full at so many bytes, of frame or memory.
    full_bytes: usize,
    /// What one closure may add: with it even a batch that was nearly full is a frame that the log takes.
    pub(in super::super) closure_bytes_max: usize,
}

impl BatchLimits {
    /// A batch is full at `wanted` bytes, but at half a frame at the latest.
    pub(in super::super) fn new(wanted: usize, frame_bytes_max: usize) -> BatchLimits {
        let half = frame_bytes_max / 2;
        BatchLimits {
            full_bytes: wanted.min(half),
            closure_bytes_max: frame_bytes_max - half,
        }
    }

    /// What one closure may hold in memory, what it wrote over itself included.
    fn closure_memory_max(self) -> usize {
        4 * self.closure_bytes_max
    }
}

impl Pending {
    pub(in super::super) fn new(limits: BatchLimits, panics: Counter) -> Pending {
        Pending {
            position: Position::ZERO,
            now_ms: 0,
            turn: 0,
            draft: Draft::default(),
            limits,
            frame_bytes: 0,
            kept_bytes: 0,
            too_large: None,
            index: HashTable::new(),
            hasher: RandomState::default(),
            memo: None,
            panics,
        }
    }

    /// Empties the batch and gives it its place.
    pub(in super::super) fn begin(&mut self, position: Position, now_ms: u64) {
        self.position = position;
        self.now_ms = now_ms;
        self.turn = 0;
        self.draft.clear();
        self.index.clear();
        self.frame_bytes = FRAME_BYTES;
        self.kept_bytes = FRAME_BYTES;
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.draft.is_empty()
    }

    pub(in super::super) fn is_full(&self) -> bool {
        self.frame_bytes.max(self.draft.bytes()) >= self.limits.full_bytes
    }

    /// Bounds what the next closure may add.
    pub(in super::super) fn bound_closures(&mut self, bytes_max: usize) {
        self.limits.closure_bytes_max = bytes_max;
    }

    /// What one closure may add.
    pub(in super::super) fn closure_bytes_max(&self) -> usize {
        self.limits.closure_bytes_max
    }

    /// What the running closure did stays.
    pub(in super::super) fn keep(&mut self) {
        self.draft.keep();
        self.kept_bytes = self.frame_bytes;
    }

    /// Nothing of what the running closure did stays.
    pub(in super::super) fn take_back(&mut self) {
        self.too_large = None;
        if self.draft.is_changed() {
            self.forget();
        }
        for number in self.draft.kept()..self.draft.len() {
            let hash = self.hasher.hash_one(self.draft.entry(number).key);
            let is_it = |known: &u32| *known as usize == number;
            if let Ok(entry) = self.index.find_entry(hash, is_it) {
                entry.remove();
            }
        }
        self.draft.take_back();
        self.frame_bytes = self.kept_bytes;
    }

    /// What closures did is not so: nothing that they remember may be believed.
    pub(in super::super) fn forget(&mut self) {
        self.memo = None;
    }

    /// The batch's entries between two bounds. Sorted on demand: a range inside a transaction is rare.
    pub(in super::super) fn between(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Entries<'_> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (from, to);
        let entries = self.draft.entries();
        let mut found: Vec<KeyedEntry<'_>> = entries
            .filter(|entry| RangeBounds::<[u8]>::contains(&bounds, entry.key))
            .collect();
        found.sort_unstable_by_key(|entry| entry.key);
        if direction == Direction::Backward {
            found.reverse();
        }
        Box::new(found.into_iter().map(|entry| {
            let key = Bytes::copy_from_slice(entry.key);
            Ok((key, vec![entry.to_entry()]))
        }))
    }

    /// What the batch does to a key so far.
    pub(in super::super) fn find(&self, key: &[u8]) -> Option<KeyedEntry<'_>> {
        let number = self.number_of(self.hasher.hash_one(key), key)?;
        Some(self.draft.entry(number as usize))
    }

    fn number_of(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |number: &u32| self.draft.entry(*number as usize).key == key;
        self.index.find(hash, is_it).copied()
    }

    /// Adds or replaces a key's entry; gives its number in the batch.
    pub(in super::super) fn stage(&mut self, key: &[u8], kind: EntryKind, value: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let known = self.number_of(hash, key);
        let replaced = known.map(|number| self.draft.entry(number as usize).value.len());
        let more = value.len() + replaced.map_or(ENTRY_BYTES + key.len(), |_| 0);
        if self.is_too_much(more, replaced.unwrap_or(0)) {
            return u32::MAX;
        }
        if let Some(number) = known {
            self.draft.replace(number as usize, kind, value);
            return number;
        }
        let number = u32::try_from(self.draft.len()).expect("a batch is bounded far below 2^32");
        self.draft.push(KeyedEntry { key, kind, value });
        let (draft, hasher) = (&self.draft, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(draft.entry(*number as usize).key);
        self.index.insert_unique(hash, number, hash_of);
        number
    }

    pub(in super::super) fn change(&mut self, record: &[u8]) {
        if !self.is_too_much(RECORD_BYTES + record.len(), 0) {
            self.draft.change(record);
        }
    }

    /// Counts bytes that are to be written in place of `less`. Whether the running closure passes its bound by them.
    fn is_too_much(&mut self, more: usize, less: usize) -> bool {
        if let Some(bytes) = &mut self.too_large {
            *bytes += more;
            return true;
        }
        let frame_bytes = self.frame_bytes + more - less;
        let own = frame_bytes.saturating_sub(self.kept_bytes);
        // What is replaced takes memory until the batch is written.
        let memory = self.draft.bytes_since_kept() + more;
        if own > self.limits.closure_bytes_max || memory > self.limits.closure_memory_max() {
            self.too_large = Some(own.max(memory));
            return true;
        }
        self.frame_bytes = frame_bytes;
        false
    }

    /// Bytes that the running closure has written so far, about.
    pub(in super::super) fn written(&self) -> usize {
        self.draft.bytes_since_kept()
    }
}

/// Bytes of a frame beside its entries and records, at most.
const FRAME_BYTES: usize = 128;
/// Bytes of an entry beside key and value: its kind, two lengths.
const ENTRY_BYTES: usize = 11;
/// Bytes of a change record's length.
const RECORD_BYTES: usize = 5;
