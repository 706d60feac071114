//! What rows say, in memory, so that a look that finds nothing new reads no store.
//!
//! Owns: bounded maps of rows by their owners, and for each partition the log position up to which its map is true.
//! Promises: what a map returns is as of the tail at the call, or the map says that the rows must be read. Anyone may
//! note committed batches, in order, also twice. Must not: hold what nobody asks for.
//!
//! Why read rows may enter a map although batches are noted meanwhile: the asker leaves a mark with a number of its own
//! before it reads. A batch that touches the owner replaces the mark by what it made, or takes it away; then the read
//! comes too late and is not kept. If the mark is still there, no batch noted since has touched the owner, and the read
//! is no older than the map was when the mark was set; batches that the read shows and the map has not noted yet will
//! be noted, before the map counts as fed up to any tail that a later caller sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use super::{Batch, Each, Malformed, Partitions, Tail, split_key};
use tideline_base::entry::KeyedEntry;
use tideline_base::ids::{PartitionId, Position, TableId};

/// How much of the log is fetched at once to catch up.
const CATCH_UP_BYTES: usize = 1 << 20;

/// Rows of one owner, in memory.
pub trait Kept: Clone + 'static {
    /// A look brings a map up to date if the map is at most so many batches behind.
    const BEHIND_MAX: u64 = 4_096;
    /// Whether a follower of the log notes every batch. While such a map is too far behind it stays as it is, and rows
    /// are read. Any other map that is too far behind is emptied, and begins anew at the tail.
    const IS_FED: bool = false;

    /// The columns of a row's key that name its owner; `None` = such rows are not kept.
    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]>;

    /// How many rows it counts as, beside the one that each owner counts as.
    fn rows(&self) -> usize;

    /// Takes in the change of a row.
    fn take(
        &mut self,
        table: TableId,
        columns: &[u8],
        entry: KeyedEntry<'_>,
    ) -> Result<(), Malformed>;

    /// What is kept of an owner, if the change of one row says all of it.
    fn of_one(_: KeyedEntry<'_>) -> Option<Self> {
        None
    }
}

/// Shared with the callers that asked: the change of a row is taken into a copy, if any of them still holds it.
impl<K: Kept> Kept for Arc<K> {
    const BEHIND_MAX: u64 = K::BEHIND_MAX;
    const IS_FED: bool = K::IS_FED;

    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]> {
        K::owner(table, columns)
    }

    fn rows(&self) -> usize {
        K::rows(self)
    }

    fn take(
        &mut self,
        table: TableId,
        columns: &[u8],
        entry: KeyedEntry<'_>,
    ) -> Result<(), Malformed> {
        Arc::make_mut(self).take(table, columns, entry)
    }
}

/// What the map says of an owner.
enum Slot<K> {
    /// Somebody is reading the rows.
    Asked(u64),
    Known(K),
}

type Slots<K> = HashMap<Box<[u8]>, Slot<K>, RandomState>;

/// One partition's owners. Two generations bound it: what is not asked for again while the young one fills up goes with
/// the old one.
pub struct Map<K> {
    fed: Position,
    /// It was fed up to the tail when the look began.
    is_current: bool,
    young: Slots<K>,
    old: Slots<K>,
    /// Rows in the young generation.
    count: usize,
    generation_max: usize,
    asked: u64,
    /// A buffer in which a look may encode the owners that it looks up.
    pub scratch: Vec<u8>,
}

/// Rows of one kind, in a map for each partition.
pub struct Memory<K> {
    partitions: Each<Own<K>>,
}

/// One partition's.
struct Own<K> {
    map: Mutex<Map<K>>,
    tail: Tail,
}

/// What a look-up gave.
pub enum Looked<K> {
    /// As of the tail.
    Known(K),
    /// Read the rows and hand them, with the mark, to [`Memory::settle`].
    Read(Mark),
}

/// Of a look-up that found nothing; `None`: the map could not be used.
#[derive(Clone, Copy, Debug)]
pub struct Mark(Option<u64>);

impl<K: Kept> Memory<K> {
    /// Up to about so many rows.
    pub fn new(partitions: &Partitions, rows_max: usize) -> Memory<K> {
        let own = move |partitions: &Partitions, id| {
            let tail = partitions.tail(id);
            let map = Map {
                fed: tail.position(),
                is_current: true,
                young: Slots::default(),
                old: Slots::default(),
                count: 0,
                generation_max: (rows_max / partitions.ids().count().max(1) / 2).max(1),
                asked: 0,
                scratch: Vec::new(),
            };
            let map = Mutex::new(map);
            Own { map, tail }
        };
        Memory {
            partitions: Each::new(partitions, own),
        }
    }

