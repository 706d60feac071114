//! Partitions: each one writer thread, one commit log, memtables and an image; and the only module where async and
//! sync meet.
//!
//! Owns: group commit, visibility, placement, recovery, flush and compaction's schedule. Promises: a closure that was
//! submitted takes effect whole or not at all, after those submitted before it; its answer comes after its batch is on
//! disk; a view shows a state between two batches. Must not: know what a row is.

mod backup;
mod cluster;
mod commit;
mod directory;
mod error;
#[cfg(any(test, feature = "faults"))]
mod faults;
mod follow;
mod memory;
mod observe;
mod options;
mod panics;
#[cfg(any(test, feature = "faults"))]
mod probe;
mod reads;
mod refusal;
mod set;
mod shared;
mod split;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

pub use crate::image::Options as ImageOptions;
pub use crate::image::{DropContext, Gap, Owner, Pieces, Reason, Rules, TableCounts, Verdict};
pub use crate::log::Options as LogOptions;
use crate::log::{LocalStorage, Log};
pub use backup::{
    BACKUP_DATA, BACKUP_MANIFEST, Backup, BackupError, BackupJob, BackupManifest, BackupOptions,
    BackupOutcome, BackupPartition, BackupRefusal, BackupStage, Backups, Elsewhere, Fetched,
    KEYS_FOLDER, ListedBackup, ListedFile, Loss, Passphrase, Progress, Repair, RepairFrom,
    RepairStep, RestorePoint, Restored, Snapshot, clear_unfinished, install, listed_backups,
    prune_backups, remove_place, restore, restore_fetched, time_text,
};
use cluster::Seating;
pub use cluster::{
    Adoption, Belongs, MemberHost, MemberOptions, Role, Seat, belongs, has_all_it_owned, leave,
    mirror, set_mirror,
};
pub use commit::job::Look;
pub use commit::queue::{QUEUE_BYTES_MAX, QUEUE_JOBS_MAX};
pub use commit::txn::Txn;
pub use commit::write_set::WriteSet;
pub use directory::inspection::{Inspected, Inspection, directory_map};
pub use directory::map::{Map, Origin, Share, hash};
pub use directory::renewal::{accept_copy, is_acceptance_under_way};
pub use directory::seal::Seal;
pub use directory::served::is_copy;
use directory::{Directory, Standing, served};
pub use error::{OpenError, ReadError, StoreError, SubmitError};
#[cfg(any(test, feature = "faults"))]
pub use faults::Fault;
pub use follow::each::Each;
use follow::ended::EndedLog;
pub use follow::hold::Holder;
pub use follow::life::Life;
pub use follow::tail::Tail;
pub use memory::flusher::FROZEN_MAX;
pub use memory::merge::Direction;
pub use memory::view::{Found, Rows, View};
pub use observe::{Doing, State};
pub use options::{BATCH_JOBS, Options, Purpose};
pub use panics::caught;
pub use reads::READS_MAX;
use reads::{Reads, costly_max};
use set::Set;
use shared::Shared;
pub use split::cut::Ending;
pub use split::fault_point::Point;
pub use split::gate::{Gate, Inside, Shut};
pub use split::making::{Making, Round};
pub use split::offline::Estimate;
pub use split::plan::Reshape;
use tideline_base::bounds::Bounds;
use tideline_base::clock::Clock;
pub use tideline_base::entry::Entry;
#[cfg(test)]
use tideline_base::ids::Position;
use tideline_base::ids::{HistoryId, PartitionId};
use tideline_base::metrics::Metrics;

/// The partitions of one data directory. Cheap to clone.
#[derive(Clone)]
pub struct Partitions {
    inner: Arc<Inner>,
}

struct Inner {
    origin: Origin,
    seal: Seal,
    /// Replaced by [`Partitions::change`] only.
    set: ArcSwap<Set>,
    /// The set's map, for callers that wait for another one.
    map: watch::Sender<Arc<Map>>,
    reads: Arc<Reads>,
    /// For reads that may take seconds of a processor.
    costly: Arc<Reads>,
    metrics: Arc<Metrics>,
    gate: Gate,
    /// Whether partitions are being made. Read and set under the lock of `directory`.
    is_changing: AtomicBool,
    options: Options,
    rules: Arc<dyn Rules>,
    clock: Arc<Clock>,
    /// Last, so that the lock outlives the threads.
    directory: Mutex<Directory>,
}

