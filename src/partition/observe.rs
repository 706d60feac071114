//! The gauges of all partitions together, worked out when somebody asks.
//!
//! Owns: how partitions add up, and where the worst one counts. Promises: nothing on the way of a write or a read is
//! touched for a gauge. Must not: be called from a thread that may not wait: it looks into files and LMDB.

use super::Partitions;
use super::shared::PartitionFigures;
use crate::metrics;

impl Partitions {
    /// Brings the gauges of queues, memtables, logs and images up to date. May block on the disk.
    pub fn observe(&self, now_ms: u64) {
        let inner = &self.inner;
        let all: Vec<PartitionFigures> = inner.partitions.iter().map(|one| one.figures()).collect();
        observe_writes(&all);
        observe_log(&all, now_ms);
        observe_image(&all, now_ms);
        metrics::reads().running.count(inner.reads.running() as u64);
    }
}

fn sum(all: &[PartitionFigures], of: impl Fn(&PartitionFigures) -> u64) -> u64 {
    all.iter().map(of).sum()
}

fn most(all: &[PartitionFigures], of: impl Fn(&PartitionFigures) -> f64) -> f64 {
    all.iter().map(of).fold(0.0, f64::max)
}

fn observe_writes(all: &[PartitionFigures]) {
    let commit = metrics::commit();
    commit
        .queue_depth
        .count(sum(all, |one| one.queue_jobs as u64));
    commit
        .queue_bytes
        .count(sum(all, |one| one.queue_bytes as u64));
    commit.queue_fill.set(most(all, |one| one.queue_fill));
    commit.partitions.count(all.len() as u64);
    commit.stopped.count(sum(all, |one| u64::from(one.stopped)));
    let memtables = metrics::memtables();
    memtables
        .bytes
        .count(sum(all, |one| one.memtable_bytes as u64));
    memtables
        .rows
        .count(sum(all, |one| one.memtable_rows as u64));
    memtables.frozen.set(most(all, |one| one.frozen as f64));
}

fn observe_log(all: &[PartitionFigures], now_ms: u64) {
    let log = metrics::log();
    log.position.count(sum(all, |one| one.tail.0));
    log.oldest_position.count(sum(all, |one| one.log.first.0));
    log.bytes.count(sum(all, |one| one.log.bytes));
    log.segments.count(sum(all, |one| one.log.segments as u64));
    let newest = all.iter().filter_map(|one| one.log.first_ms).max();
    let age_ms = newest.map_or(0, |since| now_ms.saturating_sub(since));
    log.oldest_seconds.set(age_ms as f64 / 1e3);
}

fn observe_image(all: &[PartitionFigures], now_ms: u64) {
    let image = metrics::image();
    image.runs.count(sum(all, |one| one.image.runs as u64));
    image
        .level0_runs
        .set(most(all, |one| one.image.level0_runs as f64));
    image.used_bytes.count(sum(all, |one| one.image.bytes_used));
    image.dead_bytes.count(sum(all, |one| one.image.dead_bytes));
    image.file_bytes.count(sum(all, |one| one.image.file_bytes));
    image.map_bytes.count(sum(all, |one| one.image.map_bytes));
    image
        .filter_bytes
        .count(sum(all, |one| one.image.filter_bytes));
    let fewest = all.iter().map(|one| one.image.free_slots).min();
    image.free_slots.count(fewest.unwrap_or(0) as u64);
    let pending = sum(all, |one| one.image.pending_bytes);
    metrics::compaction().pending.count(pending);
    let walked = all.iter().map(|one| one.image.walked_ms);
    let age_ms = walked
        .filter(|since| *since > 0)
        .map(|since| now_ms.saturating_sub(since))
        .max();
    let age_seconds = age_ms.unwrap_or(0) as f64 / 1e3;
    metrics::compaction().survey_age.set(age_seconds);
    let looked: Vec<_> = all
        .iter()
        .filter_map(|one| one.environment.as_ref())
        .collect();
    image
        .free_bytes
        .count(looked.iter().map(|one| one.free_bytes).sum());
    image
        .readers
        .count(looked.iter().map(|one| one.readers as u64).sum());
    let oldest = looked
        .iter()
        .map(|one| one.oldest_age)
        .max()
        .unwrap_or_default();
    image.reader_seconds.set(oldest.as_secs_f64());
    let behind = looked.iter().map(|one| one.oldest_behind).max();
    image.reader_transactions.count(behind.unwrap_or(0));
}
