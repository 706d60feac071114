//! Partitions: each one writer thread, one commit log, memtables and an image; and the only place where async and sync meet.
//!
//! Owns: group commit, visibility, placement, recovery, flush and compaction's schedule. Promises: a closure that was
//! submitted takes effect whole or not at all, after those submitted before it; its answer comes after its batch is on disk;
//! a view shows a state between two batches. Must not: know what a row is.

mod directory;
mod error;
mod job;
mod memtable;
mod merge;
mod shared;
mod txn;
mod view;
mod writer;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};

use crate::ids::{Clock, EntryKind, HistoryId, PartitionId, Position};
pub use crate::image::{DropContext, Entry, Pieces, Rules, Verdict};
pub use error::{OpenError, ReadError, SubmitError};
use shared::{Refusal, Shared};
pub use txn::Txn;
pub use view::{Direction, Rows, View};

/// The partitions of one data directory. Cheap to clone.
#[derive(Clone)]
pub struct Partitions {
    inner: Arc<Inner>,
}

struct Inner {
    history: HistoryId,
    partitions: Vec<Arc<Shared>>,
    reads: Arc<Semaphore>,
}

/// Limits of a partition. Every unit is in its field's name.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many partitions a new data directory gets.
    pub partitions: u16,
    /// Closures that may wait for the writer, per partition.
    pub queue_jobs_max: usize,
    /// Bytes that waiting closures may hold, per partition.
    pub queue_bytes_max: usize,
    /// Closures in one batch at most.
    pub batch_jobs_max: usize,
    /// Payload bytes after which a batch is closed.
    pub batch_bytes_max: usize,
    /// Reads that run at the same time, over all partitions.
    pub reads_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            partitions: 1,
            queue_jobs_max: 65_536,
            queue_bytes_max: 64 << 20,
            batch_jobs_max: 4_096,
            batch_bytes_max: 4 << 20,
            reads_max: 16,
        }
    }
}

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
    /// What it does.
    pub kind: EntryKind,
    /// The row of a put, the cells of a delta; empty for a tombstone.
    pub value: Bytes,
}

impl Effect {
    /// The effect as an entry of its key.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry {
            kind: self.kind,
            value: self.value.clone(),
        }
    }
}

impl Partitions {
    /// Opens the data directory, making it if it is not there, and recovers: image, then the log from the covered position.
    pub fn open(
        _dir: &Path,
        options: Options,
        rules: Arc<dyn Rules>,
        clock: Arc<Clock>,
    ) -> Result<Partitions, OpenError> {
        let mut partitions = Vec::new();
        for id in 0..options.partitions {
            partitions.push(writer::start(
                PartitionId(id),
                &options,
                Arc::clone(&rules),
                Arc::clone(&clock),
            )?);
        }
        let inner = Inner {
            history: HistoryId::random(),
            partitions,
            reads: Arc::new(Semaphore::new(options.reads_max)),
        };
        Ok(Partitions {
            inner: Arc::new(inner),
        })
    }

    /// The directory's history ID.
    #[must_use]
    pub fn history(&self) -> HistoryId {
        self.inner.history
    }

    /// All partitions.
    pub fn ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let count =
            u16::try_from(self.inner.partitions.len()).expect("partitions are counted in u16");
        (0..count).map(PartitionId)
    }

    /// The partition that owns a partition key: each owns an equal range of the 64-bit hash space (XXH3 of the key's bytes;
    /// part of the format).
    #[must_use]
    pub fn place(&self, partition_key: &[u8]) -> PartitionId {
        let hash = u128::from(xxhash_rust::xxh3::xxh3_64(partition_key));
        let slot = (hash * self.inner.partitions.len() as u128) >> 64;
        PartitionId(u16::try_from(slot).expect("a slot is below the number of partitions"))
    }

    /// Queues `closure` at once (the order of calls is the order of effects) and resolves after its batch is on disk.
    /// `bytes` is about what the closure holds, for the queue's bound. Not cancel-sensitive: a dropped future leaves the
    /// closure in the queue; only its answer is lost.
    pub fn submit<R, E, F>(
        &self,
        at: PartitionId,
        bytes: usize,
        closure: F,
    ) -> impl Future<Output = Result<R, SubmitError<E>>> + Send + use<R, E, F>
    where
        R: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    {
        let (task, answer) = job::Task::new(closure);
        let refused = self.at(at).enqueue(bytes, Box::new(task)).err();
        async move {
            match refused {
                Some(Refusal::Busy) => Err(SubmitError::Busy),
                Some(Refusal::ShuttingDown) => Err(SubmitError::ShuttingDown),
                Some(Refusal::Unavailable) => Err(SubmitError::Unavailable),
                // A writer that is gone without an answer died in the middle of something.
                None => answer.await.unwrap_or(Err(SubmitError::OutcomeUnknown)),
            }
        }
    }

    /// Runs `read` against a fresh view on a bounded pool of threads. One call = one page: a view must not live long.
    pub fn read<R, F>(
        &self,
        at: PartitionId,
        read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&View) -> Result<R, ReadError> + Send + 'static,
    {
        let partition = Arc::clone(self.at(at));
        let reads = Arc::clone(&self.inner.reads);
        async move {
            let permit = reads
                .acquire_owned()
                .await
                .map_err(|_| ReadError::new("closed"))?;
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                read(&partition.view()?)
            })
            .await
            .map_err(|error| ReadError::new(format!("a read did not end: {error}")))?
        }
    }

    /// A view, for synchronous callers (tests, tools) that may block on the disk.
    pub fn view(&self, at: PartitionId) -> Result<View, ReadError> {
        self.at(at).view()
    }

    /// Follows the committed batches of a partition.
    #[must_use]
    pub fn tail(&self, at: PartitionId) -> Tail {
        let partition = Arc::clone(self.at(at));
        Tail {
            position: partition.subscribe(),
            partition,
        }
    }

    /// Stops taking closures, commits what has queued, flushes the memtables and closes logs and images.
    pub async fn close(&self) {
        let partitions = Arc::clone(&self.inner);
        let ended = tokio::task::spawn_blocking(move || {
            partitions
                .partitions
                .iter()
                .for_each(|partition| partition.close());
            partitions
                .partitions
                .iter()
                .for_each(|partition| partition.join());
        });
        // A panic of a writer has ended the process already.
        let _ = ended.await;
    }

    fn at(&self, id: PartitionId) -> &Arc<Shared> {
        &self.inner.partitions[usize::from(id.0)]
    }
}

/// A follower's handle on one partition's log.
#[derive(Clone)]
pub struct Tail {
    position: watch::Receiver<Position>,
    partition: Arc<Shared>,
}

impl Tail {
    /// The newest committed and visible position.
    #[must_use]
    pub fn position(&self) -> Position {
        self.partition.tail()
    }

    /// Waits until the tail is past `position`; `false` once the partition has closed. Cancel-safe.
    pub async fn past(&mut self, position: Position) -> bool {
        self.position
            .wait_for(|tail| *tail > position)
            .await
            .is_ok()
    }

    /// Committed batches above `position` in order, from memory where they still are, else from disk; at least one if there
    /// is one, then up to about `bytes_max`. May block on the disk: `Err` also if retention has removed them.
    pub fn batches(
        &self,
        position: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        self.partition.batches(position, bytes_max)
    }
}
