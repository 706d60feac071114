//! A consistent read of one partition: memtables over runs, composed.
//!
//! Owns: the view rule. Promises: a view shows V = max(published tail, covered position): every batch up to V whole and
//! none above, whatever rotation, flush and compaction do meanwhile. Must not: live longer than a page, or cross an
//! `.await`.

use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;

use super::super::{ReadError, Rules};
use super::memtable::Memtable;
use super::merge::{Direction, Entries, Merge, Stack};
use crate::image::{Image, Snapshot};
use tideline_base::entry::Entry;
use tideline_base::ids::Position;

/// Rows in key order, either way; a row is (key, value).
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), ReadError>> + 'a>;

/// A value that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// It; `None` = there is no such row.
    pub value: Option<Bytes>,
    /// How many bytes of it, and of what it was composed of, were left out.
    pub left_bytes: u64,
    /// How many changes it was composed of, beside the row below them.
    pub deltas: usize,
}

impl Found {
    /// About how many bytes all of it has; more, if versions among them have expired.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.value.as_ref().map_or(0, Bytes::len) as u64 + self.left_bytes
    }
}

/// The partition as of one position. Short-lived: one page, never across an `.await`.
pub struct View {
    position: Position,
    /// Newest first.
    memtables: Arc<Vec<Arc<Memtable>>>,
    image: Image,
    snapshot: OnceCell<Snapshot>,
    rules: Arc<dyn Rules>,
}

impl View {
    /// A view for readers: `tail` and `memtables` were taken, in this order, before the image is looked at here.
    pub(in super::super) fn new(
        tail: Position,
        memtables: Arc<Vec<Arc<Memtable>>>,
        image: &Image,
        rules: Arc<dyn Rules>,
    ) -> Result<View, ReadError> {
        let mut view = View::lazy(tail, memtables, image, rules);
        view.position = tail.max(view.snapshot()?.covered());
        Ok(view)
    }

    /// A view that opens the image when the memtables do not tell enough. Only for the thread that moves the tail: for
    /// anybody else the image could be ahead of `tail` by then.
    pub(in super::super) fn lazy(
        tail: Position,
        memtables: Arc<Vec<Arc<Memtable>>>,
        image: &Image,
        rules: Arc<dyn Rules>,
    ) -> View {
        View {
            position: tail,
            memtables,
            image: image.clone(),
            snapshot: OnceCell::new(),
            rules,
        }
    }

    /// The same image under memtables that were taken later: a planted bug.
    pub(in super::super) fn over(self, memtables: Arc<Vec<Arc<Memtable>>>) -> View {
        View { memtables, ..self }
    }

    /// Also what is written above it: a planted bug.
    pub(in super::super) fn ahead(self) -> View {
        let position = Position(u64::MAX);
        View { position, ..self }
    }

    /// The position that the view shows: all batches up to it, none after.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    pub(in super::super) fn rules(&self) -> &Arc<dyn Rules> {
        &self.rules
    }

    /// A key's newest value. `Err` = damage or a failing disk.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        Ok(self.get_some(key, None)?.value)
    }

    /// The same, and what it is made of: with `wanted` (in the words of the layer above) a wide row may come with
    /// little else than what that names.
    pub fn get_some(&self, key: &[u8], wanted: Option<&[&str]>) -> Result<Found, ReadError> {
        let mut stack = Stack::default();
        let mut left_bytes = 0;
        let mut narrow = |entry: Entry| {
            let narrowed = wanted.and_then(|wanted| self.rules.narrow(&entry, wanted));
            let less = narrowed.unwrap_or_else(|| entry.clone());
            left_bytes += (entry.value.len() - less.value.len()) as u64;
            less
        };
        // For each memtable, its last position and how many deltas were found so far: deltas that the image holds too
        // must not count twice.
        let mut reached = Vec::new();
        for memtable in self.memtables.iter() {
            memtable.get(key, self.position, |entry| {
                stack.push(narrow(entry.clone()))
            });
            if stack.is_complete() {
                return Ok(self.found(key, stack, left_bytes));
            }
            reached.push((memtable.last(), stack.deltas()));
        }
        let snapshot = self.snapshot()?;
        let covered = snapshot.covered();
        let above = reached.iter().rev().find(|(last, _)| *last > covered);
        stack.keep_deltas(above.map_or(0, |(_, deltas)| *deltas));
        let in_image =
            snapshot.get_some(key, wanted, &mut |entry| match stack.push(narrow(entry)) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })?;
        Ok(self.found(key, stack, left_bytes + in_image))
    }

    /// See [`super::super::Txn::lacks`].
    pub(in super::super) fn lacks(&self, keys: &[&[u8]]) -> Vec<bool> {
        let mut lacks = vec![true; keys.len()];
        for memtable in self.memtables.iter() {
            memtable.sift(keys, &mut lacks);
        }
        match self.snapshot() {
            Ok(snapshot) => snapshot.sift(keys, &mut lacks),
            Err(_) => lacks.fill(false),
        }
        lacks
    }

    fn found(&self, key: &[u8], stack: Stack, left_bytes: u64) -> Found {
        Found {
            deltas: stack.deltas(),
            value: stack.settle(key, &*self.rules),
            left_bytes,
        }
    }

    /// The visible rows between two keys (`from` the lower, `to` the upper bound in both directions), in the
    /// direction's order. Lazy: take what the page needs.
    pub fn range<'v>(
        &'v self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Rows<'v> {
        let merge = Merge::new(self.sources(from, to, direction), direction);
        settled(merge, Arc::clone(&self.rules))
    }

    fn snapshot(&self) -> Result<&Snapshot, ReadError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let snapshot = self.image.snapshot()?;
        Ok(self.snapshot.get_or_init(|| snapshot))
    }

    /// Everything that the view sees between two bounds, newest source first.
    pub(in super::super) fn sources(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Vec<Entries<'_>> {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return vec![Box::new(std::iter::once(Err(error)))],
        };
        let mut sources: Vec<Entries<'_>> = Vec::new();
        for memtable in self
            .memtables
            .iter()
            .filter(|table| table.last() > snapshot.covered())
        {
            let cursor = memtable.cursor(from, to, self.position, direction);
            sources.push(Box::new(cursor.map(Ok)));
        }
        let is_backward = direction == Direction::Backward;
        let cursors = match snapshot.cursors(from, to, is_backward) {
            Ok(cursors) => cursors,
            Err(error) => return vec![Box::new(std::iter::once(Err(error.into())))],
        };
        for cursor in cursors {
            sources.push(Box::new(cursor.map(|row| {
                row.map(|(key, entry)| (key, vec![entry]))
                    .map_err(ReadError::from)
            })));
        }
        sources
    }
}

/// The rows that are there, of all keys that a merge meets.
pub(in super::super) fn settled(merge: Merge<'_>, rules: Arc<dyn Rules>) -> Rows<'_> {
    Box::new(merge.filter_map(move |met| match met {
        Ok((key, stack)) => stack.settle(&key, &*rules).map(|value| Ok((key, value))),
        Err(error) => Some(Err(error)),
    }))
}
