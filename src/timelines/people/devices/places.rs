//! The positions of a device in memory.
//!
//! Owns: what a poll that finds nothing new needs of the rows of positions and devices. Promises: a position takes
//! 24 bytes beside its name's and epoch's, and texts that are not used any more take no more than those that are. Must
//! not: know which devices are in memory; `src/table/memory.rs` does.

use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::TableId;
use tideline_base::ordered::Reader;
use tideline_table::{Kept, Malformed};

use super::super::tables::{DEVICES, POSITIONS, last_text};
use super::stored::{DeviceRow, Place, PlaceRow};

/// One position.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its name begins; the epoch follows it.
    at: u32,
    name_bytes: u16,
    epoch_bytes: u8,
    follows_changes: bool,
    after: u64,
    /// 0 unless it follows changes.
    changes_after: u64,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    /// Of its name and epoch.
    fn text_bytes(self) -> usize {
        usize::from(self.name_bytes) + usize::from(self.epoch_bytes)
    }
}

/// All positions of a device, in the order of names.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Places {
    /// `None` = there is no such device.
    pub(in super::super) device: Option<DeviceRow>,
    texts: String,
    /// Bytes of texts that no entry leads to any more.
    dead: usize,
    entries: Vec<Entry>,
}

/// A position in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PlaceRef<'p> {
    pub(in super::super) epoch: &'p str,
    pub(in super::super) after: u64,
    pub(in super::super) changes_after: Option<u64>,
}

impl Places {
    /// A device without positions.
    pub(in super::super) fn of(device: Option<DeviceRow>) -> Places {
        Places {
            device,
            ..Places::default()
        }
    }

    /// By timeline, in order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&str, PlaceRef<'_>)> {
        let place = |entry: &Entry| PlaceRef {
            epoch: self.epoch(entry),
            after: entry.after,
            changes_after: entry.follows_changes.then_some(entry.changes_after),
        };
        let named = move |entry| (self.name(entry), place(entry));
        self.entries.iter().map(named)
    }

    /// Of one timeline.
    pub(in super::super) fn get(&self, timeline: &str) -> Option<Place> {
        let entry = &self.entries[self.find(timeline).ok()?];
        Some(Place {
            epoch: self.epoch(entry).to_owned(),
            after: entry.after,
            changes_after: entry.follows_changes.then_some(entry.changes_after),
        })
    }

    fn name(&self, entry: &Entry) -> &str {
        let at = entry.at as usize;
        &self.texts[at..at + usize::from(entry.name_bytes)]
    }

    fn epoch(&self, entry: &Entry) -> &str {
        let at = entry.at as usize + usize::from(entry.name_bytes);
        &self.texts[at..at + usize::from(entry.epoch_bytes)]
    }

    fn find(&self, timeline: &str) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| self.name(entry).cmp(timeline))
    }

    /// Takes a row in.
    pub(in super::super) fn set(&mut self, timeline: &str, place: &Place) {
        let found = self.find(timeline);
        let before = found.ok().map(|index| self.entries[index]);
        let same = before.filter(|entry| self.epoch(entry) == place.epoch);
        let at = same.map_or_else(
            || {
                let at = u32::try_from(self.texts.len())
                    .expect("a device has few positions, and half of this is theirs");
                self.texts.push_str(timeline);
                self.texts.push_str(&place.epoch);
                at
            },
            |entry| entry.at,
        );
        let entry = Entry {
            at,
            name_bytes: u16::try_from(timeline.len()).expect("a name has up to 255 bytes"),
            epoch_bytes: u8::try_from(place.epoch.len()).expect("an epoch has up to 32 bytes"),
            follows_changes: place.changes_after.is_some(),
            after: place.after,
            changes_after: place.changes_after.unwrap_or(0),
        };
        match found {
            Ok(index) => self.entries[index] = entry,
            Err(index) => self.entries.insert(index, entry),
        }
        if let Some(before) = before.filter(|before| before.at != at) {
            self.leave(before);
        }
    }

    /// Forgets the texts of an entry that is here no more. When half of the texts are dead they are written anew: a
    /// client can set as many epochs as it likes.
    fn leave(&mut self, gone: Entry) {
        self.dead += gone.text_bytes();
        if self.dead * 2 <= self.texts.len() {
            return;
        }
        let mut texts = String::with_capacity(self.texts.len() - self.dead);
        for entry in &mut self.entries {
            let at = entry.at as usize;
            let text = &self.texts[at..at + entry.text_bytes()];
            entry.at = u32::try_from(texts.len()).expect("no longer than before");
            texts.push_str(text);
        }
        (self.texts, self.dead) = (texts, 0);
    }
}

impl Kept for Places {
    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]> {
        if !matches!(table, POSITIONS | DEVICES) {
            return None;
        }
        let mut reader = Reader::new(columns);
        reader.skip().ok()?;
        reader.skip().ok()?;
        Some(&columns[..columns.len() - reader.rest().len()])
    }

    fn rows(&self) -> usize {
        self.entries.len()
    }

    fn take(
        &mut self,
        table: TableId,
        columns: &[u8],
        entry: KeyedEntry<'_>,
    ) -> Result<(), Malformed> {
        match (table, entry.kind) {
            (DEVICES, EntryKind::Put) => {
                let device = DeviceRow::decode(entry.value)?;
                if self
                    .device
                    .is_some_and(|before| before.is_gone(device.used))
                {
                    // It has begun anew, and merges may have dropped what is here.
                    return Err(Malformed);
                }
                self.device = Some(device);
            }
            (DEVICES, EntryKind::Tombstone) => self.device = None,
            (POSITIONS, EntryKind::Put) => {
                let timeline = last_text(columns)?;
                self.set(&timeline, &PlaceRow::read(entry.value)?);
            }
            (POSITIONS, EntryKind::Tombstone) => {
                let timeline = last_text(columns)?;
                if let Ok(index) = self.find(&timeline) {
                    let gone = self.entries.remove(index);
                    self.leave(gone);
                }
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(epoch: &str, after: u64) -> Place {
        Place {
            epoch: epoch.to_owned(),
            after,
            changes_after: None,
        }
    }

    #[test]
    fn texts_do_not_grow_with_the_epochs_that_were_set() {
        let mut places = Places::default();
        let name = |number: u64| format!("{number:0200}");
        for round in 0..100 {
            for number in 0..20 {
                places.set(&name(number), &place(&format!("E{round:02}"), number));
            }
            let used: usize = places.entries.iter().map(|entry| entry.text_bytes()).sum();
            assert_eq!(used, 20 * 203);
            assert!(places.texts.len() <= 2 * used, "{}", places.texts.len());
            assert_eq!(places.texts.len(), used + places.dead);
            for number in 0..20 {
                let stored = places.get(&name(number));
                assert_eq!(stored, Some(place(&format!("E{round:02}"), number)));
            }
        }
    }
}
