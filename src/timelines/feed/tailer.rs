//! Follows one partition's log and notifies the registry.
//!
//! Owns: the place in the log up to which watchers were notified. Promises: every committed batch once, in order; if
//! its place is lost (the log was trimmed past it, or cannot be read) it says so to every watcher instead of leaving a
//! gap. Must not: hold up commits: it only reads, and bounded much at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Feed;
use super::follower::Follower;
use super::registry::Registry;
use crate::timeline::{Grew, MemberChange, MemberRow, TimelineEvent, Timelines, memberships};
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics::Counter;
use tideline_store::partition::{Batch, Life, Tail, caught};

pub(super) struct Tailer {
    partition: PartitionId,
    tail: Tail,
    position: Position,
    timelines: Timelines,
    registry: Arc<Registry>,
    follower: Arc<Follower>,
    panics: Counter,
    stop: CancellationToken,
}

impl Tailer {
    /// Starts at the log's end, or at the begin of one that is born: a watcher reads the store first.
    pub(super) fn new(life: &Life, feed: &Feed) -> Tailer {
        let follower = feed.followers.of(life.partition);
        follower.told(life.after);
        Tailer {
            partition: life.partition,
            tail: follower.tail.clone(),
            position: life.after,
            timelines: feed.timelines.clone(),
            registry: Arc::clone(&feed.registry),
            follower,
            panics: feed.metrics.server.panics.clone(),
            stop: feed.stop.clone(),
        }
    }

    /// Runs until the feed stops or the partition closes; of a partition that has closed, every batch is announced
    /// first.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        while let Some(true) = stop
            .run_until_cancelled(self.tail.past(self.position))
            .await
        {
            match self.tail.next(self.position, READ_BYTES).await {
                Ok(batches) => {
                    for batch in batches {
                        #[cfg(any(test, feature = "faults"))]
                        super::faults::late().await;
                        self.position = batch.position;
                        if caught("telling of a batch", || self.tell(&batch)).is_none() {
                            self.panics.increment(1);
                            // Readers that were not notified ask the store.
                            self.follower.metrics.resyncs.increment(1);
                            self.registry.doubt_all();
                        }
                        self.note_told();
                    }
                }
                Err(error) => {
                    tracing::error!(partition = %self.partition, error = error.0, "the feed lost its place in the log");
                    self.follower.metrics.resyncs.increment(1);
                    self.position = self.tail.position();
                    self.registry.doubt_all();
                    self.note_told();
                }
            }
        }
    }

    /// Notes that everything up to the position is announced; what waited for that goes out.
    fn note_told(&self) {
        let told = || self.follower.told(self.position);
        if caught("telling what waited for a batch", told).is_none() {
            self.panics.increment(1);
        }
    }

    fn tell(&self, batch: &Batch) {
        let metrics = &self.follower.metrics;
        metrics.batches.increment(1);
        // A watcher that starts from now on reads the store after that, where this batch is already visible.
        if self.registry.is_empty() {
            self.timelines.note(self.partition, batch);
            return;
        }
        let watched = |timeline: &str| self.registry.is_watched(timeline);
        let events = self.timelines.events(self.partition, batch, watched);
        self.members(batch, &events, watched);
        if self.registry.some_ask_parts() {
            let wants = |timeline: &str| self.registry.asks_parts(timeline);
            // Before what else the batch did: a message that it closed is whole, and its parts are in it.
            let Grew { hidden, parts } = self.timelines.growths(self.partition, batch, wants);
            for (timeline, user) in hidden {
                self.registry.hid(&timeline, &user);
            }
            for growth in parts {
                self.registry.grew(&growth);
            }
        }
        for event in events {
            self.registry.publish(event);
        }
        let took_ms = self.timelines.now_ms().saturating_sub(batch.commit_ms);
        metrics.delay_seconds.record(took_ms as f64 / 1e3);
    }

    /// Tells what the batch did to members, by timeline: before the rest of it, which perhaps is not for them any more.
    fn members(&self, batch: &Batch, events: &[TimelineEvent], watched: impl Fn(&str) -> bool) {
        let Ok(changes) = memberships(batch, watched) else {
            let position = batch.position.0;
            tracing::error!(position, "a committed batch has members that can't be read");
            // Every watcher that may be concerned asks the store.
            self.registry.doubt_all();
            return;
        };
        let mut by_timeline: BTreeMap<String, Vec<MemberChange>> = BTreeMap::new();
        for change in changes {
            match by_timeline.get_mut(&change.timeline) {
                Some(changes) => changes.push(change),
                None => {
                    by_timeline.insert(change.timeline.clone(), vec![change]);
                }
            }
        }
        let asks_membership = self.registry.asks_membership();
        for (timeline, changes) in by_timeline {
            // Where rights are decided, any change of a member may be one of their role.
            let decides = self.registry.timelines.decides();
            let moved = changes.iter().filter(|change| change.moved || decides);
            let own_floor = |change: &MemberChange| change.row.as_ref().map(MemberRow::own_floor);
            let moves: Vec<_> = moved
                .map(|change| (Box::from(change.user.as_str()), own_floor(change)))
                .collect();
            if !moves.is_empty() {
                self.registry.moved(&timeline, moves);
            }
            if !asks_membership {
                continue;
            }
            let event = events.iter().find(|event| event.timeline == timeline);
            let standing = event.map(|event| event.members);
            self.registry.members(&timeline, changes, standing);
        }
    }
}

const READ_BYTES: usize = 4 << 20;
