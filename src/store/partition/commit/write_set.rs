//! Write sets: what closures write apart from every batch, until one batch takes it over as a whole.
//!
//! Owns: [`WriteSet`]. Promises: a closure that runs on a set sees a view with all that the set holds above it; one
//! that refuses or panics leaves nothing in it. Nothing of a set is on disk or seen by anybody else before a closure of
//! a batch takes it over. Must not: keep anybody from writing the same rows meanwhile; its user has to.

use super::super::{Partitions, SubmitError, Txn, View};
use super::job::one;
use super::pending::{BatchLimits, Pending};
use tideline_base::entry::EntryKind;

/// What closures have written apart from every batch.
pub struct WriteSet {
    pending: Pending,
    bytes_max: usize,
}

impl WriteSet {
    /// An empty one, for about so many bytes.
    #[must_use]
    pub fn new(partitions: &Partitions, bytes_max: usize) -> WriteSet {
        let panics = partitions.metrics().server.panics.clone();
        let mut pending = Pending::new(BatchLimits::new(2 * bytes_max, 2 * bytes_max), panics);
        pending.begin(tideline_base::ids::Position::ZERO, 0);
        WriteSet { pending, bytes_max }
    }

    /// Runs a closure on the view with the set above it. What it writes stays in the set if it succeeds. It has no
    /// place in the log: [`Txn::position`] is that of the next batch after the view.
    pub fn run<R, E>(
        &mut self,
        view: &View,
        now_ms: u64,
        closure: impl FnOnce(&mut Txn<'_>) -> Result<R, E>,
    ) -> Result<R, SubmitError<E>> {
        self.pending.position = view.position().next();
        self.pending.now_ms = now_ms;
        let left = self.bytes_max.saturating_sub(self.bytes());
        self.pending.bound_closures(left);
        one(
            &mut Txn::new(&mut self.pending, view, view.rules()),
            closure,
        )
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pending.draft.bytes()
    }

    /// The change records, in order; they name entries by their numbers in the set.
    pub fn changes(&self) -> impl Iterator<Item = &[u8]> {
        self.pending.draft.changes()
    }
}

impl Txn<'_> {
    /// Writes all entries of a set, and none of its change records. Gives the number here of each of its entries.
    pub fn take_over(&mut self, set: &WriteSet) -> Vec<u32> {
        let entries = set.pending.draft.entries();
        let write = |entry: tideline_base::entry::KeyedEntry<'_>| match entry.kind {
            EntryKind::Put => self.put(entry.key, entry.value),
            EntryKind::Delta => self.delta(entry.key, entry.value),
            EntryKind::Tombstone => self.delete(entry.key),
        };
        entries.map(write).collect()
    }
}
