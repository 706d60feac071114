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

use super::super::cluster::Member;
use super::super::memory::flusher::Work;
use super::super::memory::memtable::Memtable;
use super::super::shared::Shared;
use super::super::{Options, Purpose, Rules, StoreError};
use super::flush_lag::FlushLag;
use super::in_flight::{InFlight, failed};
use super::job::{Job, Outcome, closures_of};
use super::pending::Pending;
use super::queue::Queued;
use crate::log::{AppendError, Frame, Log};
use tideline_base::clock::Clock;
use tideline_base::faults::is_named;
use tideline_base::ids::Position;

pub(in super::super) struct Writer {
    pub(in super::super) shared: Arc<Shared>,
    pub(in super::super) options: Options,
    pub(in super::super) jobs: mpsc::Receiver<Queued>,
    pub(in super::super) tail_watch: watch::Sender<Position>,
    pub(in super::super) log: Log,
    pub(in super::super) memtable: Arc<Memtable>,
    pub(in super::super) rules: Arc<dyn Rules>,
    pub(in super::super) clock: Arc<Clock>,
    pub(in super::super) position: Position,
    pub(in super::super) pending: Pending,
    /// Jobs of the batch that is being filled, which wait for their answer.
    pub(in super::super) answers: Vec<Box<dyn Job>>,
    /// What of a bundle did not fit into the batch: the next one begins with it.
    pub(in super::super) rest: Option<(Purpose, Box<dyn Job>)>,
    /// The batches before, while they are being synced, oldest first.
    pub(in super::super) in_flight: InFlight,
    pub(in super::super) is_closing: bool,
    pub(in super::super) is_rotating: bool,
    /// What the batch that is being filled gets on a full disk: as much as its jobs' last purpose.
    pub(in super::super) purpose: Purpose,
    pub(in super::super) flusher: SyncSender<Work>,
    pub(in super::super) flushing: JoinHandle<()>,
    /// Its part in a log that machines share.
    pub(in super::super) member: Option<Box<Member>>,
}

impl Writer {
    pub(in super::super) fn run(mut self) {
        if let Some(member) = self.member.take() {
            return self.run_member(*member);
        }
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
        self.settle_all();
        self.end();
    }

    /// Refuses what is still queued, flushes, and ends.
    pub(in super::super) fn end(mut self) {
        self.refuse_the_rest();
        self.finish();
    }

    /// What comes next. While nothing is queued the batches in flight are all there is to wait for.
    fn next(&mut self) -> Option<Queued> {
        if let Some((purpose, job)) = self.rest.take() {
            return Some(Queued::Rest(purpose, job));
        }
        while self.in_flight.len() > 0 {
            if let Ok(queued) = self.jobs.try_recv() {
                return Some(queued);
            }
            self.settle();
        }
        let first = self.jobs.blocking_recv();
        // What waits for this processor is likely to queue something too: larger batches, fewer syncs.
        std::thread::yield_now();
        first
    }

    /// Fills a batch while those before it sync; then makes room for it among them, and sends it after them.
    fn batch(&mut self, first: Queued) {
        self.slow_down();
        self.fill(first);
        // What only reads is answered when all that it saw is on disk.
        let others_max = match self.pending.is_empty() {
            true => 0,
            false => self.log.in_flight_max() - 1,
        };
        while self.in_flight.len() > others_max {
            self.settle();
        }
        if self.shared.is_stopped() {
            // A batch before failed after this one had seen it: not even "nothing to do" or a refusal may be answered.
            self.answer(Err(StoreError::Unavailable));
            return;
        }
        #[cfg(any(test, feature = "faults"))]
        self.answer_early(super::super::Fault::AckBeforeLog);
        match self.write() {
            Ok(Some(frame)) => self.begin_sync(&frame),
            Ok(None) => self.answer(Ok(())),
            Err(error) => {
                self.pending.forget();
                self.answer(Err(error));
            }
        }
        if self.is_full() {
            self.rotate();
        }
    }

    /// Whether the active memtable is to be frozen.
    pub(in super::super) fn is_full(&self) -> bool {
        self.is_rotating
            || self.memtable.bytes() >= self.options.memtable_bytes
            // One without rows is not frozen, whatever came without any.
            || self.memtable.log_bytes() >= self.options.memtable_log_bytes()
                && !self.memtable.is_empty()
    }

