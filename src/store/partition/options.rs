//! The limits of a partition, and what a write may be for.
//!
//! Owns: the options with their defaults, and how they shrink on a small disk, which is logged. Promises: every unit is
//! in its field's name. Must not: know settings; `src/config/layers.rs` fills these in from them.

use std::sync::Arc;

#[cfg(any(test, feature = "faults"))]
use super::Fault;
use super::{ImageOptions, LogOptions};
use crate::log::FRAME_BYTES_MAX;
use tideline_base::bounds::Bounds;
use tideline_base::metrics::Metrics;

/// Limits of a partition. Every unit is in its field's name.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many partitions a new data directory gets; 0 = one. One that is there keeps those that it has.
    pub partitions: u16,
    /// Closures in one batch at most.
    pub batch_jobs_max: usize,
    /// Payload bytes after which a batch is closed.
    pub batch_bytes_max: usize,
    /// Bytes of keys and values after which a memtable is frozen.
    pub memtable_bytes: usize,
    /// Age after which a memtable is frozen, ms.
    pub memtable_age_ms: u64,
    /// Bytes of the disk that a partition keeps for making room on a full one; 0 = none. With a reserve, memtables,
    /// segments and parts are kept small on a small disk, so that it is enough for flushing and merging them.
    pub reserve_bytes: u64,
    /// Whether the log keeps everything from the start until every holder has called [`super::Tail::hold`].
    pub holds_log: bool,
    /// Of the commit log.
    pub log: LogOptions,
    /// Of the image.
    pub image: ImageOptions,
    /// Where figures go.
    pub metrics: Arc<Metrics>,
    /// What callers may hold, for the layers above.
    pub bounds: Arc<Bounds>,
    /// A promise to break, for the controls of tests.
    #[cfg(any(test, feature = "faults"))]
    pub fault: Option<Fault>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            partitions: 0,
            batch_jobs_max: BATCH_JOBS,
            batch_bytes_max: BATCH_BYTES,
            memtable_bytes: 128 << 20,
            memtable_age_ms: 600_000,
            // A server's default is with its settings; a directory of a test needs none.
            reserve_bytes: 0,
            holds_log: false,
            log: LogOptions::default(),
            image: ImageOptions::default(),
            metrics: Arc::default(),
            bounds: Arc::default(),
            #[cfg(any(test, feature = "faults"))]
            fault: Fault::from_environment(),
        }
    }
}

/// Writes of one commit at most. Hundreds share a sync's cost well; more only make the first one wait for its answer.
pub const BATCH_JOBS: usize = 4_096;
/// Payload bytes after which a commit is closed, for the same reason.
const BATCH_BYTES: usize = 4 << 20;
const _: () = assert!(
    BATCH_BYTES <= FRAME_BYTES_MAX / 2,
    "a full commit and one more write are a frame that the log takes"
);

/// What a log keeps for the frames of trims and deletions on a full disk: some thousands of them.
const ROOM_BYTES: u64 = 1 << 20;

impl Options {
    /// Bytes of log after which a memtable is frozen; a restart replays about as much. Twice the memtable, so that
    /// only writes which replace each other again and again, and so take log but no memory, come to it.
    pub(super) fn memtable_log_bytes(&self) -> usize {
        self.memtable_bytes.saturating_mul(2)
    }

    /// How many rows a full memtable holds, about: a message of some 200 bytes and its message ID are two rows. A table
    /// that is made large enough never has a writer wait while it grows.
    pub(super) fn memtable_rows_expected(&self) -> usize {
        self.memtable_bytes / 256
    }

    /// Fits the sizes to a disk of so many bytes with so many partitions: what is flushed or merged in one go must fit
    /// into the reserve, and that is a small part of the disk.
    pub(super) fn fit(&mut self, disk_bytes: u64, partitions: usize) {
        if self.reserve_bytes == 0 {
            return;
        }
        let configured = self.clone();
        let share = (disk_bytes / 64 / partitions.max(1) as u64).max(1 << 20);
        let memory = usize::try_from(share).unwrap_or(usize::MAX);
        self.reserve_bytes = self.reserve_bytes.min(share.saturating_mul(4));
        self.memtable_bytes = self.memtable_bytes.min(memory);
        self.log.segment_bytes = self.log.segment_bytes.min(share);
        // A part of the reserve that the image never gets.
        self.log.room_bytes = ROOM_BYTES
            .min(self.log.segment_bytes)
            .min(self.reserve_bytes / 4);
        self.reserve_bytes -= self.log.room_bytes;
        self.image.part_bytes_max = self.image.part_bytes_max.min(share.max(4 << 20));
        self.image.slice_bytes = self.image.slice_bytes.min((share / 4).max(1 << 20));
        configured.log_changes(self);
    }

    fn log_changes(&self, fitted: &Options) {
        for (name, configured, fits) in [
            ("reserve_bytes", self.reserve_bytes, fitted.reserve_bytes),
            (
                "memtable_bytes",
                self.memtable_bytes as u64,
                fitted.memtable_bytes as u64,
            ),
            (
                "segment_bytes",
                self.log.segment_bytes,
                fitted.log.segment_bytes,
            ),
        ] {
            if fits < configured {
                tracing::info!(
                    name,
                    configured,
                    fits,
                    "the disk is small: less is used than configured"
                );
            }
        }
    }
}

/// What a write is for. The later ones get more of what is kept for a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// It adds something: refused while the disk is full.
    Adds,
    /// It adds what was derived from changes: let through where a partition is about to end, because the end waits for
    /// it.
    Derives,
    /// It derives nothing and only notes how far somebody has come: as [`Purpose::Derives`]. The log can let go then,
    /// so it is let through on a full disk, too, where it gets the log's room. The reserve is not for it: nothing is
    /// trimmed.
    LetsGo,
    /// It makes room: let through on a full disk, where the reserve is for it.
    MakesRoom,
}
