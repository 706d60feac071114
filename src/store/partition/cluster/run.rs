//! The writer's life on a log that machines share: it applies what comes, and writes while it owns.
//!
//! Owns: what is filled and what is on its way. Promises: one batch is on its way at a time, and the next one fills
//! meanwhile; a write that waits for too long is answered, and never with more than is known. Must not: block for
//! longer than a disk does.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tideline_cluster::{Frame as WholeFrame, Place};

use super::super::commit::in_flight::failed;
use super::super::commit::job::Job;
use super::super::commit::queue::Queued;
use super::super::commit::writer::Writer;
use super::super::memory::view::View;
use super::super::{OpenError, StoreError};
use super::line::{Line, Outgoing};
use super::place;
use crate::log::Frame;
use tideline_base::ids::Position;

/// What a writer has of its part in a log.
pub(in super::super) struct Member {
    pub(super) line: Arc<Line>,
    /// Behind the last frame that was taken.
    pub(super) place: Place,
    /// The partition's folder, and the log's first frame.
    pub(super) files: (PathBuf, WholeFrame),
    forward: Duration,
    pub(super) owns: bool,
    /// The batch that is filled.
    pub(super) filled: Option<Filled>,
    /// The batch on its way.
    pub(super) sent: Option<Sent>,
    /// Batches that are in the log, and whose answers wait for leases of earlier owners.
    pub(super) unanswered: VecDeque<(Position, Vec<Box<dyn Job>>)>,
    /// Since when writes wait for a turn.
    waits: Option<Instant>,
    /// When the mirror was synced last.
    pub(super) synced: Instant,
    /// Frames were taken since.
    pub(super) is_dirty: bool,
    /// The flusher is too far behind to take more.
    pub(super) is_lagging: bool,
    waker: Waker,
}

/// A batch that is filled.
pub(super) struct Filled {
    base: View,
    closures: usize,
    since: Instant,
}

/// A batch on its way.
pub(super) struct Sent {
    pub(super) frame: Arc<Frame>,
    pub(super) answers: Vec<Box<dyn Job>>,
    pub(super) since: Instant,
    /// It is in the log.
    pub(super) is_stored: bool,
}

/// Wakes the writer's thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Between two looks at what may have become late.
const LOOK: Duration = Duration::from_millis(20);
/// The same where nothing waits.
const REST: Duration = Duration::from_secs(1);

impl Member {
    pub(super) fn new(
        line: Arc<Line>,
        place: Place,
        files: (PathBuf, WholeFrame),
        forward: Duration,
    ) -> Member {
        Member {
            line,
            place,
            files,
            forward,
            owns: false,
            filled: None,
            sent: None,
            unanswered: VecDeque::new(),
            waits: None,
            synced: Instant::now(),
            is_dirty: false,
            is_lagging: false,
            waker: Waker::noop().clone(),
        }
    }

    /// A frame that the mirror has, at a start.
    pub(in super::super) fn replay(&mut self, frame: &Frame) -> Result<(), OpenError> {
        if frame.position <= self.place.position {
            return Ok(());
        }
        let whole = WholeFrame::read(frame.encoded().clone());
        let judged = whole.map(|whole| self.place.replay(&whole.sealed));
        match judged {
            Some(Ok(is_void)) if is_void == frame.is_void() => Ok(()),
            _ => Err(self.unlike(&format!("frame {} does not follow", frame.position))),
        }
    }

    /// The mirror ends at this position: from here on the log is followed.
    pub(in super::super) fn begins(&self, position: Position) -> Result<(), OpenError> {
        if self.place.position != position {
            return Err(self.unlike(&format!("it ends at {position}")));
        }
        let (folder, first) = &self.files;
        place::write(folder, &self.place, first)?;
        self.line.set_place(self.place.clone());
        Ok(())
    }

    fn unlike(&self, what: &str) -> OpenError {
        let at = self.place.position;
        OpenError::Damaged {
            text: format!(
                "the mirror of the cluster's log was right up to {at}, and now {what}; begin with an empty data \
                 directory, which is filled from the log"
            ),
        }
    }

    /// Nothing is filled and nothing is on its way.
    pub(super) fn is_free(&self) -> bool {
        self.filled.is_none() && self.sent.is_none()
    }
}

impl Writer {
    pub(in super::super) fn run_member(mut self, mut member: Member) {
        let thread = std::thread::current();
        member.line.writer_is(thread.clone());
        member.waker = Arc::new(Unpark(thread)).into();
        self.tell_role(&member);
        loop {
            self.come(&mut member);
            self.expire(&mut member);
            if self.is_closing && (member.is_free() || self.is_given_up(&member)) {
                break;
            }
            if member.is_free() && self.is_full() {
                self.freeze_member(&mut member);
            }
            if !self.send_filled(&mut member) && !self.take_one(&mut member) {
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
            Some(job) => Queued::Rest(job),
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
            Queued::Rest(job) => job.answer(Err(self.refusal())),
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
        if let Some(job) = self.rest.take() {
            job.answer(Err(StoreError::Unavailable));
        }
        while let Ok(queued) = self.jobs.try_recv() {
            match queued {
                Queued::Job { bytes, job, .. } => {
                    self.shared.queue.left(job.closures(), bytes);
                    job.answer(Err(StoreError::Unavailable));
                }
                Queued::Rest(job) => job.answer(Err(StoreError::Unavailable)),
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
        self.sync_member(member);
        let is_quiet = member.is_free() && member.waits.is_none() && !member.is_dirty;
        let wait = match is_quiet && !member.is_lagging && !self.is_closing {
            true => REST,
            false => LOOK,
        };
        std::thread::park_timeout(wait);
    }
}
