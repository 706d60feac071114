//! The batch that closures fill.
//!
//! Owns: its effects, each key once, and taking back what a closure that fell did. Promises: a batch never passes what
//! a frame can hold, because it counts as full in time and what one closure may add has a bound. Must not: know who
//! reads.

use std::any::Any;
use std::hash::BuildHasher as _;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::merge::{Direction, Entries};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;
use crate::log::{EffectRef, FRAME_BYTES_MAX};
use crate::metrics::Counter;

/// A batch while it is being filled.
pub(super) struct Pending {
    pub(super) position: Position,
    pub(super) now_ms: u64,
    /// Closures that have ended.
    pub(super) turn: u32,
    /// The bytes of keys, values and records one behind the other, so that a batch costs no memory of its own.
    held: Vec<u8>,
    effects: Vec<Staged>,
    changes: Vec<Span>,
    /// Bytes that the frame will have at most.
    frame_bytes: usize,
    /// Bytes after which the batch is full.
    enough: usize,
    /// See [`super::Txn::over`].
    pub(super) over: Option<usize>,
    /// Effects by the hash of their keys.
    index: HashTable<u32>,
    hasher: RandomState,
    /// See [`super::Txn::memo`].
    pub(super) memo: Option<Box<dyn Any + Send>>,
    /// What the running closure replaced, to be put back if it refuses.
    replaced: Vec<(u32, Staged)>,
    mark: Mark,
    /// Closures that panicked.
    pub(super) panics: Counter,
}

/// A place in what is held.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    bytes: usize,
}

/// An effect of the batch.
#[derive(Clone, Copy)]
pub(super) struct Staged {
    key: Span,
    pub(super) kind: EntryKind,
    value: Span,
}

/// How far the batch was before the running closure.
#[derive(Clone, Copy, Default)]
struct Mark {
    effects: usize,
    changes: usize,
    held: usize,
    frame_bytes: usize,
}

impl Pending {
    /// A batch is full at `enough` bytes, of frame or memory.
    pub(super) fn new(enough: usize, panics: Counter) -> Pending {
        Pending {
            frame_bytes: 0,
            // A larger one and one more closure would not fit into a frame.
            enough: enough.min(BATCH_BYTES_MAX),
            over: None,
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
            panics,
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
        self.frame_bytes = FRAME_BYTES;
        self.keep();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.changes.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.frame_bytes >= self.enough || self.held.len() >= self.enough
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
    pub(super) fn keep(&mut self) {
        self.replaced.clear();
        self.mark = Mark {
            effects: self.effects.len(),
            changes: self.changes.len(),
            held: self.held.len(),
            frame_bytes: self.frame_bytes,
        };
    }

    /// The running closure refused: nothing of it stays.
    pub(super) fn take_back(&mut self) {
        self.over = None;
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
        self.frame_bytes = self.mark.frame_bytes;
    }

    /// What closures did is not so: nothing that they remember may be believed.
    pub(super) fn forget(&mut self) {
        self.memo = None;
    }

    /// The batch's entries between two bounds. Sorted on demand: a range inside a transaction is rare.
    pub(super) fn between(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Entries<'_> {
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

    pub(super) fn find(&self, key: &[u8]) -> Option<Staged> {
        let index = self.index_of(self.hasher.hash_one(key), key)?;
        Some(self.effects[index as usize])
    }

    fn index_of(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |index: &u32| self.at(self.effects[*index as usize].key) == key;
        self.index.find(hash, is_it).copied()
    }

    pub(super) fn stage(&mut self, key: &[u8], kind: EntryKind, value: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let known = self.index_of(hash, key);
        let freed = known.map(|index| self.effects[index as usize].value.bytes);
        let more = value.len() + freed.map_or(EFFECT_BYTES + key.len(), |_| 0);
        if self.passes(more, freed.unwrap_or(0)) {
            return u32::MAX;
        }
        let value = self.hold(value);
        if let Some(index) = known {
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

    pub(super) fn record(&mut self, record: &[u8]) {
        if !self.passes(RECORD_BYTES + record.len(), 0) {
            let record = self.hold(record);
            self.changes.push(record);
        }
    }

    /// Counts bytes that are to be written in place of `less`. Whether the running closure passes its bound by them.
    fn passes(&mut self, more: usize, less: usize) -> bool {
        if let Some(over) = &mut self.over {
            *over += more;
            return true;
        }
        let frame_bytes = self.frame_bytes + more - less;
        let own = frame_bytes.saturating_sub(self.mark.frame_bytes);
        // What is replaced takes memory until the batch is written.
        let held = self.held.len() - self.mark.held + more;
        if own > MEMBER_BYTES_MAX || held > MEMBER_HELD_BYTES_MAX {
            self.over = Some(own.max(held));
            return true;
        }
        self.frame_bytes = frame_bytes;
        false
    }

    /// Bytes that the running closure has written so far, about.
    pub(super) fn written(&self) -> usize {
        self.held.len() - self.mark.held
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
    pub(super) fn entry(&self, staged: &Staged) -> Entry {
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

/// Bytes of a frame beside its effects and records, at most.
const FRAME_BYTES: usize = 128;
/// Bytes of an effect beside key and value: its kind, two lengths.
const EFFECT_BYTES: usize = 11;
/// Bytes of a change record's length.
const RECORD_BYTES: usize = 5;

/// A batch is full at so many bytes at the latest.
pub const BATCH_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;
/// What one closure may add to a batch: with it even a batch that was nearly full is a frame that the log takes.
pub const MEMBER_BYTES_MAX: usize = FRAME_BYTES_MAX - BATCH_BYTES_MAX;
/// What one closure may hold in memory, what it wrote over itself included.
const MEMBER_HELD_BYTES_MAX: usize = 4 * MEMBER_BYTES_MAX;

/// Memory that is kept from one batch to the next; some batches are much larger.
const HELD_KEPT_BYTES: usize = 8 << 20;
