//! Submitted closures on their way: queued together, run by the writer one after the other, answered at once.
//!
//! Owns: the one answer of a bundle. Promises: whoever waits is answered exactly once, also when the writer stops or
//! the bundle is dropped unrun; each closure stands or falls for itself, also by a panic or because it writes more than
//! one may. Must not: decide anything; the writer says the outcome.

use tokio::sync::oneshot;

use super::panics::caught;
use super::pending::MEMBER_BYTES_MAX;
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
    /// It was not written, by an error of ours.
    Faulty,
}

/// A bundle with its types forgotten.
pub(super) trait Job: Send {
    /// How many closures it runs.
    fn closures(&self) -> usize;
    /// Runs them in order until the batch is full. What one that falls has done is taken back. Gives those that were
    /// not run as a job of their own, for the next batch; there is at least one that was.
    fn run(&mut self, txn: &mut Txn<'_>) -> Option<Box<dyn Job>>;
    /// Answers whoever waits.
    fn answer(self: Box<Self>, outcome: Outcome);
}

/// What the writer tells of a bundle; worked out by who waits, for the writer has better things to do. The members come
/// back too, to be freed where they were made.
pub(super) struct Told<M, R, E> {
    outcome: Outcome,
    members: Vec<M>,
    /// One for each member, or none if they were not run.
    results: Vec<Result<R, Fallen<E>>>,
    /// Where the members of the next batch are told of.
    rest: Option<Answer<M, R, E>>,
}

/// Why a closure did not stand.
enum Fallen<E> {
    Refused(E),
    /// It wrote so many bytes.
    TooLarge(usize),
    Panicked,
}

/// Where the submitter waits for what became of its closures.
pub(super) type Answer<M, R, E> = oneshot::Receiver<Told<M, R, E>>;

/// What each closure is answered, in their order; what was done with its member.
pub(super) type Answers<M, R, E> = Vec<Result<(M, R), SubmitError<E>>>;

/// Members, each run by the same function, with their results' way back.
struct Bundle<M, R, E, F> {
    members: Vec<M>,
    /// `None` once it has run.
    run: Option<F>,
    results: Vec<Result<R, Fallen<E>>>,
    rest: Option<Answer<M, R, E>>,
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
        for member in &mut self.members {
            if !self.results.is_empty() && txn.is_full() {
                break;
            }
            self.results.push(one(txn, |txn| run(member, txn)));
        }
        if self.results.len() == self.members.len() {
            return None;
        }
        let (rest, answer) = bundle(self.members.split_off(self.results.len()), run);
        self.rest = Some(answer);
        Some(rest)
    }

    fn answer(self: Box<Self>, outcome: Outcome) {
        let told = Told {
            outcome,
            members: self.members,
            results: self.results,
            rest: self.rest,
        };
        // Nobody waits any more: fine, the effects stand all the same.
        let _ = self.reply.send(told);
    }
}

/// Runs one closure; nothing of it stays unless it stands.
fn one<R, E>(
    txn: &mut Txn<'_>,
    run: impl FnOnce(&mut Txn<'_>) -> Result<R, E>,
) -> Result<R, Fallen<E>> {
    let result = caught("a write", || run(txn));
    if result.is_none() {
        txn.panicked();
    }
    let result = match (txn.over(), result) {
        (None, Some(result)) => result.map_err(Fallen::Refused),
        (over, _) => {
            // It may remember what it did not write, or half of something.
            txn.forget();
            Err(over.map_or(Fallen::Panicked, Fallen::TooLarge))
        }
    };
    txn.end(result.is_ok());
    result
}

/// Waits for the answers of `count` closures, of however many batches they became part.
pub(super) async fn answers<M, R, E>(answer: Answer<M, R, E>, count: usize) -> Answers<M, R, E> {
    let mut answers = Vec::with_capacity(count);
    let mut next = Some(answer);
    while let Some(answer) = next.take() {
        match answer.await {
            Ok(told) => next = told.answers(&mut answers),
            // A writer that is gone without an answer died in the middle of something.
            Err(_) => answers.resize_with(count, || Err(SubmitError::OutcomeUnknown)),
        }
    }
    answers
}

impl<M, R, E> Told<M, R, E> {
    /// Adds what each closure is answered, in their order; gives where the rest is told of.
    pub(super) fn answers(self, answers: &mut Answers<M, R, E>) -> Option<Answer<M, R, E>> {
        let outcome = self.outcome;
        if self.results.is_empty() {
            answers.extend(self.members.into_iter().map(|_| Err(lost(outcome))));
            return None;
        }
        let answer = |(member, result)| match (outcome, result) {
            (Outcome::Committed, Ok(result)) => Ok((member, result)),
            // A refusal is told only if what it saw is on disk: it may quote what another closure of its batch did.
            (Outcome::Committed, Err(Fallen::Refused(refusal))) => {
                Err(SubmitError::Rejected(refusal))
            }
            (Outcome::Committed, Err(Fallen::TooLarge(actual))) => Err(SubmitError::TooLarge {
                limit: MEMBER_BYTES_MAX,
                actual,
            }),
            (Outcome::Committed, Err(Fallen::Panicked)) => Err(SubmitError::Internal),
            // It wrote nothing, so its outcome is known, whatever became of the batch.
            (Outcome::Unknown, Err(_)) => Err(SubmitError::Unavailable),
            (outcome, _) => Err(lost(outcome)),
        };
        answers.extend(self.members.into_iter().zip(self.results).map(answer));
        self.rest
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
        Outcome::Faulty => SubmitError::Internal,
    }
}
