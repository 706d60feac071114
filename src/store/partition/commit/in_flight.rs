//! The batches that are written and not yet known to be on disk, and what it means when one will not be.
//!
//! Owns: their order and the answers that wait for them. Promises: batches come out in the order in which they went in,
//! each when its sync has ended. Must not: decide what a sync's end means (the log says it), publish, or fill batches.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::StoreError;
use super::super::shared::Shared;
use super::job::{Job, closures_of};
use super::syncer::Syncer;
use crate::log::AppendError;
use tideline_base::ids::Position;
use tideline_base::metrics::DISK_SPACE;

/// The batches in flight, oldest first.
pub(in super::super) struct InFlight {
    batches: VecDeque<Syncing>,
    syncer: Syncer,
}

/// A batch in flight.
struct Syncing {
    answers: Vec<Box<dyn Job>>,
    /// How long its sync took; `None`: the syncing thread has it.
    took: Option<Duration>,
}

impl InFlight {
    pub(in super::super) fn new(syncer: Syncer) -> InFlight {
        InFlight {
            batches: VecDeque::new(),
            syncer,
        }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Takes a written batch in and has it synced, on this thread if it `is_alone`: where there is nothing to do
    /// meanwhile, the way to another thread would only cost.
    pub(in super::super) fn begin(
        &mut self,
        at: Position,
        answers: Vec<Box<dyn Job>>,
        is_alone: bool,
    ) {
        let took = is_alone.then(|| self.syncer.sync(at));
        if took.is_none() {
            self.syncer.begin(at);
        }
        self.batches.push_back(Syncing { answers, took });
    }

    /// Waits for the oldest batch and takes it out: its answers, and how long its sync took.
    pub(in super::super) fn end(&mut self) -> Option<(Vec<Box<dyn Job>>, Duration)> {
        let Syncing { answers, took } = self.batches.pop_front()?;
        Some((answers, took.unwrap_or_else(|| self.syncer.end())))
    }

    /// After a batch that may not be in the log: those behind it may not be either.
    pub(in super::super) fn abandon(&mut self) {
        while let Some((answers, _)) = self.end() {
            for job in answers {
                job.answer(Err(StoreError::OutcomeUnknown));
            }
        }
    }
}

/// After a failed append: what its jobs hear. Stops the partition if it can't go on.
pub(in super::super) fn failed(
    shared: &Shared,
    error: &AppendError,
    jobs: &[Box<dyn Job>],
) -> StoreError {
    let closures = closures_of(jobs);
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
            shared.stop(format!("the log refused a batch: {error}"));
            StoreError::Unavailable
        }
        AppendError::Full(error) => {
            tracing::warn!(%error, "the disk is full; writes are refused");
            shared.reserve.set_log_full();
            shared.hold.ask(shared.tail());
            shared.metrics.all.refused(DISK_SPACE, closures as u64);
            StoreError::StorageFull
        }
        AppendError::Busy(error) => {
            tracing::warn!(%error, "no file could be opened; writes are refused");
            StoreError::Busy
        }
        AppendError::Unknown(error) => {
            tracing::error!(%error, "the log failed; the partition stops");
            shared.metrics.commit.failed.increment(1);
            shared.stop(format!("the log failed: {error}"));
            StoreError::OutcomeUnknown
        }
    }
}
