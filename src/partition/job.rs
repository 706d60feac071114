//! Submitted closures on their way: queued together, run by the writer one after the other, answered at once.
//!
//! Owns: the one answer of a bundle. Promises: whoever waits is answered exactly once, also when the writer stops or
//! the bundle is dropped unrun; each closure stands or refuses for itself. Must not: decide anything; the writer says
//! the outcome.

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

/// A bundle with its types forgotten.
pub(super) trait Job: Send {
    /// How many closures it runs.
    fn closures(&self) -> usize;
    /// Runs them in order. What one that refuses has done is taken back.
    fn run(&mut self, txn: &mut Txn<'_>);
    /// Answers whoever waits.
    fn answer(self: Box<Self>, outcome: Outcome);
}

/// What the writer tells of a bundle; worked out by who waits, for the writer has better things to do.
pub(super) struct Told<R, E> {
    outcome: Outcome,
    /// One for each closure, or none if they were not run.
    results: Vec<Result<R, E>>,
    closures: usize,
}

/// Where the submitter waits for what became of its closures.
pub(super) type Answer<R, E> = oneshot::Receiver<Told<R, E>>;

/// Members, each run by the same function, with their results' way back.
pub(super) struct Bundle<M, R, E, F> {
    members: Vec<M>,
    run: F,
    closures: usize,
    results: Vec<Result<R, E>>,
    reply: oneshot::Sender<Told<R, E>>,
}

impl<M, R, E, F> Bundle<M, R, E, F> {
    pub(super) fn new(members: Vec<M>, run: F) -> (Bundle<M, R, E, F>, Answer<R, E>) {
        let (reply, answer) = oneshot::channel();
        (
            Bundle {
                closures: members.len(),
                members,
                run,
                results: Vec::new(),
                reply,
            },
            answer,
        )
    }
}

impl<M, R, E, F> Job for Bundle<M, R, E, F>
where
    M: Send,
    R: Send,
    E: Send,
    F: FnMut(M, &mut Txn<'_>) -> Result<R, E> + Send,
{
    fn closures(&self) -> usize {
        self.closures
    }

    fn run(&mut self, txn: &mut Txn<'_>) {
        self.results.reserve_exact(self.closures);
        for member in std::mem::take(&mut self.members) {
            let result = (self.run)(member, txn);
            txn.end(result.is_ok());
            self.results.push(result);
        }
    }

    fn answer(self: Box<Self>, outcome: Outcome) {
        let told = Told {
            outcome,
            results: self.results,
            closures: self.closures,
        };
        // Nobody waits any more: fine, the effects stand all the same.
        let _ = self.reply.send(told);
    }
}

impl<R, E> Told<R, E> {
    /// What each closure is answered, in their order.
    pub(super) fn answers(self) -> Vec<Result<R, SubmitError<E>>> {
        let outcome = self.outcome;
        if self.results.is_empty() {
            return (0..self.closures).map(|_| Err(lost(outcome))).collect();
        }
        let answer = |result| match (outcome, result) {
            (Outcome::Committed, Ok(result)) => Ok(result),
            // A refusal is told only if what it saw is on disk: it may quote what another closure of its batch did.
            (Outcome::Committed, Err(refusal)) => Err(SubmitError::Rejected(refusal)),
            // It wrote nothing, so its outcome is known, whatever became of the batch.
            (Outcome::Unknown, Err(_)) => Err(SubmitError::Unavailable),
            (outcome, _) => Err(lost(outcome)),
        };
        self.results.into_iter().map(answer).collect()
    }
}

/// How a bundle runs members that are closures themselves.
pub(super) fn call<R, E>(
    closure: impl FnOnce(&mut Txn<'_>) -> Result<R, E>,
    txn: &mut Txn<'_>,
) -> Result<R, E> {
    closure(txn)
}

/// What is told of a batch that was not committed, whatever the closure would have said.
fn lost<E>(outcome: Outcome) -> SubmitError<E> {
    match outcome {
        Outcome::Committed => unreachable!("a committed closure has run"),
        Outcome::Full => SubmitError::StorageFull,
        Outcome::Unknown => SubmitError::OutcomeUnknown,
        Outcome::Unavailable => SubmitError::Unavailable,
        Outcome::ShuttingDown => SubmitError::ShuttingDown,
    }
}
