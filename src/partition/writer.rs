//! The one thread that decides: drain the queue, run each job, commit one frame, publish, answer.
//!
//! Owns: the log's end and the active memtable. Promises: nobody is answered "done" before the frame is on disk; after a
//! failed write or sync nothing is acknowledged any more. Must not: read the clock twice in a batch, or wait for readers.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::job::{Job, Outcome};
use super::memtable::Memtable;
use super::shared::{Queued, Shared};
use super::txn::{Pending, Txn};
use super::{Batch, OpenError, Options, Rules};
use crate::ids::{Clock, PartitionId, Position};

/// Opens a partition and starts its writer.
pub(super) fn start(
    id: PartitionId,
    options: &Options,
    rules: Arc<dyn Rules>,
    clock: Arc<Clock>,
) -> Result<Arc<Shared>, OpenError> {
    let (queue, jobs) = mpsc::channel(options.queue_jobs_max);
    let (tail_watch, tail_watched) = watch::channel(Position::ZERO);
    let memtable = Arc::new(Memtable::new(Position::ZERO, clock.now_ms()));
    let shared = Arc::new(Shared::new(
        queue,
        options,
        tail_watched,
        Arc::clone(&memtable),
        Arc::clone(&rules),
    ));
    let writer = Writer {
        shared: Arc::clone(&shared),
        options: options.clone(),
        jobs,
        tail_watch,
        memtable,
        rules,
        clock,
        position: Position::ZERO,
        last_ms: 0,
        pending: Pending::new(),
        answers: Vec::new(),
        is_closing: false,
    };
    let handle = std::thread::Builder::new()
        .name(format!("writer-{id}"))
        .spawn(move || writer.run())
        .map_err(|error| OpenError::Io {
            what: "start a writer thread for",
            path: "partition".into(),
            error,
        })?;
    shared.set_writer(handle);
    Ok(shared)
}

struct Writer {
    shared: Arc<Shared>,
    options: Options,
    jobs: mpsc::Receiver<Queued>,
    tail_watch: watch::Sender<Position>,
    memtable: Arc<Memtable>,
    rules: Arc<dyn Rules>,
    clock: Arc<Clock>,
    position: Position,
    last_ms: u64,
    pending: Pending,
    /// Jobs of this batch that wait for their answer.
    answers: Vec<Box<dyn Job>>,
    is_closing: bool,
}

impl Writer {
    fn run(mut self) {
        while !self.is_closing {
            let Some(first) = self.jobs.blocking_recv() else {
                break;
            };
            self.fill(first);
            self.commit();
        }
        self.jobs.close();
        while let Some(queued) = self.jobs.blocking_recv() {
            if let Queued::Job { job, .. } = queued {
                job.answer(Outcome::ShuttingDown);
            }
        }
    }

    /// Runs the first job and what has queued behind it. No timer: while one batch syncs, the next one gathers.
    fn fill(&mut self, first: Queued) {
        self.last_ms = self.clock.now_ms().max(self.last_ms);
        self.pending.begin(self.position.next(), self.last_ms);
        let base = self.shared.view().expect("in memory");
        let mut next = Some(first);
        let mut freed = 0;
        while let Some(queued) = next.take() {
            let Queued::Job { bytes, mut job } = queued else {
                self.is_closing = true;
                break;
            };
            freed += bytes;
            let stands = job.run(&mut Txn::new(&mut self.pending, &base, &self.rules));
            if stands {
                self.pending.keep();
            } else {
                self.pending.take_back();
            }
            self.answers.push(job);
            if self.answers.len() < self.options.batch_jobs_max
                && self.pending.bytes < self.options.batch_bytes_max
            {
                next = self.jobs.try_recv().ok();
            }
        }
        self.shared.dequeued(freed);
    }

    /// One frame, one sync; then the memtable shows it, the tail moves, and everybody is answered, in this order.
    fn commit(&mut self) {
        if !self.pending.is_empty() {
            let position = self.pending.position;
            for effect in &self.pending.effects {
                self.memtable
                    .insert(effect.key.clone(), position, effect.entry());
            }
            self.memtable.advance(position, self.pending.bytes);
            self.position = position;
            let batch = Batch {
                position,
                commit_ms: self.pending.now_ms,
                effects: self.pending.effects.clone(),
                changes: self.pending.changes.clone(),
            };
            self.shared.publish(Arc::new(batch));
            self.tail_watch.send_replace(position);
        }
        for job in self.answers.drain(..) {
            job.answer(Outcome::Committed);
        }
    }
}
