//! The writer's life on a log that machines share: it applies what comes, and writes while it owns.
//!
//! Owns: what is filled and what is on its way. Promises: one batch is on its way at a time, and the next one fills
//! meanwhile; a write that waits for too long is answered, and never with more than is known. Must not: block for
//! longer than a disk does.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::super::StoreError;
use super::super::commit::in_flight::failed;
use super::super::commit::queue::Queued;
use super::super::commit::writer::Writer;
use super::Role;
use super::line::Outgoing;
use super::member::{Filled, Member, Sent};

/// Between two looks at what may have become late.
const LOOK: Duration = Duration::from_millis(20);
/// The same where nothing waits.
const REST: Duration = Duration::from_secs(1);

impl Writer {
    pub(in super::super) fn run_member(mut self, mut member: Member) {
        member.wakes(std::thread::current());
        self.tell_role(&member);
        loop {
            let has_more = self.come(&mut member);
            self.sync_member(&mut member);
            let is_told = || matches!(*member.line.role.borrow(), Role::Stopped(_));
            if self.shared.is_stopped() && !is_told() {
                self.stop_member(&mut member, "the image or the log failed".to_owned());
            }
            self.expire(&mut member);
            if self.is_closing && (member.is_free() || self.is_given_up(&member)) {
                break;
            }
            if member.is_free() && self.is_full() {
                self.freeze_member(&mut member);
            }
            if !self.send_filled(&mut member) && !self.take_one(&mut member) && !has_more {
                self.rest(&mut member);
            }
        }
        member.line.close();
        self.let_go(&mut member);
        self.end();
    }

    /// Sends the batch that is filled, if none is on its way; whether it did.
    fn send_filled(&mut self, member: &mut Member) -> bool {
        if member.sent.is_some() {
            return false;
        }
        let Some(filled) = member.filled.take() else {
            return false;
        };
        if self.shared.is_stopped() {
            self.answer(Err(StoreError::Unavailable));
            return true;
        }
        // What wrote nothing is answered by what it saw, if no other node can own the log at this moment. Else an
        // empty frame shows it.
        if self.pending.is_empty() && member.line.proves() {
            self.answer(Ok(()));
            return true;
        }
        let sealed = self.log.seal(self.pending.now_ms, &mut self.pending.draft);
        let frame = match sealed {
            Ok(frame) => frame,
            Err(error) => {
                let error = failed(&self.shared, &error, &self.answers);
                self.pending.forget();
                self.answer(Err(error));
                return true;
            }
        };
        assert_eq!(
            frame.position, self.pending.position,
            "nothing else is written while a batch is filled"
        );
        #[cfg(any(test, feature = "faults"))]
        if self.options.fault == Some(super::super::Fault::MemberAnswersEarly) {
            self.answer(Ok(()));
        }
        member.line.send(Outgoing {
            position: frame.position,
            term: frame.term,
            bytes: frame.encoded().clone(),
        });
        self.memtable.insert(&frame, &*self.rules);
        self.position = frame.position;
        member.sent = Some(Sent {
            frame,
            answers: std::mem::take(&mut self.answers),
            since: filled.since,
            is_stored: false,
        });
        true
    }

    /// Takes one thing out of the queue, if it may now; whether there was one.
    fn take_one(&mut self, member: &mut Member) -> bool {
        if self.is_closing || (member.owns && !self.may_fill(member)) {
            return false;
        }
        let queued = match self.rest.take() {
            Some((purpose, job)) => Queued::Rest(purpose, job),
            None => match self.jobs.poll_recv(&mut Context::from_waker(&member.waker)) {
                Poll::Ready(Some(queued)) => queued,
                Poll::Ready(None) | Poll::Pending => return false,
            },
        };
        match queued {
            Queued::Tick => self.is_rotating |= self.is_old(),
            Queued::Rotate => self.is_rotating = true,
            Queued::Close => self.is_closing = true,
            queued if member.owns => self.fill_member(member, queued),
            Queued::Job { bytes, job, .. } => {
                self.shared.queue.left(job.closures(), bytes);
                job.answer(Err(self.refusal()));
            }
            Queued::Rest(_, job) => job.answer(Err(self.refusal())),
        }
        true
    }

