//! A submitted closure on its way: queued, run by the writer, answered once.
//!
//! Owns: the one answer. Promises: whoever waits is answered exactly once, also when the writer stops or the job is
//! dropped unrun. Must not: decide anything; the writer says the outcome.

use tokio::sync::oneshot;

use super::{SubmitError, Txn};

/// What became of a job's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Full,
    Unknown,
    Unavailable,
    ShuttingDown,
}

/// A closure with its type forgotten.
pub(super) trait Job: Send {
    /// Runs the closure; whether it stands (`false`: it refused, take back what it did).
    fn run(&mut self, txn: &mut Txn<'_>) -> bool;
    /// Answers whoever waits.
    fn answer(self: Box<Self>, outcome: Outcome);
}

/// Where the submitter waits for what became of its closure.
type Answer<R, E> = oneshot::Receiver<Result<R, SubmitError<E>>>;

/// A closure with its result's way back.
pub(super) struct Task<R, E, F> {
    closure: Option<F>,
    result: Option<Result<R, E>>,
    reply: oneshot::Sender<Result<R, SubmitError<E>>>,
}

impl<R, E, F> Task<R, E, F> {
    pub(super) fn new(closure: F) -> (Task<R, E, F>, Answer<R, E>) {
        let (reply, answer) = oneshot::channel();
        (
            Task {
                closure: Some(closure),
                result: None,
                reply,
            },
            answer,
        )
    }
}

impl<R, E, F> Job for Task<R, E, F>
where
    R: Send,
    E: Send,
    F: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send,
{
    fn run(&mut self, txn: &mut Txn<'_>) -> bool {
        let closure = self.closure.take().expect("a job runs once");
        let result = closure(txn);
        let stands = result.is_ok();
        self.result = Some(result);
        stands
    }

    fn answer(self: Box<Self>, outcome: Outcome) {
        let answer = match (outcome, self.result) {
            (Outcome::Committed, Some(Ok(result))) => Ok(result),
            // A refusal is told only if what it saw is on disk: it may quote what another job of its batch did.
            (Outcome::Committed, Some(Err(refusal))) => Err(SubmitError::Rejected(refusal)),
            // It wrote nothing, so its outcome is known, whatever became of the batch.
            (Outcome::Unknown, Some(Err(_))) => Err(SubmitError::Unavailable),
            (Outcome::Committed, None) => unreachable!("a committed job has run"),
            (Outcome::Full, _) => Err(SubmitError::StorageFull),
            (Outcome::Unknown, _) => Err(SubmitError::OutcomeUnknown),
            (Outcome::Unavailable, _) => Err(SubmitError::Unavailable),
            (Outcome::ShuttingDown, _) => Err(SubmitError::ShuttingDown),
        };
        // Nobody waits any more: fine, the effect stands all the same.
        let _ = self.reply.send(answer);
    }
}
