//! The calls on timelines that are about a member's own side.
//!
//! Owns: where each of them runs. Promises: a write is queued when its function returns; of many timelines each is
//! done or refused for itself. Must not: hold a rule; the files beside it do.

use std::collections::BTreeMap;
use std::future::Future;

use tideline_base::ids::PartitionId;
use tideline_table::{Purpose, Txn};

use super::super::write::Site;
use super::super::{Error, SMALL_BYTES, Target, Timelines};
use super::{Cleared, Hidden, ReadMark, ReadState, Receipts};

/// Counts that one view makes.
const STATES_MAX: usize = 256;

impl Timelines {
    /// Notes how far a user has read and received timelines. Gives what it came to, each by its timeline.
    pub fn set_read(
        &self,
        marks: Vec<ReadMark>,
    ) -> impl Future<Output = Vec<(String, Result<ReadState, Error>)>> + Send + use<> {
        let mut by_partition: BTreeMap<PartitionId, Vec<ReadMark>> = BTreeMap::new();
        for mark in marks {
            let partition = self.place(&mark.target.timeline);
            by_partition.entry(partition).or_default().push(mark);
        }
        let queue = |(partition, marks): (PartitionId, Vec<ReadMark>)| {
            let targets: Vec<_> = marks.iter().map(|mark| mark.target.clone()).collect();
            let (site, bytes) = (self.site(partition), marks.len() * SMALL_BYTES);
            let set = move |mark: &mut ReadMark, txn: &mut Txn<'_>| site.set_read(txn, mark);
            let partitions = &self.inner.partitions;
            let queued = partitions.submit_all(Purpose::Adds, partition, bytes, marks, set);
            (partition, targets, queued)
        };
        let queued: Vec<_> = by_partition.into_iter().map(queue).collect();
        let timelines = self.clone();
        async move {
            let mut states = Vec::new();
            for (partition, targets, queued) in queued {
                let mut set = Vec::new();
                for (target, answer) in targets.into_iter().zip(queued.await) {
                    match answer {
                        Ok(_) => set.push(target),
                        Err(error) => states.push((target.timeline, Err(Error::from(error)))),
                    }
                }
                for some in set.chunks(STATES_MAX) {
                    states.extend(timelines.read_states(partition, some.to_vec()).await);
                }
            }
            states
        }
    }

    /// What is so now, from one view.
    async fn read_states(
        &self,
        partition: PartitionId,
        targets: Vec<Target>,
    ) -> Vec<(String, Result<ReadState, Error>)> {
        let (site, asked) = (self.site(partition), targets.clone());
        let states = self.read(partition, move |view| {
            Ok(asked
                .iter()
                .map(|target| site.read_state(view, target))
                .collect())
        });
        let states = match states.await {
            Ok(states) => states,
            Err(error) => vec![Err(error); targets.len()],
        };
        let names = targets.into_iter().map(|target| target.timeline);
        names.zip(states).collect()
    }

    /// Hides all messages below `before` from a member, or all there are.
    pub fn clear(
        &self,
        target: Target,
        before: Option<u64>,
    ) -> impl Future<Output = Result<Cleared, Error>> + Send + use<> {
        let partition = self.place(&target.timeline);
        self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, site| {
            site.clear(txn, &target, before)
        })
    }

    /// Hides messages from a member; those that it can't see are skipped. Gives how many were not hidden before.
    pub fn hide(
        &self,
        target: Target,
        sequences: Vec<u64>,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        let partition = self.place(&target.timeline);
        let bytes = SMALL_BYTES + 8 * sequences.len();
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.hide(txn, &target, &sequences)
        })
    }

    /// What a member has hidden, behind the `after`-th, in the order of hiding.
    pub async fn hidden(&self, target: Target, after: u64, limit: usize) -> Result<Hidden, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            site.hidden(view, &target, after, limit)
        });
        read.await
    }

    /// Who has received and read a message: up to `limit` members after the user `after`.
    pub async fn receipts(
        &self,
        target: Target,
        sequence: u64,
        after: Option<String>,
        limit: usize,
    ) -> Result<Receipts, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            site.receipts(view, &target, sequence, (after.as_deref(), limit))
        });
        read.await
    }

    /// Queues a write that may give a timeline its first members. It says `None` where it found messages that are not
    /// counted yet (see [`Site::count_for_members`]), and is queued again behind what has come meanwhile.
    pub(in crate::timeline) fn submit_with_members<M, R, F>(
        &self,
        partition: PartitionId,
        bytes: usize,
        call: M,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<M, R, F>
    where
        M: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut M, &mut Txn<'_>, &Site) -> Result<Option<R>, Error> + Clone + Send + 'static,
    {
        let timelines = self.clone();
        let submit = move |call: M| {
            let (site, write) = (timelines.site(partition), write.clone());
            let run = move |call: &mut M, txn: &mut Txn<'_>| write(call, txn, &site);
            let partitions = &timelines.inner.partitions;
            partitions.submit_all(Purpose::Adds, partition, bytes, vec![call], run)
        };
        let mut queued = submit(call);
        async move {
            loop {
                let answer = queued.await.pop().expect("one call, one answer");
                let (call, done) = answer?;
                if let Some(done) = done {
                    return Ok(done);
                }
                queued = submit(call);
            }
        }
    }
}
