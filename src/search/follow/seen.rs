//! What searches see of an index.
//!
//! Owns: the newest commit, as it is shown. Promises: a searcher and the place that speaks of it come together; what
//! fills an index hears of a search that has failed in it. Must not: change an index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::Searcher;

use tideline_base::ids::{PartitionId, Position};

use crate::index::place::Place;

/// `None` = the index is being opened or made anew.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Option<Shown>);

/// What is shown.
pub(crate) struct Shown {
    pub(crate) snapshot: Snapshot,
    pub(crate) place: Place,
    /// It has everything that was written before this time, ms since 1970, once it is not building any more.
    pub(crate) current_ms: u64,
}

/// A commit of an index as it was opened.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) searcher: Searcher,
    /// Of all commits since it was opened.
    pub(crate) has_failed: Arc<AtomicBool>,
}

impl Snapshot {
    /// A search has failed: the index is to be opened anew, and looked at.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

impl Seen {
    /// Whether rows that were there before it are still brought in.
    pub(crate) fn is_building(&self) -> bool {
        let shown = self.0.as_ref();
        shown.is_some_and(|shown| shown.place.is_building())
    }

    /// Whether everything up to these positions is there.
    pub(crate) fn covers(&self, tails: &[(PartitionId, Position)]) -> bool {
        let Some(shown) = &self.0 else { return false };
        let covered = |(id, at): &(PartitionId, Position)| shown.place.covers(*id, *at);
        !shown.place.is_building() && tails.iter().all(covered)
    }
}
