//! What lies at users, in memory, so that a look that finds nothing new reads no store.
//!
//! Owns: bounded maps of what rows say, one kind of rows each, and the log position up to which they are true.
//! Promises: what one gives is as of the tail at the call, or it says that the rows must be read; it is fed with
//! committed batches in order, also twice. Must not: hold what nobody asks for.
//!
//! Why read rows may enter a map although batches are noted meanwhile: see the map of heads; here a batch that touches
//! what is being read takes the mark away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::entry::KeyedEntry;
use crate::ids::{PartitionId, Position, TableId};
use crate::table::{Batch, Each, Malformed, Partitions, Tail, split_key};

/// A map further behind than this is read past: rows are read meanwhile.
const BEHIND_MAX: u64 = 4_096;
/// How much of the log is fetched at once to catch up.
const CATCH_UP_BYTES: usize = 1 << 20;

/// Rows of one owner, in memory.
pub(super) trait Kept: Clone + 'static {
    /// The columns of a row's key that name its owner; `None` = such rows are not kept.
    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]>;

    /// How many rows there are.
    fn len(&self) -> usize;

    /// Takes in what became of a row.
    fn take(
        &mut self,
        table: TableId,
        columns: &[u8],
        entry: KeyedEntry<'_>,
    ) -> Result<(), Malformed>;
}

/// What the map says of an owner.
enum Slot<K> {
    /// Somebody is reading the rows.
    Asked(u64),
    Known(Arc<K>),
}

type Slots<K> = HashMap<Box<[u8]>, Slot<K>, RandomState>;

/// One partition's owners. Two generations bound it.
struct Map<K> {
    fed: Position,
    young: Slots<K>,
    old: Slots<K>,
    /// Rows in the young generation.
    count: usize,
    generation_max: usize,
    asked: u64,
}

/// One kind of rows.
pub(super) struct Memory<K> {
    partitions: Each<Own<K>>,
}

/// One partition's.
struct Own<K> {
    map: Mutex<Map<K>>,
    tail: Tail,
}

/// What a look-up gave.
pub(super) enum Looked<K> {
    /// As of the tail.
    Known(Arc<K>),
    /// Read the rows; with a number, hand them to [`Memory::settle`].
    Read(Option<u64>),
}

impl<K: Kept> Memory<K> {
    /// Up to about so many rows.
    pub(super) fn new(partitions: &Partitions, rows_max: usize) -> Memory<K> {
        let own = move |partitions: &Partitions, id| {
            let tail = partitions.tail(id);
            let map = Map {
                fed: tail.position(),
                young: Slots::default(),
                old: Slots::default(),
                count: 0,
                generation_max: (rows_max / partitions.ids().count().max(1) / 2).max(1),
                asked: 0,
            };
            let map = Mutex::new(map);
            Own { map, tail }
        };
        Memory {
            partitions: Each::new(partitions, own),
        }
    }

    pub(super) fn look_up(&self, partition: PartitionId, owner: &[u8]) -> Looked<K> {
        let own = self.partitions.of(partition);
        let is_current = own.catch_up();
        let mut map = own.map();
        if !is_current {
            return Looked::Read(None);
        }
        match map.get(owner) {
            Some(kept) => Looked::Known(kept),
            None => {
                map.asked += 1;
                let mark = map.asked;
                map.old.remove(owner);
                map.insert(owner.into(), Slot::Asked(mark), 0);
                Looked::Read(Some(mark))
            }
        }
    }

    /// Keeps what a look-up's rows said.
    pub(super) fn settle(&self, partition: PartitionId, owner: &[u8], mark: u64, kept: &Arc<K>) {
        let own = self.partitions.of(partition);
        let mut map = own.map();
        let is_asked =
            |slot: Option<&Slot<K>>| matches!(slot, Some(Slot::Asked(asked)) if *asked == mark);
        if is_asked(map.young.get(owner)) || is_asked(map.old.get(owner)) {
            map.old.remove(owner);
            map.insert(owner.into(), Slot::Known(Arc::clone(kept)), kept.len());
        }
    }
}

impl<K: Kept> Own<K> {
    /// Notes what was committed since. Whether the map is fed up to where the tail was at the call.
    fn catch_up(&self) -> bool {
        let goal = self.tail.position();
        loop {
            let mut map = self.map();
            if map.fed >= goal {
                return true;
            }
            let is_near = goal.0 - map.fed.0 <= BEHIND_MAX && !map.is_empty();
            let batches = is_near
                .then(|| self.tail.recent(map.fed, CATCH_UP_BYTES))
                .flatten();
            match batches {
                Some(batches) if !batches.is_empty() => {
                    batches.iter().for_each(|batch| map.note(batch));
                }
                _ => {
                    // Nothing here is known any more, and all of it is read again.
                    map.clear();
                    map.fed = goal;
                }
            }
        }
    }

    /// A panic elsewhere leaves no half-done state: what it may have left is read again.
    fn map(&self) -> MutexGuard<'_, Map<K>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Map<K> {
    fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.count = 0;
    }

    fn note(&mut self, batch: &Batch) {
        if batch.position <= self.fed {
            return;
        }
        self.fed = batch.position;
        for entry in batch.entries() {
            let Some((table, columns)) = split_key(entry.key) else {
                continue;
            };
            let Some(owner) = K::owner(table, columns) else {
                continue;
            };
            let young = self.young.get_mut(owner);
            let Some(slot) = young.or_else(|| self.old.get_mut(owner)) else {
                continue;
            };
            let taken = match slot {
                Slot::Known(kept) => Arc::make_mut(kept).take(table, columns, entry),
                Slot::Asked(_) => Err(Malformed),
            };
            if taken.is_err() {
                self.young.remove(owner);
                self.old.remove(owner);
            }
        }
    }

    fn get(&mut self, owner: &[u8]) -> Option<Arc<K>> {
        if let Some(slot) = self.young.get(owner) {
            return slot.known();
        }
        let (owner, slot) = self.old.remove_entry(owner)?;
        let kept = slot.known();
        let count = kept.as_ref().map_or(0, |kept| kept.len());
        self.insert(owner, slot, count);
        kept
    }

    /// A owner is in one generation only.
    fn insert(&mut self, owner: Box<[u8]>, slot: Slot<K>, count: usize) {
        if self.count >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
            self.count = 0;
        }
        self.count += count + 1;
        self.young.insert(owner, slot);
    }
}

impl<K> Slot<K> {
    fn known(&self) -> Option<Arc<K>> {
        match self {
            Slot::Known(kept) => Some(Arc::clone(kept)),
            Slot::Asked(_) => None,
        }
    }
}
