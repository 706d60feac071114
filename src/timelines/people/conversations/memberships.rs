//! The memberships of a user in memory.
//!
//! Owns: what a list or a sync that finds nothing new needs of the rows of conversations. Promises: a membership takes
//! 40 bytes beside its name's. Must not: know which users are in memory; `src/table/memory.rs` does.

use crate::timeline::Pulse;
use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::TableId;
use tideline_base::ordered::Reader;
use tideline_table::{Kept, Malformed};

use super::super::tables::CONVERSATIONS;
use super::conversation_row::ConversationRow;

/// One membership.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Entry {
    /// Where its name begins.
    at: u32,
    name_bytes: u8,
    flags: u8,
    /// Of the incarnation that the user is a member of.
    mark: u16,
    /// Where in the user's log the row was written.
    pub(in super::super) position: u64,
    /// Up to here the user has read, as far as the relay knows.
    pub(in super::super) read: u64,
    /// ms.
    pub(in super::super) joined_at: u64,
    /// Off the list while the head is below this.
    pub(in super::super) hidden: u64,
}

const _: () = assert!(size_of::<Entry>() == 40);

const PINNED: u8 = 1;
const ENDED: u8 = 2;
const HAD_OTHERS: u8 = 4;

impl Entry {
    pub(in super::super) fn is_pinned(&self) -> bool {
        self.flags & PINNED != 0
    }

    pub(in super::super) fn is_ended(&self) -> bool {
        self.flags & ENDED != 0
    }

    /// Whether the member has had another role before. To a member that has not, and may not read, the conversation was
    /// never shown.
    pub(in super::super) fn had_other_roles(&self) -> bool {
        self.flags & HAD_OTHERS != 0
    }

    /// Whether it is on the list, beside its timeline as memory knows it. A timeline that was made again has none of
    /// its members: the mark tells that in all but one of 65,536 cases, and the timeline itself when it is read.
    pub(in super::super) fn is_listed(&self, pulse: &Pulse) -> bool {
        let may_be_mine = pulse.position > 0 && self.mark == mark(pulse.incarnation);
        may_be_mine && pulse.head >= self.hidden
    }
}

/// Incarnations are far apart, in their lower bits or above them.
fn mark(incarnation: u64) -> u16 {
    let folded = incarnation ^ incarnation >> 20 ^ incarnation >> 40;
    (folded & u64::from(u16::MAX)) as u16
}

/// All memberships of a user, also those that ended lately, in the order of names.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Mine {
    names: String,
    entries: Vec<Entry>,
}

impl Mine {
    pub(in super::super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Entry)> + Clone {
        self.entries.iter().map(|entry| (self.name(entry), entry))
    }

    /// Those that have not ended.
    pub(in super::super) fn current(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.iter().filter(|(_, entry)| !entry.is_ended())
    }

    fn name(&self, entry: &Entry) -> &str {
        let at = entry.at as usize;
        &self.names[at..at + usize::from(entry.name_bytes)]
    }

    /// Takes a row in.
    pub(in super::super) fn set(&mut self, timeline: &str, row: &ConversationRow) {
        let found = self
            .entries
            .binary_search_by(|entry| self.name(entry).cmp(timeline));
        let at = match found {
            Ok(index) => self.entries[index].at,
            Err(_) => u32::try_from(self.names.len()).expect("a user has few conversations"),
        };
        let pinned = if row.is_pinned() { PINNED } else { 0 };
        let ended = if row.removed > 0 { ENDED } else { 0 };
        let had_others = if row.had_others { HAD_OTHERS } else { 0 };
        let entry = Entry {
            at,
            name_bytes: u8::try_from(timeline.len()).expect("a name has up to 255 bytes"),
            flags: pinned | ended | had_others,
            mark: mark(row.membership.incarnation),
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

impl Kept for Mine {
    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]> {
        match table {
            CONVERSATIONS => Reader::new(columns).skip().ok(),
            _ => None,
        }
    }

    fn rows(&self) -> usize {
        self.entries.len()
    }

    fn take(&mut self, _: TableId, columns: &[u8], entry: KeyedEntry<'_>) -> Result<(), Malformed> {
        let mut reader = Reader::new(columns);
        reader.skip()?;
        let timeline = reader.string()?;
        match entry.kind {
            EntryKind::Put => self.set(&timeline, &ConversationRow::decode(entry.value)?),
            EntryKind::Tombstone => self.remove(&timeline),
            EntryKind::Delta => return Err(Malformed),
        }
        Ok(())
    }
}