    /// Writes the batch as one frame. `None` = there is nothing to write.
    fn write(&mut self) -> Result<Option<Arc<Frame>>, StoreError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let frame = self.append();
        let frame = frame.map_err(|error| failed(&self.shared, &error, &self.answers))?;
        let took = started.elapsed().as_secs_f64();
        self.shared.metrics.commit.write_seconds.record(took);
        #[cfg(any(test, feature = "faults"))]
        self.answer_early(super::super::Fault::AckBeforeSync);
        Ok(Some(frame))
    }

    fn append(&mut self) -> Result<Arc<Frame>, AppendError> {
        #[cfg(any(test, feature = "faults"))]
        if super::super::Fault::fails_log() {
            return Err(AppendError::Unknown(std::io::Error::other("a fault")));
        }
        let frame = self
            .log
            .seal(self.pending.now_ms, &mut self.pending.draft)?;
        let mut begun = self.log.begin(&frame);
        // Written with what is kept for it: at first the log's own, then what the image needs, too.
        for is_reserve in [false, true] {
            let is_given = matches!(begun, Err(AppendError::Full(_)))
                && match is_reserve {
                    true => self.purpose == Purpose::MakesRoom && self.shared.reserve.give_back(),
                    false => self.purpose >= Purpose::LetsGo && self.log.use_room(),
                };
            if is_given {
                self.shared.make_room(frame.position, self.purpose);
                begun = self.log.begin(&frame);
            }
        }
        begun.map(|()| frame)
    }

    /// Sends the written batch to the disk and lets the memtable have it, above the tail, where only the next batch
    /// sees it.
    fn begin_sync(&mut self, frame: &Frame) {
        assert_eq!(
            frame.position, self.pending.position,
            "the log and the writer count together"
        );
        let is_alone = self.jobs.is_empty() && self.rest.is_none() && self.in_flight.len() == 0;
        let answers = std::mem::take(&mut self.answers);
        self.in_flight.begin(frame.position, answers, is_alone);
        let is_late = is_alone && is_named("rows_late");
        if !is_late {
            self.memtable.insert(frame, &*self.rules);
        }
        self.position = frame.position;
        if is_alone {
            self.settle();
        }
        if is_late {
            std::thread::sleep(SLOW_STEP);
            self.memtable.insert(frame, &*self.rules);
        }
    }

    fn settle_all(&mut self) {
        while self.in_flight.len() > 0 {
            self.settle();
        }
    }

    /// Ends the oldest batch in flight: waits for its sync, moves the tail, answers its submitters, in this order.
    fn settle(&mut self) {
        let Some((mut answers, took)) = self.in_flight.end() else {
            return;
        };
        let outcome = match self.log.settle() {
            Ok(frame) => {
                let metrics = &self.shared.metrics.commit;
                metrics.sync_seconds.record(took.as_secs_f64());
                metrics.batches.increment(1);
                metrics.batch_closures.count(closures_of(&answers));
                metrics.batch_bytes.record(frame.bytes() as f64);
                let (position, bytes) = (frame.position, frame.bytes());
                self.log.publish(frame);
                if is_named("ack_before_shown") {
                    answers.drain(..).for_each(|job| job.answer(Ok(())));
                    std::thread::sleep(SLOW_STEP);
                }
                #[cfg(any(test, feature = "faults"))]
                if self.options.fault == Some(super::super::Fault::LateTail) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                self.shared.publish(position, bytes);
                self.tail_watch.send_replace(position);
                Ok(())
            }
            Err(_) if is_named("failed_sync_counts") => Ok(()),
            Err(error) => Err(failed(&self.shared, &error, &answers)),
        };
        for job in answers.drain(..) {
            job.answer(outcome);
        }
        if outcome.is_err() {
            self.in_flight.abandon();
            // None of them may stay.
            self.memtable.discard_above(self.log.settled());
        }
        if self.answers.capacity() == 0 {
            self.answers = answers;
        }
    }

    pub(in super::super) fn answer(&mut self, outcome: Outcome) {
        for job in self.answers.drain(..) {
            job.answer(outcome);
        }
    }

    /// The control that shows that the crash tests notice an early acknowledgement.
    #[cfg(any(test, feature = "faults"))]
    fn answer_early(&mut self, fault: super::super::Fault) {
        if self.options.fault == Some(fault) {
            self.answer(Ok(()));
            // Long enough for the answer to go out and a kill to come between, also on a busy machine.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits before each batch while flush, compaction, or a split or merge are behind: longer the further they are.
    pub(in super::super) fn slow_down(&mut self) {
        let mut waited = 0;
        // Asked again at each step: the wait ends as soon as they have caught up.
        while let FlushLag::Slow(steps) = self.shared.flush_lag.get()
            && waited < steps
        {
            if waited == 0 {
                self.settle_all();
                self.shared.metrics.commit.slowed.increment(1);
            }
            std::thread::sleep(SLOW_STEP);
            waited += 1;
        }
    }

    /// Freezes the active memtable and begins a new one.
    pub(in super::super) fn rotate(&mut self) {
        self.is_rotating = false;
        // What is flushed must be on disk: the image never runs ahead of the log.
        if !is_named("flushed_unsynced") {
            self.settle_all();
        }
        // After a failure nothing is flushed any more, however the two threads meet.
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

    /// What is due from time to time: an old memtable is frozen, and memory for much writing is given back.
    fn upkeep(&mut self) {
        if self.is_old() {
            self.rotate();
        }
    }

    /// Whether the memtable is to be frozen for its age. Gives memory back on the way.
    pub(in super::super) fn is_old(&mut self) -> bool {
        // Also if the clock was set back.
        let age_ms = self.clock.now_ms().abs_diff(self.memtable.created_ms());
        if age_ms >= SLOW_MEMTABLE_MS {
            self.pending.draft.forget_memory();
        }
        age_ms >= self.options.memtable_age_ms
    }

    fn refuse_the_rest(&mut self) {
        self.jobs.close();
        while let Some(queued) = self.jobs.blocking_recv() {
            if let Queued::Job { job, .. } = queued {
                job.answer(Err(StoreError::ShuttingDown));
            }
        }
    }

    /// The last flush, then the log's mark that all was in order.
    fn finish(mut self) {
        // It has ended: its children have its rows.
        if !self.shared.has_ended() {
            self.rotate();
        }
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

/// Where a memtable takes so long to fill, page faults cost little.
const SLOW_MEMTABLE_MS: u64 = 10_000;
/// One step of slowing down, before each batch.
const SLOW_STEP: Duration = Duration::from_millis(1);
