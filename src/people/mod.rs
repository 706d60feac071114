//! People: what lies at a user, in the partition of their inbox.
//!
//! Owns: the tables whose first key column is `$inbox/USER`, and the rules of their rows. Promises: a write touches the
//! user's partition only, in one batch. Must not: know JSON-RPC or sockets, or check what the gateway can check without
//! the store.

mod positions;
mod stored;
mod tables;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use crate::ids::{PartitionId, TableId};
use crate::table::{
    Catalog, DropContext, Entry, Partitions, Purpose, Retention, Rules, TableRules, Txn, View,
};
use crate::timeline::{Error, Limits, Timelines};

use tables::Home;

pub use positions::{DEVICES_MAX, POSITIONS_MAX, SetPositions};
pub use stored::{Device, DevicePosition, Place};

/// What lies at the users of a data directory. Cheap to clone.
///
/// Writes queue when they are called and resolve when they are on disk; a dropped future loses the answer, not the
/// write.
#[derive(Clone)]
pub struct People {
    partitions: Partitions,
    timelines: Timelines,
}

impl People {
    /// The people on these partitions.
    #[must_use]
    pub fn new(partitions: Partitions, timelines: Timelines) -> People {
        People {
            partitions,
            timelines,
        }
    }

    /// The row rules that the partitions must be opened with: those of timelines and users; `catalog` knows the users'
    /// tables.
    #[must_use]
    pub fn rules(limits: &Limits, catalog: Catalog) -> Arc<dyn Rules> {
        let timelines = Timelines::retention(limits);
        Arc::new(TableRules::new(
            Arc::new(PeopleRetention { timelines }),
            catalog,
        ))
    }

    /// Sets positions of a device: forward only, unless the call says otherwise. Gives what is stored now of the
    /// timelines that were named.
    pub fn set_positions(
        &self,
        set: SetPositions,
    ) -> impl Future<Output = Result<Vec<DevicePosition>, Error>> + Send + use<> {
        let home = Home::new(&set.user);
        let bytes = set.bytes();
        self.submit(Purpose::Adds, &home.clone(), bytes, move |txn| {
            positions::set(txn, &home, set)
        })
    }

    /// Positions of a device behind a timeline's name, in the order of names, and whether that was all. About
    /// `bytes_max` of them, at least one if there is one.
    pub async fn positions(
        &self,
        user: &str,
        device: String,
        after: Option<String>,
        bytes_max: usize,
    ) -> Result<(Vec<DevicePosition>, bool), Error> {
        let home = Home::new(user);
        self.read(&home.clone(), move |view, now_ms| {
            positions::list(view, &home, &device, after.as_deref(), bytes_max, now_ms)
        })
        .await
    }

    /// A user's devices, in the order of their names.
    pub async fn devices(&self, user: &str) -> Result<Vec<Device>, Error> {
        let home = Home::new(user);
        self.read(&home.clone(), move |view, now_ms| {
            Ok(positions::live(view, &home, now_ms)?)
        })
        .await
    }

    /// Removes a device and its positions; `false` if there was none.
    pub fn remove_device(
        &self,
        user: &str,
        device: String,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let home = Home::new(user);
        self.submit(Purpose::MakesRoom, &home.clone(), SMALL_BYTES, move |txn| {
            Ok(positions::remove(txn, &home, &device)?)
        })
    }

    /// Queues a write at a user at once.
    fn submit<R, F>(
        &self,
        purpose: Purpose,
        home: &Home,
        bytes: usize,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<R, Error> + Send + 'static,
    {
        let submitted = self
            .partitions
            .submit(purpose, self.place(home), bytes, write);
        async move { submitted.await.map_err(Error::from) }
    }

    /// Reads at a user, from a fresh view.
    async fn read<R: Send + 'static>(
        &self,
        home: &Home,
        read: impl FnOnce(&View, u64) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let now_ms = self.timelines.now_ms();
        let read = move |view: &View| Ok(read(view, now_ms));
        self.partitions.read(self.place(home), read).await?
    }

    fn place(&self, home: &Home) -> PartitionId {
        self.partitions.place(home.name().as_bytes())
    }
}

/// About what a small write holds in the queue.
const SMALL_BYTES: usize = 512;

/// What people and timelines know about their rows.
struct PeopleRetention {
    timelines: Arc<dyn Retention>,
}

impl Retention for PeopleRetention {
    fn is_over(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> bool {
        match table {
            tables::POSITIONS => positions::is_over(columns, entry, context),
            _ => self.timelines.is_over(table, columns, entry, context),
        }
    }

    fn is_looked_up(&self, table: TableId) -> bool {
        matches!(table, tables::POSITIONS | tables::DEVICES) || self.timelines.is_looked_up(table)
    }
}
