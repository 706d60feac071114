//! The cut: the moment at which children take over from their parents while all are served.
//!
//! Owns: its steps, and what becomes of the parents. Promises: until the directory says that the children count,
//! everything can be taken back and nothing has changed; from then on everybody who asks finds the children. A reader
//! that still holds a parent may read its last moment for a while. Must not: wait for what must be done before (the
//! relay, long work, followers of the log); the caller has.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[cfg(any(test, feature = "faults"))]
use super::Fault;
use super::door::Opening;
use super::ended::EndedLog;
use super::job;
use super::making::Making;
use super::observe;
use super::plan::Outcome;
use super::point::Point;
use super::shared::{Queued, Shared};
use super::{OpenError, Partitions, Purpose, Set, StoreError, SubmitError, Txn};
use crate::ids::PartitionId;

/// Parents that are about to end. Their doors open again when this is dropped, unless they have ended.
pub struct Ending {
    partitions: Vec<Arc<Shared>>,
}

impl Partitions {
    /// Lets only what is derived from changes into these partitions. All else is refused as busy.
    #[must_use]
    pub fn pause(&self, ids: &[PartitionId]) -> Ending {
        let partitions: Vec<_> = ids.iter().filter_map(|id| self.at(*id)).collect();
        for partition in &partitions {
            partition.door.set(Opening::Derives);
        }
        Ending { partitions }
    }

    /// Ends the threads of partitions that have ended. Their rows can still be read. Blocks.
    pub fn retire(&self, ids: &[PartitionId]) {
        let ended: Vec<_> = ids.iter().filter_map(|id| self.at(*id)).collect();
        ended.iter().for_each(|partition| partition.close());
        for partition in ended {
            partition.join();
            observe::forget(&partition.metrics);
        }
    }

    /// Removes the files of partitions that have ended, except logs that are kept. Blocks.
    pub fn clear(&self, ids: &[PartitionId]) -> Result<(), OpenError> {
        let directory = self.directory();
        let set = self.inner.set.load_full();
        let mut partitions = set.partitions.clone();
        for id in ids {
            partitions[usize::from(id.0)] = None;
        }
        self.inner.set.store(Arc::new(Set {
            map: Arc::clone(&set.map),
            partitions,
            ended: set.ended.clone(),
        }));
        directory.clear_ended()?;
        Point::Cleared.reached();
        Ok(())
    }
}

impl Shared {
    /// Waits until all writes that were let in are on disk, or have failed. The caller has shut the door: nothing comes
    /// behind them.
    pub(super) async fn drain(&self) -> Result<(), StoreError> {
        while self.queued.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let nothing = |(): &mut (), _: &mut Txn<'_>| Ok::<(), ()>(());
        let (job, answer) = job::bundle(vec![()], nothing);
        self.queued.fetch_add(1, Ordering::SeqCst);
        let last = Queued::Job {
            purpose: Purpose::Derives,
            bytes: 0,
            job,
        };
        let sent = self.queue.send(last).await;
        sent.map_err(|_| StoreError::ShuttingDown)?;
        match job::answers(answer, 1).await.pop() {
            Some(Ok(_)) => Ok(()),
            Some(Err(SubmitError::Failed(error))) => Err(error),
            _ => Err(StoreError::Internal),
        }
    }
}

/// How often the queue is looked at.
const DRAIN_LOOK: Duration = Duration::from_micros(500);

impl Ending {
    /// Lets no write in any more, and waits until all that were let in are on disk. Cancel-safe.
    pub async fn seal(&self) -> Result<(), StoreError> {
        for partition in &self.partitions {
            partition.door.set(Opening::Sealed);
        }
        for partition in &self.partitions {
            partition.drain().await?;
        }
        Ok(())
    }

    /// They have ended: they open no more.
    fn keep(mut self) {
        for partition in self.partitions.drain(..) {
            partition.end();
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.door.set(Opening::Open);
        }
    }
}

impl Making {
    /// The children take over from their sealed parents, if all is ready `in_time`. With `keeps_logs` the parents'
    /// logs stay, for readers of streams. `false` = it was too late: the parents go on, and the cut can be tried again.
    /// After an error they go on, too, unless nobody knows which partitions count: then they stop. Blocks.
    pub fn cut(
        &mut self,
        ending: Ending,
        keeps_logs: bool,
        in_time: impl Fn() -> bool,
    ) -> Result<bool, OpenError> {
        let outcome = self.complete(keeps_logs)?;
        let begun = self.start(&outcome)?;
        Point::Opened.reached();
        #[cfg(any(test, feature = "faults"))]
        let in_time = || in_time() && !Fault::makes_late(self.partitions.inner.options.fault);
        if !in_time() {
            return Ok(false);
        }
        // From here on the children may count: nothing must be cleared away.
        self.done();
        let replaced = self.partitions.directory().replace(outcome.map.clone());
        if let Err(error) = replaced {
            tracing::error!(%error, "nobody knows which partitions count; those concerned stop until the next start");
            ending.partitions.iter().for_each(|partition| {
                partition.stop("a split or a merge was not recorded".to_owned())
            });
            return Err(error);
        }
        Point::Counted.reached();
        self.serve(&outcome, begun);
        ending.keep();
        Point::Served.reached();
        Ok(true)
    }

    fn start(&self, outcome: &Outcome) -> Result<Begun, OpenError> {
        let mut begun = Begun(Vec::new());
        for id in &outcome.children {
            let partition = self.partitions.start(*id)?;
            begun.0.push((*id, partition));
        }
        Ok(begun)
    }

    fn serve(&self, outcome: &Outcome, mut begun: Begun) {
        let inner = &self.partitions.inner;
        let set = inner.set.load_full();
        let (mut partitions, mut ended) = (set.partitions.clone(), set.ended.clone());
        for (id, partition) in begun.0.drain(..) {
            let at = usize::from(id.0);
            partitions.resize(partitions.len().max(at + 1), None);
            partitions[at] = Some(partition);
        }
        for id in &outcome.parents {
            let keeps_log = outcome.map.share(*id).is_some_and(|share| share.keeps_log);
            if let Some(partition) = set.at(*id).filter(|_| keeps_log) {
                ended.insert(*id, Arc::new(EndedLog::of(partition)));
            }
        }
        let map = Arc::new(outcome.map.clone());
        inner.set.store(Arc::new(Set {
            map: Arc::clone(&map),
            partitions,
            ended,
        }));
        inner.map.send_replace(map);
    }
}

/// Partitions that are open and not served yet. Dropped, they close.
struct Begun(Vec<(PartitionId, Arc<Shared>)>);

impl Drop for Begun {
    fn drop(&mut self) {
        for (_, partition) in &self.0 {
            partition.end();
            partition.close();
        }
        self.0.iter().for_each(|(_, partition)| partition.join());
    }
}
