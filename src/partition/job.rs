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
    Busy,
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

/// What the writer tells of a bundle; worked out by who waits, for the writer has better things to do. The members come
/// back too, to be freed where they were made.
pub(super) struct Told<M, R, E> {
    outcome: Outcome,
    members: Vec<M>,
    /// One for each member, or none if they were not run.
    results: Vec<Result<R, E>>,
}

/// Where the submitter waits for what became of its closures.
pub(super) type Answer<M, R, E> = oneshot::Receiver<Told<M, R, E>>;

/// Members, each run by the same function, with their results' way back.
struct Bundle<M, R, E, F> {
    members: Vec<M>,
    run: F,
    results: Vec<Result<R, E>>,
    reply: oneshot::Sender<Told<M, R, E>>,
}

/// A job that calls `run` with each of `members`, and where its answers come.
pub(super) fn bundle<M, R, E, F>(members: Vec<M>, run: F) -> (Box<dyn Job>, Answer<M, R, E>)
where
    M: Send + 'static,
    R: Send + 'static,
    E: Send + 'static,
    F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let bundle = Bundle {
        results: Vec::with_capacity(members.len()),
        members,
        run,
        reply,
    };
    (Box::new(bundle), answer)
}

impl<M, R, E, F> Job for Bundle<M, R, E, F>
where
    M: Send,
    R: Send,
    E: Send,
    F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send,
{
    fn closures(&self) -> usize {
        self.members.len()
    }

    fn run(&mut self, txn: &mut Txn<'_>) {
        for member in &mut self.members {
            let result = (self.run)(member, txn);
            txn.end(result.is_ok());
            self.results.push(result);
        }
    }

    fn answer(self: Box<Self>, outcome: Outcome) {
        let told = Told {
            outcome,
            members: self.members,
            results: self.results,
        };
        // Nobody waits any more: fine, the effects stand all the same.
        let _ = self.reply.send(told);
    }
}

impl<M, R, E> Told<M, R, E> {
    /// What each closure is answered, in their order; what was done with its member.
    pub(super) fn answers(self) -> Vec<Result<(M, R), SubmitError<E>>> {
        let outcome = self.outcome;
        if self.results.is_empty() {
            let answer = |_| Err(lost(outcome));
            return self.members.into_iter().map(answer).collect();
        }
        let answer = |(member, result)| match (outcome, result) {
            (Outcome::Committed, Ok(result)) => Ok((member, result)),
            // A refusal is told only if what it saw is on disk: it may quote what another closure of its batch did.
            (Outcome::Committed, Err(refusal)) => Err(SubmitError::Rejected(refusal)),
            // It wrote nothing, so its outcome is known, whatever became of the batch.
            (Outcome::Unknown, Err(_)) => Err(SubmitError::Unavailable),
            (outcome, _) => Err(lost(outcome)),
        };
        self.members
            .into_iter()
            .zip(self.results)
            .map(answer)
            .collect()
    }
}

/// How a bundle runs members that are closures themselves.
pub(super) fn call<R, E, C>(closure: &mut Option<C>, txn: &mut Txn<'_>) -> Result<R, E>
where
    C: FnOnce(&mut Txn<'_>) -> Result<R, E>,
{
    closure.take().expect("a member runs once")(txn)
}

/// What is told of a batch that was not committed, whatever the closure would have said.
fn lost<E>(outcome: Outcome) -> SubmitError<E> {
    match outcome {
        Outcome::Committed => unreachable!("a committed closure has run"),
        Outcome::Full => SubmitError::StorageFull,
        Outcome::Busy => SubmitError::Busy,
        Outcome::Unknown => SubmitError::OutcomeUnknown,
        Outcome::Unavailable => SubmitError::Unavailable,
        Outcome::ShuttingDown => SubmitError::ShuttingDown,
    }
}
