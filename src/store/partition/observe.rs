//! What each partition does at a moment: its gauges, brought up to date at a scrape, and the same for operators.
//!
//! Owns: which figure goes into which gauge, and what state a partition is in. Promises: no write or read touches a
//! gauge. Must not: be called from a thread that may not wait: it looks into files and LMDB.

use super::commit::flush_lag::FlushLag;
use super::{Holder, Partitions};
use crate::{image, log};
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics::Partition;

/// A partition's gauges.
#[derive(Default)]
pub(super) struct PartitionFigures {
    pub(super) queue_jobs: usize,
    pub(super) queue_bytes: usize,
    pub(super) queue_fill: f64,
    pub(super) memtable_bytes: usize,
    pub(super) memtable_rows: usize,
    pub(super) frozen: usize,
    /// Why it takes no more writes.
    pub(super) stopped: Option<String>,
    pub(super) flush_lag: FlushLag,
    pub(super) holds: Vec<(Holder, Position)>,
    pub(super) tail: Position,
    pub(super) log: log::LogFigures,
    pub(super) image: image::Pressure,
    /// `None` if the image could not be looked into.
    pub(super) environment: Option<image::ReaderFigures>,
}

/// What a partition that is served does, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct Doing {
    /// Whether it takes writes.
    pub state: State,
    /// The newest visible batch.
    pub position: Position,
    /// The oldest batch that the log still has.
    pub oldest: Position,
    /// The holders of the log, each with the position above which it holds.
    pub holds: Vec<(Holder, Position)>,
    /// Writes that wait.
    pub queue_writes: usize,
    /// The bytes of these.
    pub queue_bytes: usize,
    /// The share of the queue that they take, 0 to 1.
    pub queue_fill: f64,
    /// Bytes of memtables.
    pub memtable_bytes: usize,
    /// Memtables that wait to be flushed.
    pub frozen: usize,
    /// Sorted runs.
    pub runs: usize,
    /// Of these, those of level 0.
    pub level0_runs: usize,
    /// Bytes of pages that runs take.
    pub used_bytes: u64,
    /// Of these, what holds nothing that counts any more, as far as that is known.
    pub dead_bytes: u64,
}

/// Whether a partition takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Serving,
    /// It does, but slower: flush, compaction, a split or a merge are behind.
    Slowed,
    /// Not now: flush and compaction are too far behind.
    Busy,
    /// Only what makes room: the disk has none.
    Full,
    /// Not before a restart, for this reason.
    Stopped(String),
}

impl From<PartitionFigures> for Doing {
    fn from(figures: PartitionFigures) -> Doing {
        Doing {
            state: match (figures.stopped, figures.flush_lag) {
                (Some(why), _) => State::Stopped(why),
                (None, FlushLag::None) => State::Serving,
                (None, FlushLag::Slow(_)) => State::Slowed,
                (None, FlushLag::Busy) => State::Busy,
                (None, FlushLag::Full) => State::Full,
            },
            position: figures.tail,
            oldest: figures.log.first,
            holds: figures.holds,
            queue_writes: figures.queue_jobs,
            queue_bytes: figures.queue_bytes,
            queue_fill: figures.queue_fill,
            memtable_bytes: figures.memtable_bytes,
            frozen: figures.frozen,
            runs: figures.image.runs,
            level0_runs: figures.image.level0_runs,
            used_bytes: figures.image.bytes_used,
            dead_bytes: figures.image.dead_bytes,
        }
    }
}

impl Partitions {
    /// What a partition does now; `None` = it is not served. May block on the disk.
    #[must_use]
    pub fn doing(&self, at: PartitionId) -> Option<Doing> {
        Some(self.at(at)?.figures().into())
    }

    /// Brings the gauges of queues, memtables, logs and images up to date. May block on the disk.
    pub fn observe(&self, now_ms: u64) {
        let inner = &self.inner;
        let set = inner.set.load_full();
        for one in set.live() {
            observe(&one.metrics, &one.figures(), now_ms);
        }
        let server = &inner.metrics.server;
        server.partitions.count(set.live().count() as u64);
        server.reads_running.count(inner.reads.running() as u64);
    }
}

fn observe(metrics: &Partition, figures: &PartitionFigures, now_ms: u64) {
    let age = |since_ms: u64| now_ms.saturating_sub(since_ms) as f64 / 1e3;
    let commit = &metrics.commit;
    commit.queue_depth.count(figures.queue_jobs as u64);
    commit.queue_bytes.count(figures.queue_bytes as u64);
    commit.queue_fill.set(figures.queue_fill);
    commit.stopped.count(u64::from(figures.stopped.is_some()));
    let memtables = &metrics.memtables;
    memtables.bytes.count(figures.memtable_bytes as u64);
    memtables.rows.count(figures.memtable_rows as u64);
    memtables.frozen.count(figures.frozen as u64);
    let log = &metrics.log;
    log.position.count(figures.tail.0);
    log.oldest_position.count(figures.log.first.0);
    log.bytes.count(figures.log.bytes);
    log.segments.count(figures.log.segments as u64);
    log.oldest_seconds
        .set(figures.log.first_ms.map_or(0.0, age));
    let image = &metrics.image;
    image.runs.count(figures.image.runs as u64);
    image.level0_runs.count(figures.image.level0_runs as u64);
    image.used_bytes.count(figures.image.bytes_used);
    image.dead_bytes.count(figures.image.dead_bytes);
    image.file_bytes.count(figures.image.file_bytes);
    image.map_bytes.count(figures.image.map_bytes);
    image.filter_bytes.count(figures.image.filter_bytes);
    image.damage.count(figures.image.damage);
    image.free_slots.count(figures.image.free_slots as u64);
    metrics
        .compaction
        .pending
        .count(figures.image.pending_bytes);
    let walked_ms = Some(figures.image.walked_ms).filter(|since| *since > 0);
    metrics
        .compaction
        .survey_age
        .set(walked_ms.map_or(0.0, age));
    if let Some(environment) = &figures.environment {
        image.free_bytes.count(environment.free_bytes);
        image.readers.count(environment.readers as u64);
        image
            .reader_seconds
            .set(environment.oldest_age.as_secs_f64());
        image.reader_transactions.count(environment.oldest_behind);
    }
}
