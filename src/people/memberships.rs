//! The memberships of users in memory, so that a list or a sync that finds nothing new reads no store.
//!
//! Owns: a bounded map of what the rows of conversations say. Promises: what it gives is as of the tail at the call, or
//! it says that the rows must be read; it is fed with committed batches in order, also twice. Must not: hold users that
//! nobody asks for.
//!
//! A membership takes 40 bytes beside its name's. Why read rows may enter the map although batches are noted meanwhile:
//! see the map of heads; here a batch that touches a user who is being read takes the mark away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::entry::{EntryKind, KeyedEntry};
use crate::ids::{PartitionId, Position};
use crate::ordered::Reader;
use crate::table::{Batch, Malformed, Partitions, Tail, split_key};

use super::conversation_row::ConversationRow;
use super::tables::CONVERSATIONS;

/// A map further behind than this is read past: rows are read meanwhile.
const BEHIND_MAX: u64 = 4_096;
/// How much of the log is fetched at once to catch up.
const CATCH_UP_BYTES: usize = 1 << 20;

/// One membership.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Where its name begins.
    at: u32,
    name_bytes: u16,
    flags: u8,
    /// Where in the user's log the row was written.
    pub(super) position: u64,
    /// Up to here the user has read, as far as the relay knows.
    pub(super) read: u64,
    /// ms.
    pub(super) joined_at: u64,
    /// Off the list while the head is below this.
    pub(super) hidden: u64,
}

const _: () = assert!(size_of::<Entry>() == 40);

const PINNED: u8 = 1;
const ENDED: u8 = 2;

impl Entry {
    pub(super) fn is_pinned(&self) -> bool {
        self.flags & PINNED != 0
    }

    pub(super) fn is_ended(&self) -> bool {
        self.flags & ENDED != 0
    }
}

/// All memberships of a user, also those that ended lately, in the order of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Mine {
    names: String,
    entries: Vec<Entry>,
}

impl Mine {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Entry)> + Clone {
        self.entries.iter().map(|entry| (self.name(entry), entry))
    }

    fn name(&self, entry: &Entry) -> &str {
        let at = entry.at as usize;
        &self.names[at..at + usize::from(entry.name_bytes)]
    }

    /// Takes a row in.
    pub(super) fn set(&mut self, timeline: &str, row: &ConversationRow) {
        let found = self
            .entries
            .binary_search_by(|entry| self.name(entry).cmp(timeline));
        let at = match found {
            Ok(index) => self.entries[index].at,
            Err(_) => u32::try_from(self.names.len()).expect("a user has few conversations"),
        };
        let pinned = if row.is_pinned() { PINNED } else { 0 };
        let ended = if row.removed > 0 { ENDED } else { 0 };
        let entry = Entry {
            at,
            name_bytes: u16::try_from(timeline.len()).expect("a name has up to 255 bytes"),
            flags: pinned | ended,
            position: row.position,
            read: row.marks.read,
            joined_at: row.joined_at,
            hidden: row.hidden,
        };
        match found {
            Ok(index) => self.entries[index] = entry,
            Err(index) => {
                self.names.push_str(timeline);
                self.entries.insert(index, entry);
            }
        }
    }

    fn remove(&mut self, timeline: &str) {
        let found = self
            .entries
            .binary_search_by(|entry| self.name(entry).cmp(timeline));
        if let Ok(index) = found {
            // The name's bytes stay until the user is read again.
            self.entries.remove(index);
        }
    }
}

/// What the map says of a user.
enum Slot {
    /// Somebody is reading the rows.
    Asked(u64),
    Known(Arc<Mine>),
}

type Slots = HashMap<Box<[u8]>, Slot, RandomState>;

/// One partition's users, by the first column of their rows. Two generations bound it.
struct Map {
    fed: Position,
    young: Slots,
    old: Slots,
    /// Memberships in the young generation.
    count: usize,
    generation_max: usize,
    asked: u64,
}

/// The memberships of all users.
pub(super) struct Memberships {
    partitions: Vec<(Mutex<Map>, Tail)>,
}

/// What a look-up gave.
pub(super) enum Looked {
    /// As of the tail.
    Known(Arc<Mine>),
    /// Read the rows; with a number, hand them to [`Memberships::settle`].
    Read(Option<u64>),
}

