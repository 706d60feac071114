//! Filling a batch: which jobs become part of it, and what they see.
//!
//! Owns: when a batch ends. Promises: jobs run in the order in which they queued, on all that was written before them.
//! Must not: write the batch, or answer.

use std::time::Instant;

use super::super::Purpose;
use super::super::memory::view::View;
use super::job::Job;
use super::queue::Queued;
use super::txn::Txn;
use super::writer::Writer;

impl Writer {
    /// Runs the first job and what has queued behind it. No timer: while one batch syncs, the next one gathers. Jobs
    /// see the batch that is still being synced: if its sync fails, theirs is never written.
    pub(super) fn fill(&mut self, first: Queued) {
        let base = self.begin_batch();
        self.gather(first, &base, 0);
    }

    /// Begins to fill the next batch; what its jobs see below it.
    pub(in super::super) fn begin_batch(&mut self) -> View {
        self.pending
            .begin(self.position.next(), self.clock.now_ms());
        self.purpose = Purpose::Adds;
        self.shared.writers_view(self.position)
    }

    /// Runs a job and what has queued behind it, in a batch that has run so many closures already; how many it has now.
    pub(in super::super) fn gather(
        &mut self,
        first: Queued,
        base: &View,
        mut closures: usize,
    ) -> usize {
        let started = Instant::now();
        let mut next = Some(first);
        let (mut freed, before) = (0, closures);
        while let Some(queued) = next.take() {
            match queued {
                Queued::Job {
                    purpose,
                    bytes,
                    job,
                } => {
                    freed += bytes;
                    closures += job.closures();
                    self.run_job(purpose, job, base);
                }
                // It has left the queue already.
                Queued::Rest(purpose, job) => self.run_job(purpose, job, base),
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
        self.shared.queue.left(closures - before, freed);
        let took = started.elapsed().as_secs_f64();
        self.shared.metrics.commit.fill_seconds.record(took);
        closures
    }

    /// Runs of a job what the batch has room for; it gets what the job's purpose gets.
    fn run_job(&mut self, purpose: Purpose, mut job: Box<dyn Job>, base: &View) {
        self.purpose = self.purpose.max(purpose);
        let rest = job.run(&mut Txn::new(&mut self.pending, base, &self.rules));
        self.rest = rest.map(|rest| (purpose, rest));
        self.answers.push(job);
    }
}
