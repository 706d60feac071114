//! A consistent read of one partition: memtables over runs, composed.
//!
//! Owns: the view rule. Promises: a view shows V = max(published tail, covered position): every batch up to V whole and none
//! above, whatever rotation, flush and compaction do meanwhile. Must not: live longer than a page, or cross an `.await`.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::memtable::Memtable;
use super::merge::{Entries, Merge, Stack};
use super::{ReadError, Rules};
use crate::ids::Position;

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
            if stack.is_complete() {
                break;
            }
        }
        Ok(stack.settle(key, &*self.rules))
    }

    /// The visible rows between two keys (`from` the lower, `to` the upper bound in both directions), in the direction's
    /// order. Lazy: take what the page needs.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Rows<'_> {
        let merge = Merge::new(self.sources(from, to, direction), direction);
        settled(merge, Arc::clone(&self.rules))
    }

    /// Everything that the view sees between two bounds, newest source first.
    pub(super) fn sources(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Vec<Entries<'_>> {
        let mut sources: Vec<Entries<'_>> = Vec::new();
        for memtable in &self.memtables {
            let cursor = memtable.cursor(from, to, self.position, direction);
            sources.push(Box::new(cursor.map(Ok)));
        }
        sources
    }
}

/// The rows that are there, of all keys that a merge meets.
pub(super) fn settled(merge: Merge<'_>, rules: Arc<dyn Rules>) -> Rows<'_> {
    Box::new(merge.filter_map(move |met| match met {
        Ok((key, stack)) => stack.settle(&key, &*rules).map(|value| Ok((key, value))),
        Err(error) => Some(Err(error)),
    }))
}
