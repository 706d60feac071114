//! The moment at which calls wait and new partitions take over.
//!
//! Owns: what must be done before, in which order, and how long each may take. Promises: what the changes of those that
//! end lead to is written before they end, and their events are told before those of others; calls go on in any case.
//! Must not: make partitions, or decide when it is tried.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Inner, KEPT, blocking};
use crate::ids::PartitionId;
use crate::model::Error;
use crate::partition::{Making, OpenError, Point};

/// What came of it.
pub(super) enum Cut {
    /// The new partitions are served; calls have waited so long.
    Done(Duration),
    /// All goes on as before, and it may be tried again.
    GivenUp(Box<Making>, &'static str),
    /// All goes on as before.
    Failed(OpenError),
}

/// Before calls wait, what is derived should be nearly done: so long is waited for that.
const CALM_MAX: Duration = Duration::from_secs(10);
/// Left to derive: some milliseconds.
const CALM_BYTES: u64 = 1 << 20;
/// Calls that have begun may take so long; those that take longer are refused as busy if they write then.
const CALLS_MAX: Duration = Duration::from_millis(150);
/// From here on nothing is derived any more, or it is given up.
const DERIVED_BY: Duration = Duration::from_millis(400);
/// Until here all is told, and what the last batches lead to is written, or it is given up.
const TOLD_BY: Duration = Duration::from_millis(550);
/// Until here the new partitions count, or it is given up.
const COUNT_BY: Duration = Duration::from_millis(950);
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Inner {
    /// Has calls wait, and the new partitions take over.
    pub(super) async fn cut(self: &Arc<Inner>, mut making: Making) -> Cut {
        let ending: Arc<[PartitionId]> = making.parents().into();
        let unites = making.unites();
        let tables = self.tables.clone();
        let _streams = tables.begin_streams().await;
        let begun = Instant::now();
        let shut = self.partitions.gate().shut();
        making.hold_back(0);
        // A client that does not read keeps its calls for ever.
        let _ = timeout(CALLS_MAX, shut.empty()).await;
        Point::Paused.reached();
        let doors = self.partitions.pause(&ending);
        if !self.until(begun + DERIVED_BY, &ending, unites, false).await {
            return Cut::GivenUp(Box::new(making), "much is left to derive");
        }
        let sealed = tokio::time::timeout_at(begun + TOLD_BY, doors.seal()).await;
        if !matches!(sealed, Ok(Ok(()))) {
            return Cut::GivenUp(Box::new(making), "writes take long");
        }
        Point::Sealed.reached();
        if !self.until(begun + TOLD_BY, &ending, unites, true).await {
            return Cut::GivenUp(Box::new(making), "the last changes lead to others");
        }
        let Ok(keeps_logs) = self.keeps_logs().await else {
            return Cut::GivenUp(Box::new(making), "the streams of tables are not known");
        };
        let in_time = move || begun.elapsed() < COUNT_BY;
        let cut = blocking(move || {
            let done = making.cut(doors, keeps_logs, in_time);
            let is_late = matches!(done, Ok(false));
            (is_late.then_some(making), done)
        });
        match cut.await {
            (Some(making), _) => return Cut::GivenUp(Box::new(making), "it took too long"),
            (None, Err(error)) => return Cut::Failed(error),
            (None, Ok(_)) => {}
        }
        // It has happened. Who asks what is derived or told must not find those of before.
        let ids = || self.partitions.ids();
        let are_followed = || self.relay.follows(ids()) && self.feed.follows(ids());
        while !are_followed() && !self.stop.is_cancelled() {
            sleep(LOOK_EVERY).await;
        }
        drop(shut);
        let pause = begun.elapsed();
        Point::Resumed.reached();
        self.tasks.spawn(Arc::clone(self).retire(ending));
        Cut::Done(pause)
    }

    /// Waits a while until what is derived would not keep calls waiting long.
    pub(super) async fn calm(&self, ending: &Arc<[PartitionId]>) {
        let by = Instant::now() + CALM_MAX;
        while Instant::now() < by && !self.stop.is_cancelled() {
            let is_near = ending.iter().all(|id| self.relay.backlog(*id) < CALM_BYTES);
            if is_near && self.jobs_are_done(ending).await {
                return;
            }
            sleep(LOOK_EVERY * 20).await;
        }
    }

    /// Waits until what these partitions' changes lead to is written, and with `is_sealed` told. Where partitions are
    /// united, what others' changes lead to in them is to be written, too: how far it is in each would not be known
    /// any more. `false` = not in time.
    async fn until(
        &self,
        by: Instant,
        ending: &Arc<[PartitionId]>,
        unites: bool,
        is_sealed: bool,
    ) -> bool {
        loop {
            let concerns = |source, destination| {
                ending.contains(&source) || (unites && ending.contains(&destination))
            };
            // In this order: what the one has left to do it leaves to the other.
            if self.relay.is_through_where(concerns)
                && self.jobs_are_done(ending).await
                && (!is_sealed || self.feed.has_told(ending))
            {
                return true;
            }
            if Instant::now() >= by || self.stop.is_cancelled() {
                return false;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn jobs_are_done(&self, ending: &Arc<[PartitionId]>) -> bool {
        let (jobs, ending) = (Arc::clone(&self.jobs), Arc::clone(ending));
        blocking(move || jobs.are_done(&ending).unwrap_or(false)).await
    }

    /// Whether somebody reads the logs of those that end: the stream of a table, or a named cursor.
    async fn keeps_logs(&self) -> Result<bool, Error> {
        let has_streams = !self.tables.streams(None).await?.is_empty();
        Ok(has_streams || !self.tables.all_cursors().await?.is_empty())
    }

    /// Ends what is left of partitions that have ended, once nobody has them in hand any more.
    async fn retire(self: Arc<Inner>, ended: Arc<[PartitionId]>) {
        let (partitions, ids) = (self.partitions.clone(), Arc::clone(&ended));
        blocking(move || partitions.retire(&ids)).await;
        if self.stop.run_until_cancelled(sleep(KEPT)).await.is_none() {
            // The next start does it.
            return;
        }
        let partitions = self.partitions.clone();
        if let Err(error) = blocking(move || partitions.clear(&ended)).await {
            tracing::warn!(%error, "what partitions that ended have left stays until the next start");
        }
    }
}
