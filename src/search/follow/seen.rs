//! What searches see of an index.
//!
//! Owns: the newest commit, as it is shown. Promises: a searcher and the place that speaks of it come together. Must
//! not: change an index.

use tantivy::Searcher;

use tideline_base::ids::{PartitionId, Position};

use crate::index::place::Place;

/// `None` = the index is being opened or made anew.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Option<Shown>);

/// What is shown.
pub(crate) struct Shown {
    pub(crate) searcher: Searcher,
    pub(crate) place: Place,
    /// It has everything that was written before this time, ms since 1970, once it is not building any more.
    pub(crate) current_ms: u64,
}

impl Seen {
    /// Whether everything up to these positions is there.
    pub(crate) fn covers(&self, tails: &[(PartitionId, Position)]) -> bool {
        let Some(shown) = &self.0 else { return false };
        let covered = |(id, at): &(PartitionId, Position)| shown.place.covers(*id, *at);
        !shown.place.is_building() && tails.iter().all(covered)
    }
}