/// A committed batch, for followers of the log.
pub use crate::log::Frame as Batch;

impl Partitions {
    /// Opens the data directory, making it if it is not there, and recovers: image, then the log from the covered
    /// position.
    pub fn open(
        dir: &Path,
        options: Options,
        rules: Arc<dyn Rules>,
        clock: Arc<Clock>,
    ) -> Result<Partitions, OpenError> {
        let directory = Directory::open(dir, options.partitions, None)?;
        cluster::refuse_member(&directory)?;
        Partitions::begin(directory, options, (rules, clock), None)
    }

    /// Recovers what is in a directory, or makes it.
    fn begin(
        mut directory: Directory,
        mut options: Options,
        (rules, clock): (Arc<dyn Rules>, Arc<Clock>),
        seating: Option<&Seating>,
    ) -> Result<Partitions, OpenError> {
        let is_new = directory.standing() == Standing::Draft;
        let make_log = |folder: &Path, storage: &LocalStorage| match seating {
            Some(seating) => seating.make_log(folder, storage),
            None => directory::identity::make_log(folder, storage),
        };
        directory::identity::settle(&mut directory, &options.image, &rules, &make_log)?;
        let dir = directory.path();
        served::mark(dir)?;
        let seal = match seating {
            Some(_) => Seal::of_log(dir, is_new, cluster::log_of(&directory)?)?,
            None => Seal::of(dir, is_new)?,
        };
        if let Some(disk_bytes) = tideline_base::disk::total(dir) {
            options.fit(disk_bytes, directory.ids().len());
        }
        let mut partitions = Vec::new();
        for id in directory.ids() {
            let handed = (Arc::clone(&rules), Arc::clone(&clock));
            let started = start(id, &directory, &options, handed, seating)?;
            let at = usize::from(id.0);
            partitions.resize(partitions.len().max(at + 1), None);
            partitions[at] = Some(started);
        }
        let map = Arc::new(directory.map().clone());
        let kept = map.shares().filter(|share| share.keeps_log);
        let ended = kept.map(|share| {
            let log = EndedLog::open(&directory.log(share.id), options.log, share)?;
            Ok((share.id, Arc::new(log)))
        });
        let set = Set {
            map: Arc::clone(&map),
            partitions,
            ended: ended.collect::<Result<_, OpenError>>()?,
        };
        let inner = Inner {
            origin: directory.origin(),
            seal,
            set: ArcSwap::from_pointee(set),
            map: watch::Sender::new(map),
            reads: Reads::new(READS_MAX, &options.metrics.server),
            costly: Reads::new(costly_max(), &options.metrics.server),
            metrics: Arc::clone(&options.metrics),
            gate: Gate::default(),
            is_changing: AtomicBool::new(false),
            options,
            rules,
            clock,
            directory: Mutex::new(directory),
        };
        Ok(Partitions {
            inner: Arc::new(inner),
        })
    }

    /// Where calls wait while partitions are split or merged, or the log is handed over.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Whether every partition can commit: none has stopped after a disk failure.
    #[must_use]
    pub fn can_commit(&self) -> bool {
        let set = self.inner.set.load();
        set.live().all(|partition| !partition.is_stopped())
    }

    /// Freezes the memtable now, as if it were full, after the closures that are queued. Blocks; for tools and tests.
    pub fn rotate(&self, at: PartitionId) {
        if let Some(partition) = self.at(at) {
            partition.queue.rotate();
        }
    }

    /// The directory's history ID.
    #[must_use]
    pub fn history(&self) -> HistoryId {
        self.inner.origin.history
    }

