//! Waiting until an index has what was answered before a search.
//!
//! Owns: the wait. Promises: it ends at the search's deadline; whether the index has everything is said. Must not: run
//! a search.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline_base::faults;
use tideline_base::ids::{PartitionId, Position, TableId};

use crate::follow::Snapshot;
use crate::searches::Searches;

/// Between two looks whether an index is open.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a search waits for rows that were there before its index. They may take longer than any caller waits.
const BUILDING_WAIT: Duration = Duration::from_secs(1);

impl Searches {
    /// What an index shows, and whether it has all that was answered before this call, of what shows from a time on.
    /// Waits for that, until a deadline at most.
    pub(crate) async fn covered(
        &self,
        index: TableId,
        until: Instant,
        since_ms: Option<i64>,
    ) -> (Option<Snapshot>, bool) {
        let partitions = self.inner.tables.search_source();
        let deadline = tokio::time::Instant::from_std(until);
        let proven = tokio::time::timeout_at(deadline, partitions.proof()).await;
        let is_proven = proven.is_ok_and(|proven| proven.is_ok());
        let tails: Vec<(PartitionId, Position)> = partitions
            .ids()
            .map(|id| (id, partitions.tail(id).position()))
            .collect();
        let waits = self.inner.options.waits && !faults::is_named("search_waits_not");
        let running = async {
            loop {
                match self.running(index) {
                    Some(running) => return running,
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        };
        let Ok(running) = tokio::time::timeout_at(deadline, running).await else {
            return (None, false);
        };
        let mut seen = running.seen.clone();
        if waits {
            running.ask();
            // A follower that has ended shows what it has.
            let covers = async {
                let _ = seen.wait_for(|seen| seen.0.is_some()).await;
                let built = seen.wait_for(|seen| !seen.is_building());
                let built = tokio::time::timeout(BUILDING_WAIT, built).await;
                if built.is_ok_and(|built| built.is_ok()) {
                    let _ = seen.wait_for(|seen| seen.covers(&tails)).await;
                }
            };
            let _ = tokio::time::timeout_at(deadline, covers).await;
        }
        let seen = Arc::clone(&seen.borrow());
        let is_covered = seen
            .0
            .as_ref()
            .is_some_and(|shown| shown.place.is_whole(since_ms) && (!waits || seen.covers(&tails)));
        let is_covered = is_covered && is_proven;
        let snapshot = seen.0.as_ref().map(|shown| shown.snapshot.clone());
        (snapshot, is_covered)
    }
}
