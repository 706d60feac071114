//! Heads in memory, so that polls with nothing new cost no reads.
//!
//! Owns: a bounded map of the heads that somebody asked for, per partition, and the log position up to which it is
//! true. Promises: a head from here shows every write that was answered before it was asked for, because the map is
//! used only when it is fed up to the tail; else the row is read. Batches may be noted by anyone, in order, also twice.
//! Must not: hold what nobody asks for.
//!
//! Why a read row may enter the map although batches are noted meanwhile: the asker leaves a mark with a number of its
//! own before it reads. A batch that touches the timeline replaces the mark by the state it made; then the read comes
//! too late and is not kept. If the mark is still there, no batch noted since has touched the timeline, and the read is
//! no older than the map was when the mark was set; batches that the read shows and the map has not noted yet will be
//! noted, before the map counts as fed up to any tail that a later caller sees.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::entry::EntryKind;
use crate::ids::{PartitionId, Position};
use crate::ordered;
use crate::table::{Batch, Each, Partitions, Tail, split_key};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::HEADS;

/// A map further behind than this is left to its feeder: rows are read meanwhile.
const BEHIND_MAX: u64 = 64;
/// How much of the log is fetched at once to catch up.
const CATCH_UP_BYTES: usize = 1 << 20;

/// What the map says of a timeline.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Somebody is reading the row.
    Asked(u64),
    /// The head, or `None` if there is no such timeline.
    Known(Option<HeadRow>),
}

type Slots = HashMap<Box<[u8]>, Slot, RandomState>;

/// One partition's heads, by encoded name. Two generations bound it: what is not asked for again while the young one
/// fills up goes with the old one.
struct Map {
    fed: Position,
    young: Slots,
    old: Slots,
    generation_max: usize,
    asked: u64,
    /// For the name that is looked up.
    encoded: Vec<u8>,
}

/// The heads of all partitions.
pub(in super::super) struct Heads {
    partitions: Each<Own>,
}

/// One partition's.
struct Own {
    map: Mutex<Map>,
    tail: Tail,
}

/// Heads by which of the names they are of; `None` = no such timeline.
pub(in super::super) type Found = Vec<(usize, Option<HeadRow>)>;

/// A look-up that found nothing, to be settled with what the row says.
pub(in super::super) struct Asked {
    index: usize,
    /// `None`: the map may not be used now.
    mark: Option<u64>,
}

impl Asked {
    /// Which of the names it was.
    pub(in super::super) fn index(&self) -> usize {
        self.index
    }
}

impl Heads {
    pub(in super::super) fn new(partitions: &Partitions, heads_max: usize) -> Heads {
        let own = move |partitions: &Partitions, id| {
            let tail = partitions.tail(id);
            let map = Map {
                fed: tail.position(),
                young: Slots::default(),
                old: Slots::default(),
                generation_max: (heads_max / partitions.ids().count().max(1) / 2).max(1),
                asked: 0,
                encoded: Vec::new(),
            };
            let map = Mutex::new(map);
            Own { map, tail }
        };
        Heads {
            partitions: Each::new(partitions, own),
        }
    }

    /// Brings the map up to a batch.
    pub(in super::super) fn note(&self, partition: PartitionId, batch: &Batch) {
        self.partitions.of(partition).map().note(batch);
    }

    /// Of the timelines of one partition the heads that `matter`, and the look-ups that need the rows. A head that does
    /// not matter costs no memory.
    pub(in super::super) fn look_up<'n>(
        &self,
        partition: PartitionId,
        names: impl Iterator<Item = &'n str>,
        matter: impl Fn(usize, Option<&HeadRow>) -> bool,
    ) -> (Found, Vec<Asked>) {
        let own = self.partitions.of(partition);
        let is_current = own.catch_up();
        let mut map = own.map();
        let mut encoded = std::mem::take(&mut map.encoded);
        let (mut found, mut asked) = (Vec::new(), Vec::new());
        for (index, name) in names.enumerate() {
            encoded.clear();
            ordered::push_string(&mut encoded, name);
            let known = if is_current { map.get(&encoded) } else { None };
            match known {
                Some(head) if matter(index, head.as_ref()) => found.push((index, head)),
                Some(_) => {}
                None => {
                    let mark = is_current.then(|| map.ask(&encoded));
                    asked.push(Asked { index, mark });
                }
            }
        }
        map.encoded = encoded;
        (found, asked)
    }

    /// Keeps what a look-up's row said.
    pub(in super::super) fn settle(
        &self,
        partition: PartitionId,
        name: &[u8],
        asked: &Asked,
        head: Option<HeadRow>,
    ) {
        if let Some(mark) = asked.mark {
            self.partitions.of(partition).map().settle(name, mark, head);
        }
    }
}

impl Own {
    /// Notes what the feeder has not noted yet. Whether the map is fed up to where the tail was at the call.
    fn catch_up(&self) -> bool {
        let goal = self.tail.position();
        loop {
            let fed = self.map().fed;
            if fed >= goal {
                return true;
            }
            if goal.0 - fed.0 > BEHIND_MAX {
                return false;
            }
            // On a worker of the runtime: what only the disk has is left to the feeder too.
            match self.tail.recent(fed, CATCH_UP_BYTES) {
                Some(batches) if !batches.is_empty() => {
                    let mut map = self.map();
                    batches.iter().for_each(|batch| map.note(batch));
                }
                _ => return false,
            }
        }
    }

    /// A panic elsewhere leaves no half-done state: every change of the map is one insert.
    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    fn note(&mut self, batch: &Batch) {
        if batch.position <= self.fed {
            return;
        }
        if batch.position != self.fed.next() {
            // Batches were left out: nothing here is known any more.
            self.young.clear();
            self.old.clear();
        }
        self.fed = batch.position;
        if self.young.is_empty() && self.old.is_empty() {
            return;
        }
        for entry in batch.entries() {
            let Some((HEADS, name)) = split_key(entry.key) else {
                continue;
            };
            let young = self.young.get_mut(name);
            let Some(slot) = young.or_else(|| self.old.get_mut(name)) else {
                continue;
            };
            match HeadRow::decode(entry.value) {
                Ok(head) if entry.kind == EntryKind::Put => {
                    *slot = Slot::Known(Some(head).filter(|head| !head.dropped));
                }
                _ => {
                    // Heads are whole puts; of anything else only the row itself can tell.
                    self.young.remove(name);
                    self.old.remove(name);
                }
            }
        }
    }

    fn get(&mut self, name: &[u8]) -> Option<Option<HeadRow>> {
        let slot = match self.young.get(name) {
            Some(slot) => *slot,
            None => {
                let (name, slot) = self.old.remove_entry(name)?;
                self.insert(name, slot);
                slot
            }
        };
        match slot {
            Slot::Known(head) => Some(head),
            Slot::Asked(_) => None,
        }
    }

    fn ask(&mut self, name: &[u8]) -> u64 {
        self.asked += 1;
        let mark = self.asked;
        self.old.remove(name);
        self.insert(name.into(), Slot::Asked(mark));
        mark
    }

    fn settle(&mut self, name: &[u8], mark: u64, head: Option<HeadRow>) {
        let young = self.young.get_mut(name);
        if let Some(slot) = young.or_else(|| self.old.get_mut(name))
            && matches!(slot, Slot::Asked(asked) if *asked == mark)
        {
            *slot = Slot::Known(head);
        }
    }

    /// A name is in one generation only.
    fn insert(&mut self, name: Box<[u8]>, slot: Slot) {
        if self.young.len() >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name, slot);
    }
}
