//! Which slots (sub-databases) are free, in use, or still to be cleared.
//!
//! Owns: the allocation of slots. Promises: a slot that is handed out is empty, and no committed catalog names it; what
//! was left behind by a crash counts as to be cleared; LMDB clears only a slot whose pages have passed, because it
//! would give free whatever is in them. Must not: clear anything in another transaction than its own
//! (clearing reads the part's branch pages, so it is kept apart from slices). Used under the writing side's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use heed::RoTxn;

use super::catalog::{Catalog, Part};
use super::env::{Db, SLOTS_MAX, Store};
use super::pages::page::Content;
use super::pages::tree::Tree;
use super::{Error, Inner};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Taken,
    /// Not named by the catalog, but not empty.
    Dirty,
    /// Not named by the catalog, but damaged: neither cleared nor used again.
    Lost,
}

/// The state of all slots.
pub(super) struct Slots {
    uses: Vec<Use>,
    left: SlotsLeft,
    /// Of lost slots, the places of the damage, to be logged once the lock is free.
    pub(super) damage: Vec<String>,
}

/// How many slots could still be taken, for callers that don't hold the lock.
#[derive(Clone)]
pub(super) struct SlotsLeft(Arc<AtomicUsize>);

impl SlotsLeft {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Slots {
    /// The state after opening.
    pub(super) fn new(store: &Store, txn: &RoTxn<'_>, catalog: &Catalog) -> Result<Slots, Error> {
        let mut slots = Slots {
            uses: Vec::new(),
            damage: Vec::new(),
            left: SlotsLeft(Arc::new(AtomicUsize::new(usize::from(SLOTS_MAX)))),
        };
        for slot in 0..store.slot_count() {
            let empty = match store.slot(slot) {
                Some(db) => db.is_empty(txn)?,
                None => true,
            };
            slots.uses.push(if empty { Use::Free } else { Use::Dirty });
        }
        for part in catalog.parts() {
            slots.set_part(part, Use::Taken);
        }
        Ok(slots)
    }

    /// The number of slots that could still be taken: free, dirty and not yet made ones.
    pub(super) fn left(&self) -> SlotsLeft {
        self.left.clone()
    }

    fn set(&mut self, slot: u16, to: Use) {
        let Some(at) = self.uses.get_mut(usize::from(slot)) else {
            return;
        };
        let before = std::mem::replace(at, to);
        let is_left = |slot| matches!(slot, Use::Free | Use::Dirty);
        if !is_left(before) && is_left(to) {
            self.left.0.fetch_add(1, Ordering::Relaxed);
        }
        if is_left(before) && !is_left(to) {
            self.left.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn set_part(&mut self, part: &Part, to: Use) {
        self.set(part.slot, to);
        self.set(part.side, to);
    }

    /// Gives slots back, to be cleared.
    pub(super) fn give_back(&mut self, slots: [u16; 2]) {
        for slot in slots {
            self.set(slot, Use::Dirty);
        }
    }

    /// After a new catalog: what only the one before it named is to be cleared.
    pub(super) fn release_unnamed(&mut self, before: &Catalog, after: &Catalog) {
        for part in before.parts() {
            self.set_part(part, Use::Dirty);
        }
        for part in after.parts() {
            self.set_part(part, Use::Taken);
        }
    }

    /// The next slot that has to be cleared.
    pub(super) fn dirty(&self) -> Option<u16> {
        let at = self.uses.iter().position(|&slot| slot == Use::Dirty)?;
        u16::try_from(at).ok()
    }
}

impl Inner {
    /// Clears one dirty slot, in a transaction of its own. Whether there was one. One whose pages LMDB must
    /// not follow is noted, and left alone.
    pub(super) fn clear_one(&self, slots: &mut Slots) -> Result<bool, Error> {
        let Some(slot) = slots.dirty() else {
            return Ok(false);
        };
        if let Some(db) = self.store.slot(slot) {
            match self.check_slot(slot) {
                Err(Error::Damaged(place)) => {
                    slots.damage.push(place);
                    slots.set(slot, Use::Lost);
                    return Ok(true);
                }
                sound => sound?,
            }
            let mut wtxn = self.store.write()?;
            db.clear(&mut wtxn)?;
            self.commit_rows(wtxn)?;
        }
        slots.set(slot, Use::Free);
        Ok(true)
    }

    /// Whether all that LMDB follows when it clears a slot is sound.
    fn check_slot(&self, slot: u16) -> Result<(), Error> {
        let txn = self.store.read()?;
        let record = self.store.record(&txn, slot)?;
        let pages = Arc::clone(&self.store.pages);
        let place = format!("slot {slot}, to be cleared");
        Tree::new(pages, 0, Content::Loaded, record, None, place).check_all()
    }

    /// Takes two empty slots, for a part's rows and for its pieces and filter.
    pub(super) fn take_slots(&self, slots: &mut Slots) -> Result<[(u16, Db); 2], Error> {
        loop {
            let mut free = (0..)
                .zip(&slots.uses)
                .filter(|(_, slot)| **slot == Use::Free)
                .filter_map(|(slot, _)| Some((slot, self.store.slot(slot)?)));
            if let (Some(rows), Some(side)) = (free.next(), free.next()) {
                for (slot, _) in [rows, side] {
                    slots.set(slot, Use::Taken);
                }
                return Ok([rows, side]);
            }
            if !self.clear_one(slots)? {
                self.store.add_slots()?;
                let have = usize::from(self.store.slot_count());
                slots.uses.resize(have, Use::Free);
            }
        }
    }
}
