//! The handover: calls wait, and children take over from their parents, by the cut that
//! `src/store/partition/split/cut.rs` makes.
//!
//! Owns: the steps before it, their order, and how long each may take. Promises: everything that is derived from the
//! parents' changes is written, and their events are pushed, before the children serve; calls go on whether the cut is
//! done or given up. Must not: make partitions, or decide when a cut is tried.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Inner, KEPT, blocking};
use tideline_base::faults;
use tideline_base::ids::PartitionId;
use tideline_model::Error;
use tideline_store::partition::{Making, OpenError, Point};

/// What came of it.
pub(super) enum Cut {
    /// The children are served; calls have waited so long.
    Done(Duration),
    /// The parents go on, and the cut may be tried again.
    GivenUp(Box<Making>, &'static str),
    /// The parents go on.
    Failed(OpenError),
}

/// Before calls wait, the relay should be nearly done: it is given so long.
const CALM_MAX: Duration = Duration::from_secs(10);
/// The relay is nearly done with so much left: some milliseconds.
const CALM_BYTES: u64 = 1 << 20;
/// Calls that have begun may take so long; those that take longer are refused as busy if they write then.
const CALLS_MAX: Duration = Duration::from_millis(150);
/// By then everything derived is written, or the cut is given up.
const DERIVED_BY: Duration = Duration::from_millis(400);
/// By then all events are pushed, and what the last batches lead to is written, or the cut is given up.
const TOLD_BY: Duration = Duration::from_millis(550);
/// By then the children count, or the cut is given up.
const COUNT_BY: Duration = Duration::from_millis(950);
/// Relay and feed begin to follow the children within milliseconds, if their tasks are alive.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Inner {
    /// Makes calls wait, and has the children take over.
    pub(super) async fn cut(self: &Arc<Inner>, mut making: Making) -> Cut {
        if !self.relay.is_alive() || !self.feed.is_alive() {
            let text =
                "nobody would follow what begins: a task of the server has ended, restart it";
            return Cut::Failed(OpenError::NotReshaped {
                text: text.to_owned(),
            });
        }
        let ending: Arc<[PartitionId]> = making.parents().into();
        let unites = making.unites();
        let tables = self.tables.clone();
        let _streams = tables.begin_streams().await;
        let begun = Instant::now();
        let shut = self.partitions.gate().shut();
        making.slow_down(0);
        // A client that does not read never ends its calls.
        let _ = timeout(CALLS_MAX, shut.empty()).await;
        Point::Paused.reached();
        let paused = self.partitions.pause(&ending);
        if !self.until(begun + DERIVED_BY, &ending, unites, false).await {
            return Cut::GivenUp(Box::new(making), "much is left to derive");
        }
        let sealed = tokio::time::timeout_at(begun + TOLD_BY, paused.seal()).await;
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
            let done = making.cut(paused, keeps_logs, in_time);
            let is_late = matches!(done, Ok(false));
            (is_late.then_some(making), done)
        });
        match cut.await {
            (Some(making), _) => return Cut::GivenUp(Box::new(making), "it took too long"),
            (None, Err(error)) => return Cut::Failed(error),
            (None, Ok(_)) => {}
        }
        let is_followed = self.is_followed().await;
        drop(shut);
        let pause = begun.elapsed();
        if !is_followed {
            tracing::error!(
                "new partitions are served, but pushes or lists do not follow them: restart the server"
            );
        }
        Point::Resumed.reached();
        self.tasks.spawn(Arc::clone(self).retire(ending));
        Cut::Done(pause)
    }

    /// Waits after the cut, before calls go on, until relay and feed follow the children. `false` = they do not: their
    /// tasks have ended, and a longer wait would not help.
    async fn is_followed(&self) -> bool {
        let by = Instant::now() + FOLLOWED_WITHIN;
        let ids = || self.partitions.ids();
        while !(self.relay.follows(ids()) && self.feed.follows(ids())) {
            if Instant::now() >= by || self.stop.is_cancelled() {
                return self.stop.is_cancelled();
            }
            sleep(LOOK_EVERY).await;
        }
        true
    }

    /// Waits a while until the relay is nearly done, so that calls do not wait for it.
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

    /// Waits until everything that is derived from these partitions' changes is written, and with `is_sealed` their
    /// events are pushed, too. In a merge, what others' changes lead to in them must also be written: afterwards nobody
    /// could tell how far it was in each. `false` = not in time.
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
            // In this order: the relay leaves long work to the jobs.
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

    /// Whether the parents' logs are still read: by the stream of a table, a search index, or a named cursor.
    async fn keeps_logs(&self) -> Result<bool, Error> {
        if faults::is_named("ended_not_held") {
            return Ok(false);
        }
        let has_streams = !self.tables.streams(None).await?.is_empty();
        let is_searched = !self.tables.searched().await?.is_empty();
        Ok(has_streams || is_searched || !self.tables.all_cursors().await?.is_empty())
    }

    /// Closes the parents, and removes their files once nobody reads them any more.
    async fn retire(self: Arc<Inner>, ended: Arc<[PartitionId]>) {
        let (partitions, ids) = (self.partitions.clone(), Arc::clone(&ended));
        blocking(move || partitions.retire(&ids)).await;
        let kept = match faults::is_named("ended_go_soon") {
            true => KEPT / 60,
            false => KEPT,
        };
        if self.stop.run_until_cancelled(sleep(kept)).await.is_none() {
            // The next start removes them.
            return;
        }
        let partitions = self.partitions.clone();
        if let Err(error) = blocking(move || partitions.clear(&ended)).await {
            tracing::warn!(%error, "what partitions that ended have left stays until the next start");
        }
    }
}
