//! The batches that are written and not yet known to be on disk.
//!
//! Owns: what happens between a batch's write and its answers. Promises: batches are settled in order; a batch is seen
//! and answered only when it is durable, and none behind one that failed ever is. Must not: fill batches.

use std::time::Duration;

use super::StoreError;
use super::job::Job;
use super::writer::{Writer, closures_of};
use crate::log::{AppendError, Frame};
use crate::metrics::DISK_SPACE;

/// A batch that is written and not yet known to be on disk.
pub(super) struct InFlight {
    answers: Vec<Box<dyn Job>>,
    /// How long its sync took; `None`: the syncing thread has it.
    synced: Option<Duration>,
}

impl Writer {
    /// Sends the written batch to the disk and lets the memtable have it, above the tail, where only the next batch
    /// sees it.
    pub(super) fn begin_sync(&mut self, frame: &Frame) {
        assert_eq!(
            frame.position, self.pending.position,
            "the log and the writer count together"
        );
        let is_alone = self.jobs.is_empty() && self.rest.is_none() && self.in_flight.is_empty();
        let synced = if is_alone {
            // Nothing to do meanwhile: the way to another thread would only cost.
            Some(self.syncer.sync(frame.position))
        } else {
            self.syncer.begin(frame.position);
            None
        };
        self.memtable.insert(frame, &*self.rules);
        self.position = frame.position;
        let answers = std::mem::take(&mut self.answers);
        self.in_flight.push_back(InFlight { answers, synced });
        if is_alone {
            self.settle();
        }
    }

    pub(super) fn settle_all(&mut self) {
        while !self.in_flight.is_empty() {
            self.settle();
        }
    }

    /// Ends the oldest batch in flight: waits for its sync, moves the tail, answers its submitters, in this order.
    pub(super) fn settle(&mut self) {
        let Some(InFlight {
            mut answers,
            synced,
        }) = self.in_flight.pop_front()
        else {
            return;
        };
        let took = synced.unwrap_or_else(|| self.syncer.end());
        let outcome = match self.log.settle() {
            Ok(frame) => {
                let metrics = &self.shared.metrics.commit;
                metrics.sync_seconds.record(took.as_secs_f64());
                metrics.batches.increment(1);
                metrics.batch_closures.count(closures_of(&answers));
                metrics.batch_bytes.record(frame.bytes() as f64);
                let position = frame.position;
                self.log.publish(frame);
                self.shared.publish(position);
                self.tail_watch.send_replace(position);
                Ok(())
            }
            Err(error) => Err(self.failed(&error, closures_of(&answers))),
        };
        for job in answers.drain(..) {
            job.answer(outcome);
        }
        if outcome.is_err() {
            self.abandon_in_flight();
        }
        if self.answers.capacity() == 0 {
            self.answers = answers;
        }
    }

    /// After a batch that may not be in the log: those behind it may not be either, and the memtable must not keep any
    /// of them.
    fn abandon_in_flight(&mut self) {
        for batch in std::mem::take(&mut self.in_flight) {
            if batch.synced.is_none() {
                let _ = self.syncer.end();
            }
            for job in batch.answers {
                job.answer(Err(StoreError::OutcomeUnknown));
            }
        }
        self.memtable.discard_above(self.log.settled());
    }

    /// After a failed append: what its jobs hear, and whether the partition goes on.
    pub(super) fn failed(&self, error: &AppendError, closures: usize) -> StoreError {
        match error {
            // Nothing was written, and the log goes on. What a closure may add is bounded so that this can't be.
            AppendError::TooLarge => {
                tracing::error!(
                    closures,
                    "a batch is larger than a frame may be; its writes are refused"
                );
                StoreError::Internal
            }
            AppendError::Stopped | AppendError::Unsettled => {
                tracing::error!(%error, "the log refused a batch; the partition stops");
                self.shared.stop();
                StoreError::Unavailable
            }
            AppendError::Full(error) => {
                tracing::warn!(%error, "the disk is full; writes are refused");
                self.shared.reserve.set_log_full();
                self.shared.metrics.all.refused(DISK_SPACE, closures as u64);
                StoreError::StorageFull
            }
            AppendError::Busy(error) => {
                tracing::warn!(%error, "no file could be opened; writes are refused");
                StoreError::Busy
            }
            AppendError::Unknown(error) => {
                tracing::error!(%error, "the log failed; the partition stops");
                self.shared.metrics.commit.failed.increment(1);
                self.shared.stop();
                StoreError::OutcomeUnknown
            }
        }
    }
}
