//! The one thread that decides: drain the queue, run each job, write one frame, have it synced, publish, answer.
//!
//! Owns: the log's end and the active memtable. Promises: nobody is answered "done" before the frame is on disk; after
//! a failed write or sync nothing is acknowledged any more. Must not: read the clock twice in a batch, or wait for
//! readers.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::flusher::Work;
use super::job::{Job, Outcome};
use super::memtable::Memtable;
use super::pending::Pending;
use super::pressure::Pressure;
use super::shared::{Queued, Shared};
use super::syncer::{Synced, Syncer, sync};
use super::txn::Txn;
use super::{Options, Purpose, Rules};
use crate::ids::{Clock, Position};
use crate::log::{AppendError, Log, Refusal, Written};
use crate::metrics::DISK_SPACE;

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) jobs: mpsc::Receiver<Queued>,
    pub(super) tail_watch: watch::Sender<Position>,
    pub(super) log: Log,
    pub(super) memtable: Arc<Memtable>,
    pub(super) rules: Arc<dyn Rules>,
    pub(super) clock: Arc<Clock>,
    pub(super) position: Position,
    pub(super) pending: Pending,
    /// Jobs of the batch that is being filled, which wait for their answer.
    pub(super) answers: Vec<Box<dyn Job>>,
    /// What of a bundle did not fit into the batch: the next one begins with it.
    pub(super) rest: Option<Box<dyn Job>>,
    /// The batch before, while it is being synced.
    pub(super) in_flight: Option<InFlight>,
    pub(super) syncer: Syncer,
    pub(super) is_closing: bool,
    pub(super) is_rotating: bool,
    /// The batch that is being filled makes room on a full disk.
    pub(super) makes_room: bool,
    pub(super) flusher: SyncSender<Work>,
    pub(super) flushing: JoinHandle<()>,
}

/// A batch that is written and not yet known to be on disk.
pub(super) struct InFlight {
    answers: Vec<Box<dyn Job>>,
    /// `None`: the syncing thread has it.
    synced: Option<Synced>,
}

/// Why a batch was not committed; decides what its jobs hear.
type Failed = Outcome;

impl Writer {
    pub(super) fn run(mut self) {
        while let Some(first) = self.next() {
            match first {
                Queued::Tick => self.upkeep(),
                Queued::Rotate => self.rotate(),
                first => self.batch(first),
            }
            if self.is_closing {
                break;
            }
        }
        self.settle();
        self.refuse_the_rest();
        self.finish();
    }

    /// What comes next. While nothing is queued the batch in flight is all there is to wait for.
    fn next(&mut self) -> Option<Queued> {
        if let Some(job) = self.rest.take() {
            return Some(Queued::Rest(job));
        }
        if self.in_flight.is_some() {
            if let Ok(queued) = self.jobs.try_recv() {
                return Some(queued);
            }
            self.settle();
        }
        let first = self.jobs.blocking_recv();
        // Whoever waits for this processor is likely to queue something too: larger batches, fewer syncs.
        std::thread::yield_now();
        first
    }

    /// Fills a batch while the one before it syncs; then settles that one, and sends this one after it.
    fn batch(&mut self, first: Queued) {
        self.slow_down();
        self.fill(first);
        self.settle();
        if self.shared.is_stopped() {
            // The batch before failed after this one had seen it: not even "nothing to do" or a refusal may be told.
            self.answer(Outcome::Unavailable);
            return;
        }
        #[cfg(any(test, feature = "faults"))]
        self.answer_early(super::Fault::AckBeforeLog);
        match self.write() {
            Ok(Some(written)) => self.begin_sync(written),
            // Only reads: what they saw is on disk by now.
            Ok(None) => self.answer(Outcome::Committed),
            Err(failed) => {
                self.pending.forget();
                self.answer(failed);
            }
        }
        if self.is_rotating
            || self.memtable.bytes() >= self.options.memtable_bytes
            || self.memtable.log_bytes() >= self.options.memtable_log_bytes()
        {
            self.rotate();
        }
    }