    /// Why nothing is written by a node that does not own the log.
    fn refusal(&self) -> StoreError {
        match self.shared.is_stopped() {
            true => StoreError::Unavailable,
            false => StoreError::Moved,
        }
    }

    /// Whether the owner may run jobs.
    fn may_fill(&mut self, member: &mut Member) -> bool {
        let has_room = match &member.filled {
            Some(filled) => {
                let is_open = filled.closures < self.options.batch_jobs_max;
                is_open && self.rest.is_none() && !self.pending.is_full()
            }
            // A full memtable is frozen first, and the driver may have waited for the batch on its way.
            None => !self.is_full() && (member.sent.is_none() || !member.line.is_wanted()),
        };
        let may = has_room && (member.filled.is_some() || member.line.reserve());
        let waits = !may && member.is_free();
        member.waits = waits.then(|| member.waits.unwrap_or_else(Instant::now));
        may
    }

    fn fill_member(&mut self, member: &mut Member, queued: Queued) {
        let filled = member.filled.take();
        let mut filled = filled.unwrap_or_else(|| {
            self.slow_down();
            Filled {
                base: self.begin_batch(),
                closures: 0,
                since: Instant::now(),
            }
        });
        filled.closures = self.gather(queued, &filled.base, filled.closures);
        member.filled = Some(filled);
    }

    /// Answers what has waited for too long.
    fn expire(&mut self, member: &mut Member) {
        let is_late = |since: Instant| since.elapsed() >= member.forward;
        if member.sent.as_ref().is_some_and(|sent| is_late(sent.since)) {
            if member.line.recall() {
                self.take_back(member, StoreError::Unavailable);
            } else if let Some(sent) = &mut member.sent {
                for job in sent.answers.drain(..) {
                    job.answer(Err(StoreError::OutcomeUnknown));
                }
            }
        }
        let filled = member.filled.as_ref();
        if filled.is_some_and(|filled| filled.since.elapsed() >= member.forward) {
            member.filled = None;
            self.pending.forget();
            self.answer(Err(StoreError::Unavailable));
        }
        if self.is_stalled(member) && member.owns {
            self.refuse_queued();
        }
        if member.is_free() {
            member.line.release();
        }
    }

    /// Whether the log has not taken a batch for so long that nothing may wait behind it.
    fn is_stalled(&self, member: &Member) -> bool {
        let sent = member.sent.as_ref().map(|sent| sent.since);
        let waits = sent.into_iter().chain(member.waits);
        waits
            .into_iter()
            .any(|since| since.elapsed() >= member.forward)
    }

    /// Whether the writer closes although a batch is on its way: its answer was given.
    fn is_given_up(&self, member: &Member) -> bool {
        self.is_closing && member.filled.is_none() && self.is_stalled(member)
    }

    /// Refuses what waits in the queue: nothing of it was begun.
    fn refuse_queued(&mut self) {
        if let Some((_, job)) = self.rest.take() {
            job.answer(Err(StoreError::Unavailable));
        }
        while let Ok(queued) = self.jobs.try_recv() {
            match queued {
                Queued::Job { bytes, job, .. } => {
                    self.shared.queue.left(job.closures(), bytes);
                    job.answer(Err(StoreError::Unavailable));
                }
                Queued::Rest(_, job) => job.answer(Err(StoreError::Unavailable)),
                Queued::Tick => {}
                Queued::Rotate => self.is_rotating = true,
                Queued::Close => self.is_closing = true,
            }
        }
    }

    /// Waits for something to do.
    fn rest(&mut self, member: &mut Member) {
        if member.is_free() {
            member.line.release();
        }
        member.line.covers(self.shared.covered());
        let is_quiet = member.is_free() && member.waits.is_none() && !member.is_dirty;
        let wait = match is_quiet && !member.is_lagging && !self.is_closing {
            true => REST,
            false => LOOK,
        };
        std::thread::park_timeout(wait);
    }
}
