//! Tasks that live as long as a partition does.
//!
//! Owns: [`Partitions::for_each`]. Promises: each partition has its task, from its birth on if it is born later, and
//! the task is notified when the partition has ended. Must not: know what a task does, or wait for its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::{Map, Partitions};
use tideline_base::faults;
use tideline_base::ids::{PartitionId, Position};

/// A partition that is alive, for the task that goes with it.
pub struct Life {
    /// Which one.
    pub partition: PartitionId,
    /// A task that follows the log begins behind this: what was before was there before the task.
    pub after: Position,
    /// Cancelled when the partition has ended, or the task is to end.
    pub ends: CancellationToken,
}

impl Partitions {
    /// Starts a task for each partition on the current runtime, and one for each that is born before `stop`. Returns
    /// the task that does the latter: once it has finished, partitions that are born get no task.
    pub fn for_each<W>(
        &self,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        work: impl Fn(Life) -> W + Send + 'static,
    ) -> AbortHandle
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (mut maps, all, stop) = (self.watch(), tasks.clone(), stop.clone());
        let mut running = BTreeMap::new();
        let ends = stop.clone();
        let begin = move |partition, after| {
            let ends = ends.child_token();
            let life = Life {
                partition,
                after,
                ends: ends.clone(),
            };
            all.spawn(work(life));
            ends
        };
        let map = Arc::clone(&maps.borrow_and_update());
        for id in map.ids() {
            running.insert(id, begin(id, self.tail(id).position()));
        }
        let mut follow = move |map: &Map| {
            running.retain(|id, ends| {
                let is_live = map.is_live(*id);
                if !is_live {
                    ends.cancel();
                }
                is_live
            });
            for id in map.ids() {
                let born = map.share(id).map_or(Position(1), |share| share.begins);
                let is_late = faults::is_named("born_one_late");
                // The first batch is the mark of the birth.
                let after = if is_late { born.0 + 1 } else { born.0 - 1 };
                let begin = || begin(id, Position(after));
                running.entry(id).or_insert_with(begin);
            }
        };
        let births = tasks.spawn(async move {
            while let Some(Ok(())) = stop.run_until_cancelled(maps.changed()).await {
                if faults::is_named("births_end") {
                    return;
                }
                let map = Arc::clone(&maps.borrow_and_update());
                follow(&map);
            }
        });
        births.abort_handle()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::partition::tests::ToyRules;
    use crate::partition::{Options, Share};
    use tideline_base::clock::Clock;

    #[tokio::test]
    async fn who_is_born_gets_a_task_and_those_of_who_has_ended_are_told() {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            partitions: 2,
            ..Options::default()
        };
        let (rules, clock) = (Arc::new(ToyRules), Arc::new(Clock::fixed(1)));
        let partitions = Partitions::open(home.path(), options, rules, clock).unwrap();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (told, mut heard) = mpsc::channel(9);
        partitions.for_each(&tasks, &stop, move |life| {
            let told = told.clone();
            async move {
                let number = life.partition.0;
                told.send((number, Some(life.after.0))).await.unwrap();
                life.ends.cancelled().await;
                told.send((number, None)).await.unwrap();
            }
        });
        let mut next = async |count: usize| {
            let mut all = Vec::new();
            for _ in 0..count {
                let one = tokio::time::timeout(Duration::from_secs(20), heard.recv());
                all.push(one.await.unwrap().unwrap());
            }
            all.sort_unstable();
            all
        };
        assert_eq!(next(2).await, [(0, Some(0)), (1, Some(0))]);
        // 0 is split into 2 and 3.
        let mut shares: Vec<Share> = partitions.map().shares().cloned().collect();
        shares[0].ends = Some(Position(7));
        let middle = shares[0].last / 2;
        for (id, range) in [(2, (0, middle)), (3, (middle + 1, shares[0].last))] {
            shares.push(Share {
                id: PartitionId(id),
                first: range.0,
                last: range.1,
                parents: vec![PartitionId(0)],
                begins: Position(8),
                ends: None,
                keeps_log: false,
            });
        }
        let map = Map::of(shares).unwrap();
        partitions.inner.map.send_replace(Arc::new(map));
        assert_eq!(next(3).await, [(0, None), (2, Some(7)), (3, Some(7))]);
        stop.cancel();
        assert_eq!(next(3).await, [(1, None), (2, None), (3, None)]);
        tasks.close();
        tasks.wait().await;
        partitions.close().await;
    }
}
