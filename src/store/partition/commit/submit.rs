//! The way in for writes: closures that are queued for the writer of a partition.
//!
//! Owns: nothing; the queue is the partition's. Promises: closures are queued when the call is made, and answered when
//! their batch is on disk, or with why it is not. Must not: know what a closure does.

use std::future::Future;

use super::super::{Partitions, Purpose, StoreError, SubmitError, Txn};
use super::job;
use super::job::Look;
use tideline_base::ids::PartitionId;

impl Partitions {
    /// Queues `closure` at once (the order of calls is the order of effects) and resolves after its batch is on disk.
    /// `bytes` is about what the closure holds, for the queue's bound. Not cancel-sensitive: a dropped future leaves
    /// the closure in the queue; only its answer is lost.
    pub fn submit<R, E, F>(
        &self,
        purpose: Purpose,
        at: PartitionId,
        bytes: usize,
        closure: F,
    ) -> impl Future<Output = Result<R, SubmitError<E>>> + Send + use<R, E, F>
    where
        R: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    {
        let answers = self.submit_all(purpose, at, bytes, vec![Some(closure)], job::call);
        async move {
            let answer = answers.await.pop().expect("one closure, one answer");
            answer.map(|(_, result)| result)
        }
    }

    /// The same for closures that come together: `run` is called with each of `members`, in order. Each succeeds
    /// or refuses for itself, nothing else comes between them, and one waking brings all their answers, in their order,
    /// with what `run` made of the members. They are of one batch unless they fill it. Room in the queue is for all of
    /// them or none.
    pub fn submit_all<M, R, E, F>(
        &self,
        purpose: Purpose,
        at: PartitionId,
        bytes: usize,
        members: Vec<M>,
        run: F,
    ) -> impl Future<Output = Vec<Result<(M, R), SubmitError<E>>>> + Send + use<M, R, E, F>
    where
        M: Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
        F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send + 'static,
    {
        self.submit_looking(purpose, at, bytes, (members, None), run)
    }

    /// The same with a function that is called with all members before the first one runs. What it finds committed, or
    /// not, is so while they run.
    pub fn submit_looking<M, R, E, F>(
        &self,
        purpose: Purpose,
        at: PartitionId,
        bytes: usize,
        (members, look): (Vec<M>, Option<Look<M>>),
        run: F,
    ) -> impl Future<Output = Vec<Result<(M, R), SubmitError<E>>>> + Send + use<M, R, E, F>
    where
        M: Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
        F: FnMut(&mut M, &mut Txn<'_>) -> Result<R, E> + Send + 'static,
    {
        let count = members.len();
        let (bundle, answer) = job::looking(members, look, run);
        let refused = match self.inner.set.load().at(at) {
            Some(partition) => partition.enqueue(purpose, bytes, bundle).err(),
            // Its keys are another partition's now; a caller that asks again finds that one.
            None => Some(StoreError::Busy),
        };
        async move {
            match refused {
                None => job::answers(answer, count).await,
                Some(error) => (0..count)
                    .map(|_| Err(SubmitError::Failed(error)))
                    .collect(),
            }
        }
    }
}
