//! The gauges of each partition, brought up to date at a scrape.
//!
//! Owns: which figure goes into which gauge. Promises: no write or read touches a gauge. Must not: be called from a
//! thread that may not wait: it looks into files and LMDB.

use super::Partitions;
use crate::ids::Position;
use crate::metrics::Partition;
use crate::{image, log};

/// A partition's gauges.
#[derive(Default)]
pub(super) struct PartitionFigures {
    pub(super) queue_jobs: usize,
    pub(super) queue_bytes: usize,
    pub(super) queue_fill: f64,
    pub(super) memtable_bytes: usize,
    pub(super) memtable_rows: usize,
    pub(super) frozen: usize,
    pub(super) stopped: bool,
    pub(super) tail: Position,
    pub(super) log: log::LogFigures,
    pub(super) image: image::Pressure,
    /// `None` if the image could not be looked into.
    pub(super) environment: Option<image::ReaderFigures>,
}

impl Partitions {
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

/// Sets the gauges of a partition that has ended to 0.
pub(super) fn forget(metrics: &Partition) {
    observe(metrics, &PartitionFigures::default(), 0);
}

fn observe(metrics: &Partition, figures: &PartitionFigures, now_ms: u64) {
    let age = |since_ms: u64| now_ms.saturating_sub(since_ms) as f64 / 1e3;
    let commit = &metrics.commit;
    commit.queue_depth.count(figures.queue_jobs as u64);
    commit.queue_bytes.count(figures.queue_bytes as u64);
    commit.queue_fill.set(figures.queue_fill);
    commit.stopped.count(u64::from(figures.stopped));
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
