//! Submitted closures on their way: queued together, run by the writer one after the other, answered at once.
//!
//! Owns: the one answer of a bundle. Promises: the submitter is answered exactly once, also when the writer stops or
//! the bundle is dropped unrun; each closure succeeds or fails for itself, also by a panic or because it writes more
//! than one may. Must not: decide anything; the writer says what became of the batch.

use tokio::sync::oneshot;

use super::super::panics::caught;
use super::super::{StoreError, SubmitError, Txn};

/// What became of a batch.
pub(in super::super) type Outcome = Result<(), StoreError>;

/// A bundle with its types forgotten.
pub(in super::super) trait Job: Send {
    /// How many closures it runs.
    fn closures(&self) -> usize;
    /// Runs them in order until the batch is full. What one that fails has done is taken back. Gives those that were
    /// not run as a job of their own, for the next batch; there is at least one that was.
    fn run(&mut self, txn: &mut Txn<'_>) -> Option<Box<dyn Job>>;
    /// Answers the submitter.
    fn answer(self: Box<Self>, outcome: Outcome);
}

/// How many closures these jobs ran.
pub(in super::super) fn closures_of(jobs: &[Box<dyn Job>]) -> usize {
    jobs.iter().map(|job| job.closures()).sum()
}

/// What the writer returns of a bundle. The submitter works its answers out of it, for the writer has better things to
/// do. The members come back too, to be freed where they were made.
pub(in super::super) struct Returned<M, R, E> {
    outcome: Outcome,
    members: Vec<M>,
    /// One for each member, or none if they were not run.
    results: Vec<Result<R, SubmitError<E>>>,
    /// Where the members of the next batch are returned.
    rest: Option<Answer<M, R, E>>,
}

/// Where the submitter waits for what became of its closures.
pub(in super::super) type Answer<M, R, E> = oneshot::Receiver<Returned<M, R, E>>;

/// What each closure is answered, in their order; what was done with its member.
pub(in super::super) type Answers<M, R, E> = Vec<Result<(M, R), SubmitError<E>>>;

/// Looks things up for members that will run, together.
pub type Look<M> = fn(&mut [M], &mut Txn<'_>);

/// Members, each run by the same function, with their results' way back.
struct Bundle<M, R, E, F> {
    members: Vec<M>,
    look: Option<Look<M>>,
    /// `None` once it has run.
    run: Option<F>,
    results: Vec<Result<R, SubmitError<E>>>,
    rest: Option<Answer<M, R, E>>,
    reply: oneshot::Sender<Returned<M, R, E>>,
}

/// A job that calls `run` with each of `members`, and where its answers come.
#[cfg(test)]
pub(in super::super) fn bundle<M, R, E, F>(
    members: Vec<M>,
    run: F,
) -> (Box<dyn Job>, Answer<M, R, E>)
where
    M: Send + 'static,
    R: Send + 'static,
    E: Send + 'static,
    F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send + 'static,
{
    looking(members, None, run)
}

/// A job that calls `look` with `members` and `run` with each, and where its answers come.
pub(in super::super) fn looking<M, R, E, F>(
    members: Vec<M>,
    look: Option<Look<M>>,
    run: F,
) -> (Box<dyn Job>, Answer<M, R, E>)
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
        look,
        run: Some(run),
        rest: None,
        reply,
    };
    (Box::new(bundle), answer)
}

impl<M, R, E, F> Job for Bundle<M, R, E, F>
where
    M: Send + 'static,
    R: Send + 'static,
    E: Send + 'static,
    F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send + 'static,
{
    fn closures(&self) -> usize {
        self.members.len()
    }

    fn run(&mut self, txn: &mut Txn<'_>) -> Option<Box<dyn Job>> {
        let mut run = self.run.take().expect("a job runs once");
        if let Some(look) = self.look
            && caught("a look", || look(&mut self.members, txn)).is_none()
        {
            txn.panicked();
        }
        for member in &mut self.members {
            if !self.results.is_empty() && txn.is_full() {
                break;
            }
            self.results.push(one(txn, |txn| run(member, txn)));
        }
        if self.results.len() == self.members.len() {
            return None;
        }
        let rest = self.members.split_off(self.results.len());
        let (rest, answer) = looking(rest, self.look, run);
        self.rest = Some(answer);
        Some(rest)
    }

    fn answer(self: Box<Self>, outcome: Outcome) {
        let returned = Returned {
            outcome,
            members: self.members,
            results: self.results,
            rest: self.rest,
        };
        // Nobody waits any more: fine, what was written stays all the same.
        let _ = self.reply.send(returned);
    }
}

/// Runs one closure; nothing of it stays unless it succeeds.
pub(in super::super) fn one<R, E>(
    txn: &mut Txn<'_>,
    run: impl FnOnce(&mut Txn<'_>) -> Result<R, E>,
) -> Result<R, SubmitError<E>> {
    let result = caught("a write", || run(txn));
    if result.is_none() {
        txn.panicked();
    }
    let result = match (txn.too_large(), result) {
        (None, Some(result)) => result.map_err(SubmitError::Rejected),
        (too_large, _) => {
            // It may remember what it did not write, or half of something.
            txn.forget();
            Err(match too_large {
                Some(actual) => SubmitError::TooLarge {
                    limit: txn.bytes_max(),
                    actual,
                },
                None => SubmitError::Failed(StoreError::Internal),
            })
        }
    };
    txn.end(result.is_ok());
    result
}

/// Waits for the answers of `count` closures, of however many batches they became part.
pub(in super::super) async fn answers<M, R, E>(
    answer: Answer<M, R, E>,
    count: usize,
) -> Answers<M, R, E> {
    let mut answers = Vec::with_capacity(count);
    let mut next = Some(answer);
    while let Some(answer) = next.take() {
        match answer.await {
            Ok(returned) => next = returned.answers(&mut answers),
            // A writer that is gone without an answer died in the middle of something.
            Err(_) => answers.resize_with(count, || Err(failed(StoreError::OutcomeUnknown))),
        }
    }
    answers
}

impl<M, R, E> Returned<M, R, E> {
    /// Adds what each closure is answered, in their order; gives where the rest is returned.
    pub(in super::super) fn answers(
        self,
        answers: &mut Answers<M, R, E>,
    ) -> Option<Answer<M, R, E>> {
        let outcome = self.outcome;
        if self.results.is_empty() {
            let error = outcome.expect_err("a committed closure has run");
            answers.extend(self.members.into_iter().map(|_| Err(failed(error))));
            return None;
        }
        let answer = |(member, result): (M, Result<R, _>)| match (outcome, result) {
            (Ok(()), Ok(result)) => Ok((member, result)),
            // A refusal is returned only if what it saw is on disk: it may quote another closure of its batch.
            (Ok(()), Err(refusal)) => Err(refusal),
            // It wrote nothing, so its outcome is known, whatever became of the batch.
            (Err(StoreError::OutcomeUnknown), Err(_)) => Err(failed(StoreError::Unavailable)),
            (Err(error), _) => Err(failed(error)),
        };
        answers.extend(self.members.into_iter().zip(self.results).map(answer));
        self.rest
    }
}

/// How a bundle runs members that are closures themselves.
pub(in super::super) fn call<R, E, C>(closure: &mut Option<C>, txn: &mut Txn<'_>) -> Result<R, E>
where
    C: FnOnce(&mut Txn<'_>) -> Result<R, E>,
{
    closure.take().expect("a member runs once")(txn)
}

fn failed<E>(error: StoreError) -> SubmitError<E> {
    SubmitError::Failed(error)
}
