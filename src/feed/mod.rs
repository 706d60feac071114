//! The feed: follows the commit logs and notifies the watchers of a timeline when there is something new.
//!
//! Owns: a follower per partition, the registry of watched timelines, a bounded ring of fresh messages, the lanes of
//! what is never stored, and the cursors that subscriptions are. Promises: nothing is announced before it is on disk
//! and visible; a watcher that registers and then reads the store misses nothing; a lagging reader costs no memory but
//! its cursor. Must not: encode for a wire, know a socket.

mod budget;
mod changes;
mod cursor;
mod ephemeral;
mod fresh;
mod held;
mod mailbox;
mod readers;
mod registry;
mod schedule;
mod subscription;
mod tailer;
mod topic;
mod watchers;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ids::PartitionId;
use crate::metrics::Metrics;
use crate::partition::{Each, Partitions};
use crate::timeline::{Standing, Timelines};

pub use changes::{Begin, ChangeGroup, ChangeReader, Changes, RowCell, RowChange, RowChanges};
pub use cursor::{Cursor, Next, Page};
pub use ephemeral::{Body, Ephemeral, Lane, Names, Online, Pace, Pulled, Receipt, Sent, With};
pub use fresh::{FORMS_MAX, Fresh};
pub use mailbox::{Mailbox, Who};
pub use registry::Watch;
pub use subscription::{Ended, PAGE_BYTES, Pull, Subscription};

use registry::Registry;
use tailer::{Follower, Tailer};

/// The running feed. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    registry: Arc<Registry>,
    timelines: Timelines,
    metrics: Arc<Metrics>,
    followers: Arc<Each<Follower>>,
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
        let follower = |partitions: &Partitions, id: PartitionId| {
            Follower::new(partitions.tail(id), partitions.metrics().follower(id.0))
        };
        let feed = Feed {
            registry: Arc::new(Registry::new(
                fresh_bytes_max,
                timelines.clone(),
                Arc::clone(metrics),
            )),
            timelines,
            metrics: Arc::clone(metrics),
            followers: Arc::new(Each::new(partitions, follower)),
            stop: CancellationToken::new(),
        };
        let all = feed.clone();
        partitions.for_each(tasks, &feed.stop, move |life| {
            Tailer::new(&life, &all).run()
        });
        let schedule = Arc::clone(&feed.registry.schedule);
        tasks.spawn(schedule.run(Arc::clone(metrics), feed.stop.clone()));
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
        user: Arc<str>,
        cursor: Cursor,
        with: With,
        standing: Option<Standing>,
    ) -> Subscription {
        Subscription::new(watch, user, cursor, (with, standing))
    }

    /// Sends a signal to the subscriptions of a timeline that asked for signals. `from` does not get it back.
    pub fn signal(&self, timeline: &str, body: Body, from: Option<&Arc<Mailbox>>) -> Sent {
        let sent = self.registry.signal(timeline, body, from);
        let counted = &self.metrics.ephemeral;
        match sent {
            Sent::Sent => &counted.sent,
            Sent::Unheard => &counted.unheard,
            Sent::Dropped => &counted.dropped,
        }
        .increment(1);
        sent
    }

    /// Who is online in a timeline, so many of them by name: whose connections subscribe, and where presence is kept
    /// because somebody asked for it, those that did within the last five seconds.
    #[must_use]
    pub fn online(&self, timeline: &str, limit: usize) -> Online {
        self.registry.online(timeline, limit)
    }

    /// Whether all that these partitions have committed was told.
    #[must_use]
    pub fn has_told(&self, partitions: &[PartitionId]) -> bool {
        let followers = self.followers.made();
        let told = |id| {
            followers
                .get(id)
                .is_some_and(|follower| follower.has_told())
        };
        partitions.iter().all(told)
    }

    /// Whether each of these partitions has its follower.
    #[must_use]
    pub fn follows(&self, mut partitions: impl Iterator<Item = PartitionId>) -> bool {
        let followers = self.followers.made();
        partitions.all(|id| followers.contains_key(&id))
    }

    /// Brings the gauges up to date. May block on the disk.
    pub fn observe(&self) {
        let held = self.registry.ephemeral_bytes();
        self.metrics.feed.ephemeral_bytes.count(held as u64);
        for follower in self.followers.made().values() {
            follower.observe(self.timelines.now_ms());
        }
    }

    /// Stops the followers. Watchers get no more news.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}