    /// The directory's history, and how many partitions it had when it was new.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.inner.origin
    }

    /// Seals what clients are given to bring back.
    #[must_use]
    pub fn seal(&self) -> &Seal {
        &self.inner.seal
    }

    /// What callers may hold.
    #[must_use]
    pub fn bounds(&self) -> &Arc<Bounds> {
        &self.inner.options.bounds
    }

    /// Where the layers above count too.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// Which partitions there are and what they own, now.
    #[must_use]
    pub fn map(&self) -> Arc<Map> {
        Arc::clone(&self.inner.set.load().map)
    }

    /// The same for callers that must know when it has become another one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Map>> {
        self.inner.map.subscribe()
    }

    /// All partitions, in the order of their ranges.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = PartitionId> + use<> {
        let ids: Vec<_> = self.inner.set.load().map.ids().collect();
        ids.into_iter()
    }

    /// The partition that owns a partition key: each owns a range of the 64-bit hash space (XXH3 of the key's bytes;
    /// part of the format).
    #[must_use]
    pub fn place(&self, partition_key: &[u8]) -> PartitionId {
        self.inner.set.load().map.place(partition_key)
    }

    /// The partition of what belongs to the directory and to no key.
    #[must_use]
    pub fn home(&self) -> PartitionId {
        self.inner.set.load().map.home()
    }

    /// A view, for synchronous callers (tests, tools) that may block on the disk.
    pub fn view(&self, at: PartitionId) -> Result<View, ReadError> {
        self.at(at).ok_or_else(|| ended(at))?.view()
    }

    /// A partition's log, also of one that has ended; `None` = it is not kept, or never was.
    #[must_use]
    pub fn log(&self, at: PartitionId) -> Option<Tail> {
        let partition = self.at(at).map(Tail::live);
        partition.or_else(|| self.ended_log(at))
    }

    /// Reads the log of a partition that has ended; `None` = it is not kept.
    #[must_use]
    pub fn ended_log(&self, at: PartitionId) -> Option<Tail> {
        let log = self.inner.set.load().ended.get(&at).cloned()?;
        Some(Tail::ended(log))
    }

    /// Follows the committed batches of a partition. After a partition has ended nothing new comes.
    #[must_use]
    pub fn tail(&self, at: PartitionId) -> Tail {
        if let Some(partition) = self.at(at) {
            return Tail::live(partition);
        }
        self.ended_log(at).unwrap_or_else(|| {
            let ends = self.map().share(at).and_then(|share| share.ends);
            Tail::gone(ends.unwrap_or_default())
        })
    }

    /// Stops taking closures, commits what has queued, flushes the memtables and closes logs and images; then the
    /// directory does not count as served any more.
    pub async fn close(&self) {
        let set = self.inner.set.load_full();
        let partitions = self.clone();
        let ended = tokio::task::spawn_blocking(move || {
            let all = || set.partitions.iter().flatten();
            all().for_each(|partition| partition.queue.close());
            all().for_each(|partition| partition.join());
            let path = partitions.directory().path().to_owned();
            served::unmark(&path);
        });
        // A panic of a writer has ended the process already.
        let _ = ended.await;
    }

    /// Opens a partition of the directory and starts its threads.
    fn start(&self, id: PartitionId) -> Result<Arc<Shared>, OpenError> {
        let inner = &self.inner;
        let handed = (Arc::clone(&inner.rules), Arc::clone(&inner.clock));
        start(id, &self.directory(), &inner.options, handed, None)
    }

    fn directory(&self) -> MutexGuard<'_, Directory> {
        let directory = self.inner.directory.lock();
        directory.unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, id: PartitionId) -> Option<Arc<Shared>> {
        self.inner.set.load().at(id).cloned()
    }
}

fn start(
    id: PartitionId,
    directory: &Directory,
    options: &Options,
    handed: (Arc<dyn Rules>, Arc<Clock>),
    seating: Option<&Seating>,
) -> Result<Arc<Shared>, OpenError> {
    let (log_folder, image) = (directory.log(id), directory.image(id));
    let storage = LocalStorage::new(&log_folder)
        .map_err(|error| OpenError::from_io("open", &log_folder, error))?;
    let open_log = |covered| {
        let open = match seating {
            Some(_) => Log::open_mirror,
            None => Log::open,
        };
        let (log, opened) = open(Arc::new(storage), options.log, covered)?;
        if let Some(cut) = &opened.cut {
            tracing::info!(partition = %id, ?cut, "cut a batch that was not synced when the process ended");
        }
        Ok(log)
    };
    let member = seating.map(|seating| seating.member(&directory.folder(id)));
    let member = member.transpose()?;
    let started = commit::recovery::start(id, open_log, (&image, member), options, handed);
    started.map_err(|error| error.within(&directory.folder(id)))
}

fn ended(id: PartitionId) -> ReadError {
    ReadError::new(format!("there is no partition {id}"))
}