impl Memberships {
    /// Up to about `memberships_max` of them.
    pub(super) fn new(partitions: &Partitions, memberships_max: usize) -> Memberships {
        let ids: Vec<_> = partitions.ids().collect();
        let generation_max = (memberships_max / ids.len().max(1) / 2).max(1);
        let one = |id| {
            let tail = partitions.tail(id);
            let map = Map {
                fed: tail.position(),
                young: Slots::default(),
                old: Slots::default(),
                count: 0,
                generation_max,
                asked: 0,
            };
            (Mutex::new(map), tail)
        };
        Memberships {
            partitions: ids.into_iter().map(one).collect(),
        }
    }

    pub(super) fn look_up(&self, partition: PartitionId, user: &[u8]) -> Looked {
        let is_current = self.catch_up(partition);
        let mut map = self.map(partition);
        if !is_current {
            return Looked::Read(None);
        }
        match map.get(user) {
            Some(mine) => Looked::Known(mine),
            None => {
                map.asked += 1;
                let mark = map.asked;
                map.old.remove(user);
                map.insert(user.into(), Slot::Asked(mark), 0);
                Looked::Read(Some(mark))
            }
        }
    }

    /// Keeps what a look-up's rows said.
    pub(super) fn settle(&self, partition: PartitionId, user: &[u8], mark: u64, mine: &Arc<Mine>) {
        let mut map = self.map(partition);
        let is_asked =
            |slot: Option<&Slot>| matches!(slot, Some(Slot::Asked(asked)) if *asked == mark);
        if is_asked(map.young.get(user)) || is_asked(map.old.get(user)) {
            map.old.remove(user);
            map.insert(user.into(), Slot::Known(Arc::clone(mine)), mine.len());
        }
    }

    /// Notes what was committed since. Whether the map is fed up to where the tail was at the call.
    fn catch_up(&self, partition: PartitionId) -> bool {
        let tail = &self.at(partition).1;
        let goal = tail.position();
        loop {
            let mut map = self.map(partition);
            if map.fed >= goal {
                return true;
            }
            let is_near = goal.0 - map.fed.0 <= BEHIND_MAX && !map.is_empty();
            let batches = is_near
                .then(|| tail.recent(map.fed, CATCH_UP_BYTES))
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

    fn at(&self, partition: PartitionId) -> &(Mutex<Map>, Tail) {
        &self.partitions[usize::from(partition.0)]
    }

    /// A panic elsewhere leaves no half-done state: what it may have left is read again.
    fn map(&self, partition: PartitionId) -> MutexGuard<'_, Map> {
        let map = self.at(partition).0.lock();
        map.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
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
            let Some((CONVERSATIONS, columns)) = split_key(entry.key) else {
                continue;
            };
            let Ok(user) = Reader::new(columns).skip() else {
                continue;
            };
            let young = self.young.get_mut(user);
            let Some(slot) = young.or_else(|| self.old.get_mut(user)) else {
                continue;
            };
            let taken = match slot {
                Slot::Known(mine) => take(Arc::make_mut(mine), columns, entry),
                Slot::Asked(_) => Err(Malformed),
            };
            if taken.is_err() {
                self.young.remove(user);
                self.old.remove(user);
            }
        }
    }

    fn get(&mut self, user: &[u8]) -> Option<Arc<Mine>> {
        if let Some(slot) = self.young.get(user) {
            return slot.known();
        }
        let (user, slot) = self.old.remove_entry(user)?;
        let mine = slot.known();
        let count = mine.as_ref().map_or(0, |mine| mine.len());
        self.insert(user, slot, count);
        mine
    }

    /// A user is in one generation only.
    fn insert(&mut self, user: Box<[u8]>, slot: Slot, count: usize) {
        if self.count >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
            self.count = 0;
        }
        self.count += count + 1;
        self.young.insert(user, slot);
    }
}

impl Slot {
    fn known(&self) -> Option<Arc<Mine>> {
        match self {
            Slot::Known(mine) => Some(Arc::clone(mine)),
            Slot::Asked(_) => None,
        }
    }
}

fn take(mine: &mut Mine, columns: &[u8], entry: KeyedEntry<'_>) -> Result<(), Malformed> {
    let mut reader = Reader::new(columns);
    reader.skip().map_err(|_| Malformed)?;
    let timeline = reader.string().map_err(|_| Malformed)?;
    match entry.kind {
        EntryKind::Put => mine.set(&timeline, &ConversationRow::decode(entry.value)?),
        EntryKind::Tombstone => mine.remove(&timeline),
        EntryKind::Delta => return Err(Malformed),
    }
    Ok(())
}
