//! Backups of all partitions, made while they are served, and data directories made of backups.
//!
//! A partition is its log and an image of what the log did up to a position. So a backup has, of each partition, a copy
//! of the image and all of the log that is kept, up to one position: it is what `kill -9` would have left there, and
//! the ordinary start recovers it.
//!
//! Owns: what a backup is made of, its manifest, and the way back. Promises: a folder with a manifest is whole, synced
//! and was opened once; a backup that was cut, changed or is from elsewhere is refused; whatever ends it, nothing half
//! done is taken for a backup or a data directory. Must not: hold up writes, or keep a view open for long.

mod job;
mod manifest;
mod place;
mod point;
mod progress;
mod repair;
mod restore;
mod reuse;
mod salvage;
mod secrets;
mod snapshot;
mod span;
mod take;
mod target;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

pub use job::{BackupJob, BackupOptions, BackupOutcome, BackupRefusal, Backups, Elsewhere};
pub use manifest::{BackupManifest, BackupPartition, ListedFile, MANIFEST as BACKUP_MANIFEST};
pub use place::{
    Listed as ListedBackup, listed as listed_backups, prune as prune_backups, remove_place,
};
pub use point::RestorePoint;
pub use progress::{Progress, Stage as BackupStage};
pub use repair::{Repair, RepairFrom, RepairStep};
pub use restore::{Fetched, Restored, restore, restore_fetched};
pub use salvage::Loss;
pub use secrets::{KEYS_FOLDER, Passphrase};
pub use snapshot::{Snapshot, clear_unfinished, install};
pub use take::Backup;

use super::OpenError;

/// Where a backup has the data directory.
pub const BACKUP_DATA: &str = "data";

/// A time as its users write it, as in 2026-11-26T21:30:15.123Z; one without such a text stays ms.
#[must_use]
pub fn time_text(ms: u64) -> String {
    match ms {
        0..YEAR_10000_MS => {
            humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
        }
        _ => format!("{ms} ms"),
    }
}

const YEAR_10000_MS: u64 = 253_402_300_800_000;

/// Why a backup, or a restore, was not done. Nothing of it stays.
#[derive(Debug)]
pub enum BackupError {
    /// It was cancelled.
    Cancelled,
    /// It can't be done as it was asked for.
    Refused {
        /// Why, and what to do.
        text: String,
    },
    /// A file or a store failed.
    Open(OpenError),
}

impl BackupError {
    /// It can't be done, for this reason.
    pub fn refused(text: impl Into<String>) -> BackupError {
        BackupError::Refused { text: text.into() }
    }

    fn io(what: &'static str, path: &Path, error: io::Error) -> BackupError {
        BackupError::Open(OpenError::from_io(what, path, error))
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Cancelled => write!(out, "it was cancelled"),
            BackupError::Refused { text } => out.write_str(text),
            BackupError::Open(OpenError::Refused { text }) => out.write_str(text),
            BackupError::Open(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for BackupError {}

impl<E: Into<OpenError>> From<E> for BackupError {
    fn from(error: E) -> BackupError {
        BackupError::Open(error.into())
    }
}
