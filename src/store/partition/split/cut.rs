//! The cut: the moment at which children take over from their parents while all are served.
//!
//! Owns: its steps, and what becomes of the parents. Promises: until the directory says that the children count,
//! everything can be taken back and nothing has changed; from then on every caller finds the children. A reader that
//! still holds a parent may read its last moment for a while. Must not: wait for what must be done before (the relay,
//! long work, followers of the log); the caller has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

#[cfg(any(test, feature = "faults"))]
use super::super::Fault;
use super::super::commit::intake::Opening;
use super::super::follow::ended::EndedLog;
use super::super::shared::Shared;
use super::super::{Map, OpenError, Partitions, Set, StoreError};
use super::fault_point::Point;
use super::making::Making;
use super::plan::Outcome;
use tideline_base::ids::PartitionId;

/// Parents that are about to end. Their intakes open again when this is dropped, unless they have ended.
pub struct Ending {
    partitions: Vec<Arc<Shared>>,
}

impl Partitions {
    /// Lets only what is derived from changes into these partitions. All else is refused as busy.
    #[must_use]
    pub fn pause(&self, ids: &[PartitionId]) -> Ending {
        let partitions: Vec<_> = ids.iter().filter_map(|id| self.at(*id)).collect();
        for partition in &partitions {
            partition.queue.intake.set(Opening::Derives);
        }
        Ending { partitions }
    }

    /// Ends the threads of partitions that have ended. Their rows can still be read. Blocks.
    pub fn retire(&self, ids: &[PartitionId]) {
        let ended: Vec<_> = ids.iter().filter_map(|id| self.at(*id)).collect();
        ended.iter().for_each(|partition| partition.queue.close());
        ended.iter().for_each(|partition| partition.join());
        ids.iter().for_each(|id| self.inner.metrics.forget(id.0));
    }

    /// Removes the files of partitions that have ended, except logs that are kept, and what is counted of them. Blocks.
    pub fn clear(&self, ids: &[PartitionId]) -> Result<(), OpenError> {
        let directory = self.directory();
        self.change(&directory, |set| {
            for id in ids {
                set.partitions[usize::from(id.0)] = None;
            }
        });
        directory.clear_ended()?;
        drop(directory);
        let set = self.inner.set.load();
        let ended = ids.iter().filter_map(|id| set.ended.get(id));
        ended.for_each(|ended| ended.log.forget());
        // A late reader may have counted since they were retired.
        ids.iter().for_each(|id| self.inner.metrics.forget(id.0));
        Point::Cleared.reached();
        Ok(())
    }

    /// Gives up the logs of partitions that have ended: nobody will read them. May block on the disk.
    pub fn let_go(&self, ids: &[PartitionId]) -> Result<(), OpenError> {
        self.record(ids, Map::without_logs)
    }

    /// Forgets partitions that have ended ([`Map::forgettable`]). May block on the disk.
    pub fn forget(&self, ids: &[PartitionId]) -> Result<(), OpenError> {
        self.record(ids, Map::without)
    }

    /// Makes the children count and serves them. `Err` also has the children: their threads are waited for when they
    /// are dropped, which must not be under the directory's lock.
    fn count(&self, outcome: &Outcome, begun: Begun) -> Result<(), (OpenError, Begun)> {
        let mut directory = self.directory();
        if let Err(error) = directory.replace(outcome.map.clone()) {
            return Err((error, begun));
        }
        Point::Counted.reached();
        self.change(&directory, |set| serve(set, outcome, begun));
        Ok(())
    }

    /// Puts a map in force that knows less of some ended partitions.
    fn record(
        &self,
        ids: &[PartitionId],
        without: impl Fn(&Map, &[PartitionId]) -> Map,
    ) -> Result<(), OpenError> {
        let mut directory = self.directory();
        // A manifest written now would replace the draft of a change under way. The caller tries again later.
        if ids.is_empty() || self.inner.is_changing.load(Ordering::SeqCst) {
            return Ok(());
        }
        // First their files: a start refuses a folder of a partition that the manifest does not name.
        directory.clear_ended()?;
        let map = without(&self.map(), ids);
        directory.draft(&map)?;
        directory.replace(map.clone())?;
        self.change(&directory, |set| {
            set.ended
                .retain(|id, _| map.share(*id).is_some_and(|share| share.keeps_log));
            // One that ended lately can perhaps still be read. Its files go now, too.
            for partition in ids.iter().map(|id| usize::from(id.0)) {
                if let Some(partition) = set.partitions.get_mut(partition) {
                    *partition = None;
                }
            }
            set.map = Arc::new(map);
        });
        directory.sweep()
    }
}

impl Ending {
    /// Lets no write in any more, and waits until all that were let in are on disk. Cancel-safe.
    pub async fn seal(&self) -> Result<(), StoreError> {
        for partition in &self.partitions {
            partition.queue.intake.set(Opening::Sealed);
        }
        for partition in &self.partitions {
            partition.queue.drain().await?;
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
            partition.queue.intake.set(Opening::Open);
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
        if let Err((error, _begun)) = self.partitions.count(&outcome, begun) {
            tracing::error!(%error, "nobody knows which partitions count; those concerned stop until the next start");
            ending.partitions.iter().for_each(|partition| {
                partition.stop("a split or a merge was not recorded".to_owned())
            });
            return Err(error);
        }
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
}

/// The children are served, and the parents' logs can be read as far as they are kept.
fn serve(set: &mut Set, outcome: &Outcome, mut begun: Begun) {
    for id in &outcome.parents {
        let keeps_log = outcome.map.share(*id).is_some_and(|share| share.keeps_log);
        if let Some(partition) = set.at(*id).filter(|_| keeps_log) {
            set.ended.insert(*id, Arc::new(EndedLog::of(partition)));
        }
    }
    for (id, partition) in begun.0.drain(..) {
        let at = usize::from(id.0);
        set.partitions
            .resize(set.partitions.len().max(at + 1), None);
        set.partitions[at] = Some(partition);
    }
    set.map = Arc::new(outcome.map.clone());
}

/// Partitions that are open and not served yet. Dropped, they close.
struct Begun(Vec<(PartitionId, Arc<Shared>)>);

impl Drop for Begun {
    fn drop(&mut self) {
        for (_, partition) in &self.0 {
            partition.end();
            partition.queue.close();
        }
        self.0.iter().for_each(|(_, partition)| partition.join());
    }
}
