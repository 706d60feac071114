//! The queue in front of a partition's writer.
//!
//! Owns: what goes through it, how much may wait, and whether it is open. Promises: a bundle is let in whole or refused
//! at once, and those let in keep their order; a bundle that is larger than a bound passes alone. Must not: know how
//! far flush is behind, or what a job does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::super::{Purpose, StoreError, SubmitError};
use super::intake::Intake;
use super::job::{self, Job};
use super::txn::Txn;
use tideline_base::faults::{is_named, point};
use tideline_base::metrics::{QUEUE_BYTES, QUEUE_JOBS};

/// What goes through the queue.
pub(in super::super) enum Queued {
    /// A bundle with the bytes that it holds.
    Job {
        purpose: Purpose,
        bytes: usize,
        job: Box<dyn Job>,
    },
    /// What a batch had no room for of a bundle that was in the queue, for the same purpose. Only the writer makes it.
    Rest(Purpose, Box<dyn Job>),
    /// Time for upkeep.
    Tick,
    /// Freeze the memtable now.
    Rotate,
    /// Nothing follows.
    Close,
}

/// Writes that may wait for the writer; further ones are answered `busy`: a longer queue would only make all of them
/// later. Less than a second of small writes at full speed.
pub const QUEUE_JOBS_MAX: usize = 65_536;
/// Bytes that waiting writes may hold; further ones are answered `busy`.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// How often a queue that is to be drained is looked at.
const DRAIN_LOOK: Duration = Duration::from_micros(500);

/// Why a bundle is not let in.
pub(in super::super) enum Refused {
    /// By this limit.
    Full(&'static str),
    /// By the intake.
    Shut(StoreError),
}

/// The callers' end of it.
pub(in super::super) struct Queue {
    sender: mpsc::Sender<Queued>,
    closures: AtomicUsize,
    bytes: AtomicUsize,
    pub(in super::super) intake: Intake,
}

impl Queue {
    /// With the writer's end.
    pub(in super::super) fn new() -> (Queue, mpsc::Receiver<Queued>) {
        let (sender, jobs) = mpsc::channel(QUEUE_JOBS_MAX);
        let queue = Queue {
            sender,
            closures: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            intake: Intake::default(),
        };
        (queue, jobs)
    }

    /// Lets a bundle in, whole, or says why not. Never waits.
    pub(in super::super) fn push(
        &self,
        purpose: Purpose,
        bytes: usize,
        job: Box<dyn Job>,
    ) -> Result<(), Refused> {
        let passes = |before: usize, more: usize, max: usize| before == 0 || before + more <= max;
        let closures = job.closures();
        let early = is_named("queue_counts_late").then(|| self.intake.admit(purpose));
        point();
        let before = self.closures.fetch_add(closures, Ordering::SeqCst);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let let_in = if !passes(before, closures, QUEUE_JOBS_MAX) {
            Err(Refused::Full(QUEUE_JOBS))
        } else if !passes(bytes_before, bytes, QUEUE_BYTES_MAX) {
            Err(Refused::Full(QUEUE_BYTES))
        } else {
            // The write is counted before it looks at the intake: the thread that shuts it either sees the count and
            // waits for it, or the intake is seen shut here.
            point();
            let admitted = early.unwrap_or_else(|| self.intake.admit(purpose));
            admitted.map_err(Refused::Shut)
        };
        point();
        let sent = let_in.and_then(|()| {
            let queued = Queued::Job {
                purpose,
                bytes,
                job,
            };
            self.sender.try_send(queued).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Refused::Full(QUEUE_JOBS),
                mpsc::error::TrySendError::Closed(_) => Refused::Shut(StoreError::ShuttingDown),
            })
        });
        sent.inspect_err(|_| self.left(closures, bytes))
    }

    /// The writer took jobs with so many closures and bytes out.
    pub(in super::super) fn left(&self, closures: usize, bytes: usize) {
        self.closures.fetch_sub(closures, Ordering::SeqCst);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Closures and bytes that wait.
    pub(in super::super) fn waiting(&self) -> (usize, usize) {
        let closures = self.closures.load(Ordering::Relaxed);
        (closures, self.bytes.load(Ordering::Relaxed))
    }

    /// Waits until all writes that were let in are on disk, or have failed. The caller has shut the intake: nothing
    /// comes behind them.
    pub(in super::super) async fn drain(&self) -> Result<(), StoreError> {
        while self.closures.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let nothing = |(): &mut (), _: &mut Txn<'_>| Ok::<(), ()>(());
        let (job, answer) = job::looking(vec![()], None, nothing);
        self.closures.fetch_add(1, Ordering::SeqCst);
        let last = Queued::Job {
            purpose: Purpose::Derives,
            bytes: 0,
            job,
        };
        let sent = self.sender.send(last).await;
        sent.map_err(|_| StoreError::ShuttingDown)?;
        match job::answers(answer, 1).await.pop() {
            Some(Ok(_)) => Ok(()),
            Some(Err(SubmitError::Failed(error))) => Err(error),
            _ => Err(StoreError::Internal),
        }
    }

    /// Reminds the writer of its upkeep. A full queue has no time for it.
    pub(in super::super) fn tick(&self) {
        let _ = self.sender.try_send(Queued::Tick);
    }

    /// Whether nothing more is let in.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.intake.is_closed()
    }

    /// Asks the writer to freeze its memtable after what has queued. A full queue is not waited for.
    pub(in super::super) fn rotate_soon(&self) {
        let _ = self.sender.try_send(Queued::Rotate);
    }

    /// The same. Blocks while the queue is full.
    pub(in super::super) fn rotate(&self) {
        let _ = self.sender.blocking_send(Queued::Rotate);
    }

    /// Takes no more jobs; the writer commits what has queued and ends. Blocks while the queue is full.
    pub(in super::super) fn close(&self) {
        if self.intake.close() {
            let _ = self.sender.blocking_send(Queued::Close);
        }
    }
}
