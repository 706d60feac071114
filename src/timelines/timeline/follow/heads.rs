//! Heads in memory, so that polls with nothing new cost no reads.
//!
//! Owns: the heads that somebody asked for, in a map that the log feeds. Promises: a head from here shows every write
//! that was answered before it was asked for; else the row is read. Must not: hold what nobody asks for.

use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::{PartitionId, TableId};
use tideline_base::ordered;
use tideline_table::{Batch, Kept, Looked, Malformed, Mark, Memory, Partitions};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::HEADS;

/// The head of a timeline, or `None` if there is no such timeline.
#[derive(Clone, Copy)]
struct Known(Option<HeadRow>);

impl Kept for Known {
    const BEHIND_MAX: u64 = 64;
    const IS_FED: bool = true;

    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]> {
        (table == HEADS).then_some(columns)
    }

    fn rows(&self) -> usize {
        0
    }

    fn take(&mut self, _: TableId, _: &[u8], entry: KeyedEntry<'_>) -> Result<(), Malformed> {
        *self = Known::of_one(entry).ok_or(Malformed)?;
        Ok(())
    }

    /// Heads are whole puts; of anything else only the row itself can tell.
    fn of_one(entry: KeyedEntry<'_>) -> Option<Known> {
        let is_put = entry.kind == EntryKind::Put;
        let head = HeadRow::decode(entry.value).ok().filter(|_| is_put)?;
        Some(Known(Some(head).filter(|head| !head.dropped)))
    }
}

/// The heads of all partitions, by encoded name.
pub(in super::super) struct Heads(Memory<Known>);

/// Heads by which of the names they are of; `None` = no such timeline.
pub(in super::super) type Found = Vec<(usize, Option<HeadRow>)>;

/// A look-up that found nothing, to be settled with what the row says.
pub(in super::super) struct Asked {
    /// Which of the names it was.
    pub(in super::super) index: usize,
    mark: Mark,
}

impl Heads {
    pub(in super::super) fn new(partitions: &Partitions, heads_max: usize) -> Heads {
        Heads(Memory::new(partitions, heads_max))
    }

    /// Brings the map up to a batch.
    pub(in super::super) fn note(&self, partition: PartitionId, batch: &Batch) {
        self.0.note(partition, batch);
    }

    /// Of the timelines of one partition the heads that `matter`, and the look-ups that need the rows. A head that does
    /// not matter costs no memory.
    pub(in super::super) fn look_up<'n>(
        &self,
        partition: PartitionId,
        names: impl Iterator<Item = &'n str>,
        matter: impl Fn(usize, Option<&HeadRow>) -> bool,
    ) -> (Found, Vec<Asked>) {
        self.0.look(partition, |map| {
            let mut encoded = std::mem::take(&mut map.scratch);
            let (mut found, mut asked) = (Vec::new(), Vec::new());
            for (index, name) in names.enumerate() {
                encoded.clear();
                ordered::push_string(&mut encoded, name);
                match map.look_up(&encoded) {
                    Looked::Known(Known(head)) if matter(index, head.as_ref()) => {
                        found.push((index, head));
                    }
                    Looked::Known(_) => {}
                    Looked::Read(mark) => asked.push(Asked { index, mark }),
                }
            }
            map.scratch = encoded;
            (found, asked)
        })
    }

    /// Keeps what a look-up's row said.
    pub(in super::super) fn settle(
        &self,
        partition: PartitionId,
        name: &[u8],
        asked: &Asked,
        head: Option<HeadRow>,
    ) {
        self.0.settle(partition, name, asked.mark, Known(head));
    }
}
