//! The feed: follows the commit logs and notifies the watchers of a timeline when there is something new.
//!
//! Owns: a follower per partition, the registry of watched timelines, a bounded ring of fresh messages, the lanes of
//! what is never stored, and the cursors that subscriptions are. Promises: nothing is announced before it is on disk
//! and visible; a watcher that registers and then reads the store misses nothing; a lagging reader costs no memory but
//! its cursor. Must not: encode for a wire, know a socket.

mod changes;
mod cursor;
mod doubt;
mod ephemeral;
#[cfg(any(test, feature = "faults"))]
mod faults;
mod follower;
mod inquiry;
mod look;
mod mailbox;
mod registry;
mod schedule;
mod subscription;
mod sweep;
mod tailer;
#[cfg(test)]
mod tests;
mod topic;

use std::sync::{Arc, OnceLock};

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::timeline::{Standing, Timelines};
use tideline_base::ids::PartitionId;
use tideline_base::metrics::Metrics;
use tideline_model::access::Asker;
use tideline_store::partition::Partitions;

pub use changes::{Begin, ChangeGroup, ChangeReader, Changes, RowCell, RowChange, RowChanges};
pub use cursor::{Cursor, Next, Page, PageFrame};
pub use doubt::{Decided, Doubt};
pub use ephemeral::{Body, Ephemeral, Lane, Names, Online, Pace, Pulled, Receipt, With};
pub use inquiry::{About, Inquiry, Progress, Reached};
pub use look::{PAGE_BYTES, Pull};
pub use mailbox::{Mailbox, Who};
pub use registry::Watch;
pub use subscription::{Ended, Subscription};
pub use topic::fresh::{FORMS_MAX, Fresh};
pub use topic::grown::Grown;

use ephemeral::Sent;
use follower::Followers;
use registry::Registry;
use tailer::Tailer;

/// The running feed. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    registry: Arc<Registry>,
    timelines: Timelines,
    metrics: Arc<Metrics>,
    followers: Followers,
    /// The task that starts a follower for each partition that is born.
    births: Arc<OnceLock<AbortHandle>>,
    stop: CancellationToken,
}

impl Feed {
    /// Starts one follower per partition on the current runtime. `fresh_bytes_max` is for the fresh messages of all
    /// timelines together.
    #[must_use]
    pub fn start(
        partitions: &Partitions,
        timelines: Timelines,
        fresh_bytes_max: usize,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Feed {
        let feed = Feed {
            registry: Arc::new(Registry::new(
                fresh_bytes_max,
                timelines.clone(),
                Arc::clone(metrics),
            )),
            followers: Followers::new(partitions, timelines.clone()),
            timelines,
            metrics: Arc::clone(metrics),
            births: Arc::default(),
            stop: CancellationToken::new(),
        };
        let all = feed.clone();
        let births = partitions.for_each(tasks, &feed.stop, move |life| {
            Tailer::new(&life, &all).run()
        });
        feed.births.get_or_init(|| births);
        let schedule = Arc::clone(&feed.registry.schedule);
        let followers = feed.followers.clone();
        tasks.spawn(schedule.run(followers, Arc::clone(metrics), feed.stop.clone()));
        let sweep = Arc::clone(&feed.registry.sweep);
        tasks.spawn(sweep.run(Arc::clone(metrics), feed.stop.clone()));
        feed
    }

    /// Registers a watcher: from now on `mailbox` gets `slot` whenever something happens to the timeline, whether it
    /// exists yet or not. Read the store after this call, and nothing is missed.
    #[must_use]
    pub fn watch(&self, timeline: &str, mailbox: &Arc<Mailbox>, slot: u32) -> Watch {
        Registry::watch(&self.registry, timeline, mailbox, slot)
    }

    /// A user's subscription on a watched timeline, from a cursor that a `resume` after the watch has given, with the
    /// lanes that it asked for. One that asks about members gives their standing, of a look after the watch.
    #[must_use]
    pub fn subscription(
        &self,
        watch: Watch,
        asker: Arc<Asker>,
        cursor: Cursor,
        with: With,
        standing: Option<Standing>,
    ) -> Subscription {
        Subscription::new(watch, asker, cursor, (with, standing))
    }

    /// Sends a signal to the subscriptions of a timeline that asked for signals, after everything that is committed
    /// there now: a member that was removed before does not get it. `from` does not get it back. `turn`: how far the
    /// right of the sender's subscription was checked ([`Subscription::turn`]). If the sender has left since, the
    /// signal is dropped.
    pub fn signal(
        &self,
        timeline: &str,
        body: Body,
        from: Option<&Arc<Mailbox>>,
        turn: Option<u32>,
    ) {
        let (registry, metrics) = (Arc::clone(&self.registry), Arc::clone(&self.metrics));
        let (name, from) = (timeline.to_owned(), from.map(Arc::clone));
        let send = move || {
            let counted = &metrics.ephemeral;
            match registry.signal(&name, body, from.as_ref(), turn) {
                Sent::Pushed => &counted.sent,
                Sent::Unheard => &counted.unheard,
                Sent::Dropped => &counted.dropped,
            }
            .increment(1);
        };
        if !self.followers.once_told(timeline, send) {
            self.metrics.ephemeral.dropped.increment(1);
        }
    }

    /// The users who are online in a timeline, so many of them by name: users with a connection that subscribes; where
    /// presence is kept because a subscription asked for it, also users that had one within the last five seconds.
    #[must_use]
    pub fn online(&self, timeline: &str, limit: usize) -> Online {
        self.registry.online(timeline, limit)
    }

    /// The subscriptions of a timeline: each one's mailbox, and its slot there.
    #[must_use]
    pub fn subscribers(&self, timeline: &str) -> Vec<(Arc<Mailbox>, u32)> {
        self.registry.subscribers(timeline)
    }

    /// Whether watchers were notified of everything that these partitions have committed.
    #[must_use]
    pub fn has_told(&self, partitions: &[PartitionId]) -> bool {
        self.followers.have_told(partitions)
    }

    /// Whether each of these partitions has its follower.
    #[must_use]
    pub fn follows(&self, partitions: impl Iterator<Item = PartitionId>) -> bool {
        self.followers.are_there(partitions)
    }

    /// Whether it will follow partitions that are born.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.births
            .get()
            .is_some_and(|births| !births.is_finished())
    }

    /// Brings the gauges up to date. May block on the disk.
    pub fn observe(&self) {
        let held = self.registry.ephemeral_bytes();
        self.metrics.feed.ephemeral_bytes.count(held as u64);
        let kept = self.registry.grown_bytes();
        self.metrics.growth.kept_bytes.count(kept as u64);
        self.followers.observe();
    }

    /// How late pushes of a partition are, ms. May block on the disk.
    #[must_use]
    pub fn lag_ms(&self, partition: PartitionId) -> u64 {
        self.followers.lag_ms(partition)
    }

    /// Stops the followers. Watchers get no more news.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}