    /// Runs the first job and what has queued behind it. No timer: while one batch syncs, the next one gathers. Jobs
    /// see the batch that is still being synced: if its sync fails, theirs is never written.
    fn fill(&mut self, first: Queued) {
        let started = Instant::now();
        self.pending
            .begin(self.position.next(), self.clock.now_ms());
        let base = self.shared.writers_view(self.position);
        let mut next = Some(first);
        let (mut freed, mut closures) = (0, 0);
        self.makes_room = false;
        while let Some(queued) = next.take() {
            match queued {
                Queued::Job {
                    purpose,
                    bytes,
                    mut job,
                } => {
                    self.makes_room |= purpose == Purpose::MakesRoom;
                    freed += bytes;
                    closures += job.closures();
                    self.rest = job.run(&mut Txn::new(&mut self.pending, &base, &self.rules));
                    self.answers.push(job);
                }
                // It has left the queue already.
                Queued::Rest(mut job) => {
                    self.rest = job.run(&mut Txn::new(&mut self.pending, &base, &self.rules));
                    self.answers.push(job);
                }
                // Due soon again, and a batch is no place for it.
                Queued::Tick => {}
                Queued::Rotate => {
                    self.is_rotating = true;
                    break;
                }
                Queued::Close => {
                    self.is_closing = true;
                    break;
                }
            }
            if closures < self.options.batch_jobs_max
                && self.rest.is_none()
                && !self.pending.is_full()
            {
                next = self.jobs.try_recv().ok();
            }
        }
        self.shared.dequeued(closures, freed);
        let took = started.elapsed().as_secs_f64();
        self.shared.metrics.commit.fill_seconds.record(took);
    }

