//! A consistent read of one partition: memtables over runs, composed.
//!
//! Owns: the view rule. Promises: a view shows V = max(published tail, covered position): every batch up to V whole and none
//! above, whatever rotation, flush and compaction do meanwhile. Must not: live longer than a page, or cross an `.await`.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::memtable::{Cursor, Memtable};
use super::{ReadError, Rules};
use crate::ids::{EntryKind, Position};
use crate::image::Entry;

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys rising.
    Forward,
    /// Keys falling.
    Backward,
}

/// Rows in key order, either way; a row is (key, value).
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), ReadError>> + 'a>;

/// The partition as of one position. Short-lived: one page, never across an `.await`.
pub struct View {
    position: Position,
    /// Newest first.
    memtables: Vec<Arc<Memtable>>,
    rules: Arc<dyn Rules>,
}

impl View {
    pub(super) fn new(
        position: Position,
        memtables: Vec<Arc<Memtable>>,
        rules: Arc<dyn Rules>,
    ) -> View {
        View {
            position,
            memtables,
            rules,
        }
    }

    /// The position that the view shows: all batches up to it, none after.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// A key's newest value. `Err` = damage or a failing disk.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        let mut stack = Stack::default();
        for memtable in &self.memtables {
            memtable.get(key, self.position, |entry| stack.push(entry.clone()));
            if stack.is_complete {
                break;
            }
        }
        Ok(stack.settle(key, &*self.rules))
    }

    /// The visible rows between two keys (`from` the lower, `to` the upper bound in both directions), in the direction's
    /// order. Lazy: take what the page needs.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Rows<'_> {
        let mut sources = Vec::new();
        for memtable in &self.memtables {
            sources.push(Source::new(memtable.cursor(
                from,
                to,
                self.position,
                direction,
            )));
        }
        Box::new(Merge {
            sources,
            direction,
            rules: &*self.rules,
        })
    }
}

/// The entries of one key, newest first, down to the first that masks the rest.
#[derive(Default)]
struct Stack {
    deltas: Vec<Entry>,
    base: Option<Entry>,
    is_complete: bool,
}

impl Stack {
    /// Takes the next older entry; whether still older ones matter.
    fn push(&mut self, entry: Entry) -> bool {
        if self.is_complete {
            return false;
        }
        match entry.kind {
            EntryKind::Delta => self.deltas.push(entry),
            EntryKind::Put | EntryKind::Tombstone => {
                self.base = Some(entry);
                self.is_complete = true;
            }
        }
        !self.is_complete
    }

    /// The row that the entries make.
    fn settle(self, key: &[u8], rules: &dyn Rules) -> Option<Bytes> {
        let mut row = self.base.unwrap_or_else(Entry::tombstone);
        for delta in self.deltas.iter().rev() {
            row = rules.compose(key, &row, delta);
        }
        (row.kind == EntryKind::Put).then_some(row.value)
    }
}

/// One sorted input of a merge, with its next row in hand.
struct Source<'a> {
    cursor: Cursor<'a>,
    head: Option<(Bytes, Vec<Entry>)>,
}

impl<'a> Source<'a> {
    fn new(mut cursor: Cursor<'a>) -> Source<'a> {
        let head = cursor.next();
        Source { cursor, head }
    }
}

/// Merges sources, newest first, into visible rows.
struct Merge<'a> {
    sources: Vec<Source<'a>>,
    direction: Direction,
    rules: &'a dyn Rules,
}

impl Merge<'_> {
    fn next_key(&self) -> Option<Bytes> {
        let keys = self
            .sources
            .iter()
            .filter_map(|source| source.head.as_ref().map(|(key, _)| key));
        match self.direction {
            Direction::Forward => keys.min().cloned(),
            Direction::Backward => keys.max().cloned(),
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Bytes), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.next_key()?;
            let mut stack = Stack::default();
            for source in &mut self.sources {
                if source.head.as_ref().is_none_or(|(head, _)| *head != key) {
                    continue;
                }
                for entry in source
                    .head
                    .take()
                    .map(|(_, entries)| entries)
                    .unwrap_or_default()
                {
                    stack.push(entry);
                }
                source.head = source.cursor.next();
            }
            if let Some(value) = stack.settle(&key, self.rules) {
                return Some(Ok((key, value)));
            }
        }
    }
}
