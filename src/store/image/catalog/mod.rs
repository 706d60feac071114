//! The catalog: which runs there are, what they cover, of which parts they consist, which merges are under way.
//!
//! Owns: these types and the questions that readers and jobs ask them. Promises: runs are in order, newest first and
//! their intervals tile (0, covered]; a catalog is never changed, a change makes a new one with the next version. Must
//! not: touch LMDB. Its bytes are in `catalog_codec.rs`.

pub(super) mod catalog_codec;

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::env::Db;
use super::pages::tree::Trees;
use super::rows::filter::Filter;
use tideline_base::ids::{Position, TableId};

/// One state of the image.
#[derive(Clone, Default)]
pub(super) struct Catalog {
    /// Rises by one with each change.
    pub(super) version: u64,
    pub(super) covered: Position,
    /// The number of the next run. Never falls.
    pub(super) next_run: u64,
    /// Newest first; the inputs of a running job are still here, its output is not.
    pub(super) runs: Vec<Arc<Run>>,
    /// At most one per level.
    pub(super) jobs: Vec<Job>,
}

/// A sorted run.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) level: u8,
    /// It covers the positions above `from` up to and with `to`.
    pub(super) from: Position,
    pub(super) to: Position,
    /// Keys rising.
    pub(super) parts: Vec<Arc<Part>>,
}

/// A part of a run: one slot, and a side slot where it has pieces or a filter.
pub(super) struct Part {
    pub(super) slot: u16,
    pub(super) side: u16,
    pub(super) rows_db: Db,
    pub(super) side_db: Db,
    pub(super) first: Bytes,
    pub(super) last: Bytes,
    /// Bytes of pages that it takes.
    pub(super) page_bytes: u64,
    /// Length of the stored filter; 0 = none (a part that still grows has none).
    pub(super) filter_bytes: u64,
    /// Blocks of rows; 0 = each row is a record of its own, as in a part that an earlier version wrote.
    pub(super) blocks: u64,
    pub(super) counts: Vec<TableCounts>,
    /// The filter once it is in memory; an inner `None` = it can't be used.
    pub(super) filter: OnceLock<Option<Filter>>,
    /// Its pages, read when first asked for: while the catalog has this part, they do not change.
    pub(super) trees: OnceLock<Trees>,
}

impl Part {
    /// The same, with nothing read of it: for the same part in another file.
    pub(super) fn unread(&self) -> Part {
        Part {
            first: self.first.clone(),
            last: self.last.clone(),
            counts: self.counts.clone(),
            filter: OnceLock::new(),
            trees: OnceLock::new(),
            ..*self
        }
    }
}

/// What a part, or the image, holds of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// The table.
    pub table: TableId,
    /// Entries of all kinds.
    pub rows: u64,
    /// Bytes of keys and values, uncut.
    pub bytes: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Entries that are deltas.
    pub deltas: u64,
    /// Lowest version of a cell, ms; 0 = not known.
    pub version_min: u64,
    /// Highest version of a cell, ms; 0 = not known.
    pub version_max: u64,
    /// Sum (wrapping) of a 64-bit hash of each entry: the same for the same entries, whatever runs they lie in.
    pub digest: u64,
}

impl TableCounts {
    /// Adds up what several parts hold of the same table.
    pub fn add(&mut self, other: &TableCounts) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.tombstones += other.tombstones;
        self.deltas += other.deltas;
        self.cover(other.version_min, other.version_max);
        self.digest = self.digest.wrapping_add(other.digest);
    }

    /// Takes versions in.
    pub(super) fn cover(&mut self, min: u64, max: u64) {
        self.version_min = match (self.version_min, min) {
            (0, known) | (known, 0) => known,
            (one, two) => one.min(two),
        };
        self.version_max = self.version_max.max(max);
    }

    /// Of a table without rows.
    pub fn new(table: TableId) -> TableCounts {
        TableCounts {
            table,
            rows: 0,
            bytes: 0,
            tombstones: 0,
            deltas: 0,
            version_min: 0,
            version_max: 0,
            digest: 0,
        }
    }
}

