//! Follows one partition's log and tells the registry what happened.
//!
//! Owns: the place in the log up to which watchers were told. Promises: every committed batch once, in order; if its
//! place is lost (the log was trimmed past it, or cannot be read) it says so to every watcher instead of leaving a gap.
//! Must not: hold up commits: it only reads, and bounded much at a time.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Feed;
use super::registry::Registry;
use crate::ids::{PartitionId, Position};
use crate::metrics;
use crate::partition::{Batch, ReadError, Tail};
use crate::timeline::Timelines;

pub(super) struct Tailer {
    partition: PartitionId,
    tail: Tail,
    position: Position,
    timelines: Timelines,
    registry: Arc<Registry>,
}

impl Tailer {
    /// Starts at the log's end: whoever watches reads the store first.
    pub(super) fn new(partition: PartitionId, tail: Tail, feed: &Feed) -> Tailer {
        let position = tail.position();
        Tailer {
            partition,
            tail,
            position,
            timelines: feed.timelines.clone(),
            registry: Arc::clone(&feed.registry),
        }
    }

    /// Runs until `stop` or until the partition closes.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while let Some(true) = stop
            .run_until_cancelled(self.tail.past(self.position))
            .await
        {
            match self.batches().await {
                Ok(batches) => {
                    for batch in batches {
                        self.position = batch.position;
                        self.tell(&batch);
                    }
                }
                Err(error) => {
                    tracing::error!(partition = %self.partition, error = error.0, "the feed lost its place in the log");
                    metrics::feed().resyncs.increment(1);
                    self.position = self.tail.position();
                    self.registry.doubt_all();
                }
            }
            let behind = self.tail.position().0.saturating_sub(self.position.0);
            #[allow(clippy::cast_precision_loss)] // a gauge
            metrics::feed().lag.set(behind as f64);
        }
    }

    /// The next batches. Near the end they are in memory; further back it may be the disk, which is not for this
    /// thread.
    async fn batches(&self) -> Result<Vec<Arc<Batch>>, ReadError> {
        let behind = self.tail.position().0.saturating_sub(self.position.0);
        if behind <= IN_MEMORY {
            return self.tail.batches(self.position, READ_BYTES);
        }
        let (tail, position) = (self.tail.clone(), self.position);
        tokio::task::spawn_blocking(move || tail.batches(position, READ_BYTES))
            .await
            .unwrap_or_else(|error| Err(ReadError(format!("the read of the log failed: {error}"))))
    }

    fn tell(&self, batch: &Batch) {
        metrics::feed().batches.increment(1);
        // Whoever starts to watch from now on reads the store after that, where this batch is already visible.
        if self.registry.is_empty() {
            self.timelines.note(self.partition, batch);
            return;
        }
        let watched = |timeline: &str| self.registry.is_watched(timeline);
        for event in self.timelines.events(self.partition, batch, watched) {
            self.registry.publish(event);
        }
    }
}

/// A lag up to this many batches is surely still in memory.
const IN_MEMORY: u64 = 8;
const READ_BYTES: usize = 4 << 20;
