//! What the writer remembers of timelines that were written lately: their heads, senders' last ordinals, open messages.
//!
//! Owns: this memory, one of each partition, as of the last closure, and the write of head rows, which keeps it true.
//! Promises: what is known is what the rows say; two generations or a bound keep it small. Must not: number anything.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use tideline_table::{ReadError, Txn, put};

use super::super::growth::Growing;
use super::head::HeadRow;
use super::tables::Name;

impl HeadRow {
    /// [`HeadRow::load`] for the writer, which mostly knows it: a timeline that was written is often written again.
    pub(in super::super) fn load_to_write(
        txn: &mut Txn<'_>,
        name: &Name,
    ) -> Result<Option<HeadRow>, ReadError> {
        if let Some(known) = txn.memo::<Lately>().heads.get(name.as_bytes()) {
            return Ok(Some(known.head));
        }
        let found = HeadRow::load(txn, name)?;
        if let Some(head) = found {
            txn.memo::<Lately>().note(name, head);
        }
        Ok(found)
    }

    /// Writes a name's row. All writes of head rows come by here.
    pub(in super::super) fn store(&self, txn: &mut Txn<'_>, name: &Name, version: i64) {
        let mut head = *self;
        head.position = if head.members > 0 {
            txn.position().0
        } else {
            0
        };
        put(txn, name.head_key(), head.encode(), version);
        txn.memo::<Lately>().note(name, head);
    }
}

/// What the writer remembers of timelines that were written lately, as of the last closure.
#[derive(Default)]
pub(in super::super) struct Lately {
    heads: HashMap<Vec<u8>, Known, RandomState>,
    ordinals: LastOrdinals,
    /// Open messages, by the keys of their rows.
    growing: HashMap<Vec<u8>, Growing, RandomState>,
}

struct Known {
    head: HeadRow,
    /// The generation of `ordinals` when its incarnation had no sender's rows yet, if that was seen.
    uncounted_in: Option<u32>,
}

/// Some 4 MiB a partition. Tests forget often.
const GROWING_MAX: usize = if cfg!(test) { 2 } else { 1 << 14 };

/// Some 8 MiB a partition.
const LATELY_MAX: usize = 1 << 16;

impl Lately {
    /// The incarnation of a name that was written lately.
    pub(in super::super) fn incarnation(&self, name: &Name) -> Option<u64> {
        let known = self.heads.get(name.as_bytes())?;
        Some(known.head.incarnation)
    }

    fn note(&mut self, name: &Name, head: HeadRow) {
        let uncounted_in = (head.counted() == 0).then(|| self.ordinals.generation());
        if let Some(known) = self.heads.get_mut(name.as_bytes()) {
            known.head = head;
            known.uncounted_in = uncounted_in.or(known.uncounted_in);
            return;
        }
        if self.heads.len() >= LATELY_MAX {
            self.heads.clear();
        }
        let known = Known { head, uncounted_in };
        self.heads.insert(name.as_bytes().to_vec(), known);
    }

    /// The ordinal of a sender's last message, if it is known: also 0 of a sender without messages, in a timeline whose
    /// senders are all known.
    pub(in super::super) fn last_ordinal(&self, name: &Name, sender: u128) -> Option<u64> {
        let is_new = || {
            let since = self.uncounted_in(name);
            since.is_some_and(|generation| self.ordinals.holds_all_since(generation))
        };
        let known = self.ordinals.get(sender);
        known.or_else(|| is_new().then_some(0))
    }

    /// A message that grows, if it is known.
    pub(in super::super) fn growing(&self, key: &[u8]) -> Option<&Growing> {
        self.growing.get(key)
    }

    pub(in super::super) fn note_growing(&mut self, key: &[u8], growing: Growing) {
        if let Some(known) = self.growing.get_mut(key) {
            *known = growing;
            return;
        }
        if self.growing.len() >= GROWING_MAX {
            self.growing.clear();
        }
        self.growing.insert(key.to_vec(), growing);
    }

    /// The message's row is written anew, or it is not open any more.
    pub(in super::super) fn forget_growing(&mut self, key: &[u8]) {
        self.growing.remove(key);
    }

    pub(in super::super) fn note_ordinal(&mut self, sender: u128, ordinal: u64) {
        self.ordinals.note(sender, ordinal);
    }

    /// See [`Known`].
    fn uncounted_in(&self, name: &Name) -> Option<u32> {
        self.heads.get(name.as_bytes())?.uncounted_in
    }
}

/// The ordinals of senders' last messages, as of the last closure, by a hash of what the keys of their rows begin with.
/// Two generations bound them: what is not written again while the young one fills up goes with the old one.
#[derive(Default)]
struct LastOrdinals {
    young: Ordinals,
    old: Ordinals,
    /// The number of the young one.
    generation: u32,
}

type Ordinals = HashMap<u128, u64, RandomState>;

/// Of a generation: both are some 16 MiB a partition. Tests forget often.
const LAST_ORDINALS_MAX: usize = if cfg!(test) { 2 } else { 1 << 17 };

impl LastOrdinals {
    fn get(&self, sender: u128) -> Option<u64> {
        let known = self.young.get(&sender).or_else(|| self.old.get(&sender));
        known.copied()
    }

    fn note(&mut self, sender: u128, ordinal: u64) {
        if self.young.len() >= LAST_ORDINALS_MAX && !self.young.contains_key(&sender) {
            self.old = std::mem::take(&mut self.young);
            self.generation += 1;
        }
        self.young.insert(sender, ordinal);
    }

    /// The number of the generation that new ordinals are noted in.
    fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether every ordinal is here that was noted in this generation or later.
    fn holds_all_since(&self, generation: u32) -> bool {
        self.generation - generation <= 1
    }
}