    /// Writes the batch as one frame. `None` = there is nothing to write.
    fn write(&mut self) -> Result<Option<Written>, Failed> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let written = match self.append() {
            // Written with what is kept for it; until there is as much room again nothing else is let in.
            Err(AppendError::Full(_)) if self.makes_room && self.shared.reserve.give_back() => {
                self.shared.set_pressure(Pressure::Full);
                self.append()
            }
            appended => appended,
        }
        .map_err(|error| self.failed(&error, closures_of(&self.answers)))?;
        let took = started.elapsed().as_secs_f64();
        self.shared.metrics.commit.write_seconds.record(took);
        #[cfg(any(test, feature = "faults"))]
        self.answer_early(super::Fault::AckBeforeSync);
        Ok(Some(written))
    }

    fn append(&mut self) -> Result<Written, AppendError> {
        let (effects, changes) = (self.pending.effects(), self.pending.changes());
        self.log.write(self.pending.now_ms, effects, changes)
    }

    /// Sends the written batch to the disk and lets the memtable have it, above the tail, where only the next batch
    /// sees it.
    fn begin_sync(&mut self, written: Written) {
        let frame = Arc::clone(written.frame());
        assert_eq!(
            frame.position, self.pending.position,
            "the log and the writer count together"
        );
        let is_alone = self.jobs.is_empty() && self.rest.is_none();
        let synced = if is_alone {
            // Nothing to do meanwhile: the way to another thread would only cost.
            Some(sync(written))
        } else {
            self.syncer.begin(written);
            None
        };
        self.memtable
            .insert(frame.position, &frame.effects, frame.bytes, &*self.rules);
        self.position = frame.position;
        let answers = std::mem::take(&mut self.answers);
        self.in_flight = Some(InFlight { answers, synced });
        if is_alone {
            self.settle();
        }
    }

    /// Ends the batch in flight: waits for its sync, moves the tail, answers everybody, in this order.
    fn settle(&mut self) {
        let Some(InFlight {
            mut answers,
            synced,
        }) = self.in_flight.take()
        else {
            return;
        };
        let Synced { written, took } = synced.unwrap_or_else(|| self.syncer.end());
        let outcome = match self.log.sync(written) {
            Ok(frame) => {
                let metrics = &self.shared.metrics.commit;
                metrics.sync_seconds.record(took.as_secs_f64());
                metrics.batches.increment(1);
                metrics.batch_closures.count(closures_of(&answers));
                metrics.batch_bytes.record(frame.bytes as f64);
                let position = frame.position;
                self.log.publish(frame);
                self.shared.publish(position);
                self.tail_watch.send_replace(position);
                Outcome::Committed
            }
            Err(error) => self.failed(&error, closures_of(&answers)),
        };
        for job in answers.drain(..) {
            job.answer(outcome);
        }
        if self.answers.capacity() == 0 {
            self.answers = answers;
        }
    }

    /// After a failed append: what its jobs hear, and whether the partition goes on.
    fn failed(&self, error: &AppendError, closures: usize) -> Failed {
        match error {
            // Nothing was written, and the log goes on. What a closure may add is bounded so that this can't be.
            AppendError::Refused(Refusal::TooLarge) => {
                tracing::error!(
                    closures,
                    "a batch is larger than a frame may be; its writes are refused"
                );
                Outcome::Faulty
            }
            AppendError::Refused(refusal) => {
                tracing::error!(?refusal, "the log refused a batch; the partition stops");
                self.shared.stop();
                Outcome::Unavailable
            }
            AppendError::Full(error) => {
                tracing::warn!(%error, "the disk is full; writes are refused");
                self.shared.reserve.set_log_full();
                self.shared.metrics.all.refused(DISK_SPACE, closures as u64);
                Outcome::Full
            }
            AppendError::Busy(error) => {
                tracing::warn!(%error, "no file could be opened; writes are refused");
                Outcome::Busy
            }
            AppendError::Unknown(error) => {
                tracing::error!(%error, "the log failed; the partition stops");
                self.shared.metrics.commit.failed.increment(1);
                self.shared.stop();
                Outcome::Unknown
            }
        }
    }

    fn answer(&mut self, outcome: Outcome) {
        for job in self.answers.drain(..) {
            job.answer(outcome);
        }
    }

    /// The control that shows that the crash tests notice an early acknowledgement.
    #[cfg(any(test, feature = "faults"))]
    fn answer_early(&mut self, fault: super::Fault) {
        if self.options.fault == Some(fault) {
            self.answer(Outcome::Committed);
        }
    }

    /// Compaction is behind: give it a moment before each batch, more the further it is behind.
    fn slow_down(&mut self) {
        if let Pressure::Slow(steps) = self.shared.pressure() {
            // Whose batch is on disk does not wait for this.
            self.settle();
            self.shared.metrics.commit.slowed.increment(1);
            std::thread::sleep(SLOW_STEP * u32::from(steps));
        }
    }

    /// Freezes the active memtable and begins a new one.
    fn rotate(&mut self) {
        self.is_rotating = false;
        // What is flushed must be on disk: the image never runs ahead of the log.
        self.settle();
        // After a failure the memtable may hold a batch that is not: the flusher must never get it, however the two
        // threads meet.
        if self.memtable.is_empty() || self.shared.is_stopped() {
            return;
        }
        let now_ms = self.clock.now_ms();
        let fresh = match self.shared.take_spare() {
            Some(spare) => Memtable::within(spare, self.position, now_ms),
            None => {
                let rows = self.options.memtable_rows_expected();
                Memtable::new(self.position, now_ms, rows)
            }
        };
        self.memtable = Arc::new(fresh);
        self.shared.freeze(Arc::clone(&self.memtable));
        // A full channel means that it knows already.
        let _ = self.flusher.try_send(Work::Frozen);
    }

    /// What is due from time to time: an old memtable is frozen.
    fn upkeep(&mut self) {
        let now_ms = self.clock.now_ms();
        // Also if the clock was set back.
        if now_ms.abs_diff(self.memtable.created_ms()) >= self.options.memtable_age_ms {
            self.rotate();
        }
    }

    fn refuse_the_rest(&mut self) {
        self.jobs.close();
        while let Some(queued) = self.jobs.blocking_recv() {
            if let Queued::Job { job, .. } = queued {
                job.answer(Outcome::ShuttingDown);
            }
        }
    }

    /// The last flush, then the log's mark that all was in order.
    fn finish(mut self) {
        self.rotate();
        let _ = self.flusher.send(Work::Close);
        if self.flushing.join().is_err() {
            tracing::error!("the flusher died");
            std::process::abort();
        }
        if let Err(error) = self.log.close() {
            tracing::warn!(%error, "the log could not be closed cleanly; it will be checked at the next start");
        }
    }
}

/// How many closures these jobs ran.
fn closures_of(jobs: &[Box<dyn Job>]) -> usize {
    jobs.iter().map(|job| job.closures()).sum()
}

/// One step of slowing down, before each batch.
const SLOW_STEP: Duration = Duration::from_millis(1);
