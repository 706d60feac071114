//! The partitions of one moment, and how that becomes the next moment.
//!
//! Owns: the set, and the one place that replaces it. Promises: a set changes as a whole and no change is lost; one
//! reshape is under way at a time. Must not: decide what changes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::directory::Directory;
use super::follow::ended::EndedLog;
use super::shared::Shared;
use super::split::plan::Outcome;
use super::{Map, OpenError, Partitions};
use tideline_base::ids::PartitionId;

/// The partitions of one moment. All change together.
#[derive(Clone)]
pub(super) struct Set {
    pub(super) map: Arc<Map>,
    /// By number; `None` = it has ended.
    pub(super) partitions: Vec<Option<Arc<Shared>>>,
    /// The logs of those that have ended, as far as they are kept.
    pub(super) ended: BTreeMap<PartitionId, Arc<EndedLog>>,
}

impl Set {
    /// A partition, if it is there. A number is never used again, so a caller that comes too late finds none.
    pub(super) fn at(&self, id: PartitionId) -> Option<&Arc<Shared>> {
        self.partitions.get(usize::from(id.0))?.as_ref()
    }

    /// All of them, in the order of their ranges.
    pub(super) fn live(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.map.ids().filter_map(|id| self.at(id))
    }
}

/// No change of the partitions begins while this is there.
pub(super) struct Staying<'p>(&'p Partitions);

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        let _directory = self.0.directory();
        self.0.inner.is_changing.store(false, Ordering::SeqCst);
    }
}

impl Partitions {
    /// Announces partitions that are going to be made. There is one change at a time.
    pub(super) fn begin_change(&self, outcome: &Outcome) -> Result<(), OpenError> {
        let directory = self.directory();
        if self.inner.is_changing.load(Ordering::SeqCst) {
            let text = "another change, or a backup, is under way".to_owned();
            return Err(OpenError::NotReshaped { text });
        }
        directory.draft(&outcome.map)?;
        self.inner.is_changing.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Keeps the partitions as they are until what is returned is dropped; `None` = a change is under way.
    pub(super) fn stay(&self) -> Option<Staying<'_>> {
        let _directory = self.directory();
        let was = self.inner.is_changing.swap(true, Ordering::SeqCst);
        // Not made where it does not count: its end would end the change.
        (!was).then(|| Staying(self))
    }

    /// Ends a change. If it was given up, what was made for it is cleared away.
    pub(super) fn end_change(&self, is_done: bool) {
        let directory = self.directory();
        self.inner.is_changing.store(false, Ordering::SeqCst);
        let cleared = match is_done {
            true => Ok(()),
            false => directory.clear_draft(),
        };
        drop(directory);
        if let Err(error) = cleared {
            tracing::warn!(%error, "what was made of partitions stays until the next start");
        }
    }

    /// Changes the set. Nothing else does: the caller holds the directory's lock while a copy is taken, changed and put
    /// in force, so no change is lost.
    pub(super) fn change(&self, _held: &MutexGuard<'_, Directory>, change: impl FnOnce(&mut Set)) {
        let before = self.inner.set.load_full();
        let mut set = Set::clone(&before);
        change(&mut set);
        let map = Arc::clone(&set.map);
        self.inner.set.store(Arc::new(set));
        if !map.ids().eq(before.map.ids()) {
            self.inner.map.send_replace(map);
        }
    }
}
