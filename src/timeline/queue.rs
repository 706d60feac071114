//! The way of a write into its partition's queue.
//!
//! Owns: what a write is for, and how a refusal of the partition becomes one of the timelines. Promises: a write queues
//! when this is called. Must not: know what is written.

use std::future::Future;

use super::write::Site;
use super::{Error, SMALL_BYTES, Timelines};
use crate::ids::PartitionId;
use crate::table::{Purpose, Txn};

impl Timelines {
    /// Queues a write at once.
    pub(super) fn submit<R, F>(
        &self,
        partition: PartitionId,
        bytes: usize,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        self.submit_for(Purpose::Adds, partition, bytes, write)
    }

    /// Queues a write that makes room: it passes on a full disk.
    pub(super) fn make_room<R, F>(
        &self,
        partition: PartitionId,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        self.submit_for(Purpose::MakesRoom, partition, SMALL_BYTES, write)
    }

    fn submit_for<R, F>(
        &self,
        purpose: Purpose,
        partition: PartitionId,
        bytes: usize,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        let site = self.site(partition);
        let write = move |txn: &mut Txn<'_>| write(txn, &site);
        let partitions = &self.inner.partitions;
        let submitted = partitions.submit_for(purpose, partition, bytes, write);
        async move { submitted.await.map_err(Error::from) }
    }
}
