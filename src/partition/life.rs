//! Tasks that live as long as a partition does.
//!
//! Owns: [`Partitions::for_each`]. Promises: each partition has its task from its birth on. Must not: know what a task
//! does, or wait for its end.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Partitions;
use crate::ids::{PartitionId, Position};

/// A partition that is alive, for the task that goes with it.
pub struct Life {
    /// Which one.
    pub partition: PartitionId,
    /// Who follows its log begins behind this: what was before was there before the task.
    pub after: Position,
    /// Cancelled when the task is to end.
    pub ends: CancellationToken,
}

impl Partitions {
    /// Starts a task for each partition on the current runtime.
    pub fn for_each<W>(
        &self,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        work: impl Fn(Life) -> W + Send + 'static,
    ) where
        W: Future<Output = ()> + Send + 'static,
    {
        for partition in self.ids() {
            let after = self.tail(partition).position();
            let ends = stop.child_token();
            tasks.spawn(work(Life {
                partition,
                after,
                ends,
            }));
        }
    }
}
