//! People on partitions of their own.
//!
//! Owns: opening and closing them, with or without the relay. Promises: all is as the server starts it. Must not: know
//! what is tested.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::people::{Jobs, People};
use crate::relay::{self, Relay};
use crate::timeline::{Limits, Timelines};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_store::partition::{Options, Partitions, Reshape};
use tideline_table::Catalog;

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
    /// Opens so many partitions, or as many as there are (0); `relays`: what is derived is derived.
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

    /// Waits until nothing is left to derive.
    pub(super) async fn through(&self) {
        let ends = || -> Vec<(PartitionId, Position)> {
            let end = |id| (id, self.partitions.tail(id).position());
            self.partitions.ids().map(end).collect()
        };
        let through = async {
            loop {
                let before = ends();
                for (source, position) in &before {
                    for destination in self.partitions.ids() {
                        for target in 1..=3 {
                            let reached =
                                self.relay.reached(target, *source, destination, *position);
                            assert!(reached.await);
                        }
                    }
                }
                if self.jobs.is_idle() && before == ends() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), through).await;
        assert!(in_time.is_ok(), "the relay does not get through");
    }

    pub(super) async fn close(self) {
        self.end().await;
        self.partitions.close().await;
    }

    /// Closes it, and the next opening finds so many partitions.
    pub(super) async fn reshape(self, count: u16) {
        self.through().await;
        self.end().await;
        let partitions = self.partitions.clone();
        let reshape = move || partitions.reshape(&Reshape::equal(count), false);
        let reshaped = tokio::task::spawn_blocking(reshape).await.unwrap();
        reshaped.unwrap();
        self.partitions.close().await;
    }

    /// The same while all goes on.
    pub(super) async fn reshape_served(&self, count: u16) {
        let through = async || self.through().await;
        let reshape = Reshape::equal(count);
        self.partitions.reshape_served(reshape, through).await;
        while !self.relay.follows(self.partitions.ids()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends all that runs by itself.
    async fn end(&self) {
        self.relay.stop();
        self.jobs.stop();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