    /// Looks owners up, all as of one moment.
    pub fn look<R>(&self, partition: PartitionId, look: impl FnOnce(&mut Map<K>) -> R) -> R {
        let own = self.partitions.of(partition);
        let proves = own.tail.proves();
        let mut map = own.map();
        map.is_current = map.catch_up(&own.tail) && proves;
        look(&mut map)
    }

    /// Keeps what a look-up's rows said.
    pub fn settle(&self, partition: PartitionId, owner: &[u8], mark: Mark, kept: K) {
        if let Some(mark) = mark.0 {
            self.partitions
                .of(partition)
                .map()
                .settle(owner, mark, kept);
        }
    }

    /// Brings the map up to a batch.
    pub fn note(&self, partition: PartitionId, batch: &Batch) {
        self.partitions.of(partition).map().note(batch);
    }
}

impl<K> Own<K> {
    /// A panic elsewhere leaves no half-done state: what it may have left is read again.
    fn map(&self) -> MutexGuard<'_, Map<K>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Map<K> {
    /// What is known of an owner.
    pub fn look_up(&mut self, owner: &[u8]) -> Looked<K> {
        if !self.is_current {
            return Looked::Read(Mark(None));
        }
        if let Some(kept) = self.get(owner) {
            return Looked::Known(kept);
        }
        self.asked += 1;
        let mark = self.asked;
        self.old.remove(owner);
        self.insert(owner.into(), Slot::Asked(mark));
        Looked::Read(Mark(Some(mark)))
    }

    /// Notes what was committed since. Whether the map is fed up to where the tail was at the call.
    fn catch_up(&mut self, tail: &Tail) -> bool {
        let goal = tail.position();
        while self.fed < goal {
            let is_empty = self.is_empty();
            let is_near = goal.0 - self.fed.0 <= K::BEHIND_MAX && !is_empty;
            // On a worker of the runtime: what only the disk has is not read here.
            let batches = is_near.then(|| tail.recent(self.fed, CATCH_UP_BYTES));
            match batches.flatten() {
                Some(batches) if !batches.is_empty() => {
                    batches.iter().for_each(|batch| self.note(batch));
                }
                _ if K::IS_FED && !is_empty => return false,
                _ => {
                    self.clear();
                    self.fed = goal;
                }
            }
        }
        true
    }

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
        if batch.position != self.fed.next() {
            // Batches were left out: nothing here is known any more.
            self.clear();
        }
        self.fed = batch.position;
        if self.is_empty() {
            return;
        }
        for entry in batch.entries() {
            let Some((table, columns)) = split_key(entry.key) else {
                continue;
            };
            let Some(owner) = K::owner(table, columns) else {
                continue;
            };
            let Some(slot) = self.slot(owner) else {
                continue;
            };
            let is_known = match slot {
                Slot::Known(kept) => kept.take(table, columns, entry).is_ok(),
                Slot::Asked(_) => match K::of_one(entry) {
                    Some(kept) => {
                        *slot = Slot::Known(kept);
                        true
                    }
                    None => false,
                },
            };
            if !is_known {
                self.young.remove(owner);
                self.old.remove(owner);
            }
        }
    }

    fn slot(&mut self, owner: &[u8]) -> Option<&mut Slot<K>> {
        let young = self.young.get_mut(owner);
        young.or_else(|| self.old.get_mut(owner))
    }

    fn get(&mut self, owner: &[u8]) -> Option<K> {
        if let Some(slot) = self.young.get(owner) {
            return slot.known().cloned();
        }
        let (owner, slot) = self.old.remove_entry(owner)?;
        let kept = slot.known().cloned();
        self.insert(owner, slot);
        kept
    }

    fn settle(&mut self, owner: &[u8], mark: u64, kept: K) {
        let count = kept.rows();
        if let Some(slot) = self.slot(owner)
            && matches!(slot, Slot::Asked(asked) if *asked == mark)
        {
            *slot = Slot::Known(kept);
            self.count += count;
        }
    }

    /// An owner is in one generation only.
    fn insert(&mut self, owner: Box<[u8]>, slot: Slot<K>) {
        if self.count >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
            self.count = 0;
        }
        self.count += 1 + slot.known().map_or(0, K::rows);
        self.young.insert(owner, slot);
    }
}

impl<K> Slot<K> {
    fn known(&self) -> Option<&K> {
        match self {
            Slot::Known(kept) => Some(kept),
            Slot::Asked(_) => None,
        }
    }
}