/// A merge under way.
#[derive(Clone)]
pub(super) struct Job {
    /// The level that it was started for; one job per level.
    pub(super) level: u8,
    /// Numbers of the runs it merges, newest first; neighbours.
    pub(super) inputs: Vec<u64>,
    /// What it has written.
    pub(super) output: Run,
    /// Whether the output's last part still grows.
    pub(super) growing: bool,
    /// The last key that it has dealt with.
    pub(super) passed: Option<Bytes>,
}

/// One place where a reader has to look, with the keys for which it counts.
pub(super) struct Source<'c> {
    pub(super) run: &'c Run,
    pub(super) above: Option<&'c [u8]>,
    pub(super) up_to: Option<&'c [u8]>,
}

impl Catalog {
    /// All sources, newest first.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        self.runs.iter().flat_map(|run| {
            let job = self.job_of(run.number);
            let output = job
                .filter(|job| job.inputs.first() == Some(&run.number))
                .and_then(|job| {
                    Some(Source {
                        run: &job.output,
                        above: None,
                        up_to: Some(job.passed.as_deref()?),
                    })
                });
            let input = Source {
                run,
                above: job.and_then(|job| job.passed.as_deref()),
                up_to: None,
            };
            output.into_iter().chain([input])
        })
    }

    /// The job that has a run among its inputs.
    pub(super) fn job_of(&self, run: u64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.inputs.contains(&run))
    }

    /// Runs of level 0, those in a merge too.
    pub(super) fn level0_runs(&self) -> usize {
        self.runs.iter().filter(|run| run.level == 0).count()
    }

    /// All runs, newest first, and then running jobs' outputs.
    pub(super) fn all_runs(&self) -> impl Iterator<Item = &Run> {
        let outputs = self.jobs.iter().map(|job| &job.output);
        self.runs.iter().map(|run| &**run).chain(outputs)
    }

    /// All parts, those of running jobs' outputs too.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.all_runs().flat_map(|run| &run.parts)
    }
}

impl Source<'_> {
    /// Whether the source counts for `key`.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.above.is_none_or(|above| key.cmp(above).is_gt())
            && self.up_to.is_none_or(|up_to| key.cmp(up_to).is_le())
    }

    /// The range cut to where the source counts.
    pub(super) fn clip<'b>(
        &'b self,
        from: Bound<&'b [u8]>,
        to: Bound<&'b [u8]>,
    ) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
        let from = match (from, self.above) {
            (_, None) => from,
            (Bound::Included(key), Some(above)) if key > above => from,
            (Bound::Excluded(key), Some(above)) if key >= above => from,
            (_, Some(above)) => Bound::Excluded(above),
        };
        let to = match (to, self.up_to) {
            (_, None) => to,
            (Bound::Included(key) | Bound::Excluded(key), Some(up_to)) if key <= up_to => to,
            (_, Some(up_to)) => Bound::Included(up_to),
        };
        (from, to)
    }
}

impl Run {
    /// The part that may hold `key`.
    pub(super) fn part_of(&self, key: &[u8]) -> Option<&Arc<Part>> {
        let at = self
            .parts
            .partition_point(|part| part.last[..].cmp(key).is_lt());
        self.parts
            .get(at)
            .filter(|part| part.first[..].cmp(key).is_le())
    }

    /// Where the parts begin and end that may hold keys of a range.
    pub(super) fn parts_of(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> &[Arc<Part>] {
        let begin = self.parts.partition_point(|part| match from {
            Bound::Unbounded => false,
            Bound::Included(key) => part.last[..].cmp(key).is_lt(),
            Bound::Excluded(key) => part.last[..].cmp(key).is_le(),
        });
        let end = self.parts.partition_point(|part| match to {
            Bound::Unbounded => true,
            Bound::Included(key) => part.first[..].cmp(key).is_le(),
            Bound::Excluded(key) => part.first[..].cmp(key).is_lt(),
        });
        self.parts.get(begin..end).unwrap_or_default()
    }

    /// Bytes of pages that it takes.
    pub(super) fn page_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.page_bytes).sum()
    }
}

impl Part {
    /// Entries of all kinds; also the number that the next row gets.
    pub(super) fn rows(&self) -> u64 {
        self.counts.iter().map(|table| table.rows).sum()
    }
}
