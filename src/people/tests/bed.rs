//! People on partitions of their own.
//!
//! Owns: opening and closing them, with or without the relay. Promises: all is as the server starts it. Must not: know
//! what is tested.

use std::path::Path;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::ids::Clock;
use crate::partition::{Options, Partitions};
use crate::people::{Jobs, People};
use crate::relay::{self, Relay};
use crate::table::Catalog;
use crate::timeline::{Limits, Timelines};

/// An open data directory.
pub(super) struct Bed {
    pub(super) people: People,
    pub(super) timelines: Timelines,
    pub(super) partitions: Partitions,
    pub(super) relay: Relay,
    pub(super) jobs: Arc<Jobs>,
    pub(super) clock: Arc<Clock>,
    tasks: TaskTracker,
}

impl Bed {
    /// Opens so many partitions; `relays`: what is derived is derived.
    pub(super) fn open(
        dir: &Path,
        (partitions, relays): (u16, bool),
        limits: Limits,
        now_ms: u64,
    ) -> Bed {
        let clock = Arc::new(Clock::fixed(now_ms));
        let options = Options {
            partitions,
            holds_log: true,
            ..Options::default()
        };
        let rules = People::rules(&limits, Catalog::default());
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        let tasks = TaskTracker::new();
        let (mut targets, jobs) = People::targets(&partitions, &timelines);
        if relays {
            jobs.start(&tasks);
        } else {
            targets.clear();
        }
        let options = relay::Options::default();
        let relay = Relay::start(&partitions, targets, options, &Arc::default(), &tasks);
        Bed {
            people: People::new(partitions.clone(), timelines.clone(), relay.clone()),
            timelines,
            partitions,
            relay,
            jobs,
            clock,
            tasks,
        }
    }

    /// Writes what is in memory into the image.
    pub(super) async fn flush(&self) {
        for id in self.partitions.ids() {
            let partitions = self.partitions.clone();
            let flushed = tokio::task::spawn_blocking(move || partitions.rotate(id));
            flushed.await.unwrap();
        }
    }

    pub(super) async fn close(self) {
        self.relay.stop();
        self.jobs.stop();
        self.tasks.close();
        self.tasks.wait().await;
        self.partitions.close().await;
    }
}
