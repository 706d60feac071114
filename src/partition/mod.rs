//! Partitions: each one writer thread, one commit log, memtables and an image; and the only place where async and sync meet.
//!
//! Owns: group commit, visibility, placement, recovery, flush and compaction's schedule. Promises: a closure that was
//! submitted takes effect whole or not at all, after those submitted before it; its answer comes after its batch is on disk;
//! a view shows a state between two batches. Must not: know what a row is.

mod txn;
mod view;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{Clock, HistoryId, PartitionId, Position};
pub use crate::image::{DropContext, Entry, Pieces, Rules, Verdict};
pub use txn::Txn;
pub use view::{Direction, View};

/// The partitions of one data directory. Cheap to clone.
#[derive(Clone)]
pub struct Partitions {}

/// Limits of a partition. Every unit is in its field's name.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many partitions a new data directory gets.
    pub partitions: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options { partitions: 1 }
    }
}

/// Why a submitted closure did not take effect. Everything but `OutcomeUnknown` promises that nothing was written.
#[derive(Debug)]
pub enum SubmitError<E> {
    /// The closure itself refused.
    Rejected(E),
    /// The queue is full, or compaction is behind: try again later.
    Busy,
    /// The disk is full.
    StorageFull,
    /// The batch was being written when the disk failed: perhaps it is there after a restart.
    OutcomeUnknown,
    /// The partition has stopped after a disk failure.
    Unavailable,
    /// The server is shutting down.
    ShuttingDown,
}

/// A read that failed: damage, a failing disk. Carries where and what, for the log; clients get "unavailable".
#[derive(Clone, Debug)]
pub struct ReadError(pub String);

/// Why a data directory can't be opened; the text is for the operator.
#[derive(Debug)]
pub struct OpenError(pub String);

/// A record of a committed batch, for those who follow the log: one effect or change record.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The batch's number in its partition's log.
    pub position: Position,
    /// Its commit time, ms since 1970; never falls from batch to batch.
    pub commit_ms: u64,
    /// What it did, each key once.
    pub effects: Vec<Effect>,
    /// Opaque change records in the order they were emitted (see [`Txn::change`]).
    pub changes: Vec<Bytes>,
}

/// One key's new entry.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The row's key.
    pub key: Bytes,
    /// Its newest entry in this batch.
    pub entry: Entry,
}

impl Partitions {
    /// Opens the data directory, making it if it is not there, and recovers: image, then the log from the covered position.
    pub fn open(
        _dir: &Path,
        _options: Options,
        _rules: Arc<dyn Rules>,
        _clock: Arc<Clock>,
    ) -> Result<Partitions, OpenError> {
        todo!()
    }

    /// The directory's history ID.
    pub fn history(&self) -> HistoryId {
        todo!()
    }

    /// All partitions.
    pub fn ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..1u16).map(PartitionId)
    }

    /// The partition that owns a partition key.
    pub fn place(&self, _partition_key: &[u8]) -> PartitionId {
        todo!()
    }

    /// Queues `closure` at once (the order of calls is the order of effects) and resolves after its batch is on disk.
    /// Not cancel-sensitive: a dropped future leaves the closure in the queue; only its answer is lost.
    pub fn submit<R, E, F>(
        &self,
        _at: PartitionId,
        _closure: F,
    ) -> impl Future<Output = Result<R, SubmitError<E>>> + Send + use<R, E, F>
    where
        R: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    {
        async { todo!() }
    }

    /// Runs `read` against a fresh view on a bounded pool of threads. One call = one page: a view must not live long.
    pub fn read<R, F>(
        &self,
        _at: PartitionId,
        _read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&View) -> Result<R, ReadError> + Send + 'static,
    {
        async { todo!() }
    }

    /// A view, for synchronous callers (tests, tools) that may block on the disk.
    pub fn view(&self, _at: PartitionId) -> Result<View, ReadError> {
        todo!()
    }

    /// Follows the committed batches of a partition.
    pub fn tail(&self, _at: PartitionId) -> Tail {
        todo!()
    }

    /// Stops taking closures, commits what has queued, flushes the memtables and closes logs and images.
    pub async fn close(&self) {
        todo!()
    }
}

/// A follower's handle on one partition's log.
#[derive(Clone)]
pub struct Tail {}

impl Tail {
    /// The newest committed and visible position.
    pub fn position(&self) -> Position {
        todo!()
    }

    /// Waits until the tail is past `position`; `false` once the partition has closed.
    pub async fn past(&mut self, _position: Position) -> bool {
        todo!()
    }

    /// Committed batches above `position` in order, from memory where they still are, else from disk; at least one if there
    /// is one, then up to about `bytes_max`. May block on the disk: `Err` also if retention has removed them.
    pub fn batches(
        &self,
        _position: Position,
        _bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        todo!()
    }
}
