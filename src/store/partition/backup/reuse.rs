//! What a new backup shares with the one before: files that are the same, under a second name.
//!
//! Owns: the links. Promises: each backup has all of its files by itself, so that any of them can be removed; a file
//! that was changed since, or that the disk gives no second name, is not shared. Must not: decide which files are the
//! same.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::{BackupManifest, BackupPartition, ListedFile};
use tideline_base::ids::PartitionId;

/// The backup before.
pub(super) struct Before {
    path: PathBuf,
    manifest: BackupManifest,
}

impl Before {
    pub(super) fn new(path: PathBuf, manifest: BackupManifest) -> Before {
        Before { path, manifest }
    }

    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it has of a partition.
    pub(super) fn partition(&self, id: PartitionId) -> Option<BackupPartition> {
        let mut partitions = self.manifest.partitions.iter();
        partitions.find(|one| one.partition == id.0).copied()
    }

    /// Whether it has a file.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.manifest.file(path).is_some()
    }

    /// Gives a file of it a name in another backup, too; `None` = that can't be.
    pub(super) fn link(&self, path: &Path, to: &Path) -> Option<(String, ListedFile)> {
        let file = self.manifest.file(path)?;
        let (from, to) = (self.path.join(path), to.join(path));
        let is_whole = fs::metadata(&from).is_ok_and(|found| found.len() == file.bytes);
        if !is_whole {
            return None;
        }
        fs::create_dir_all(to.parent()?).ok()?;
        fs::hard_link(from, to).ok()?;
        Some((file.path.clone(), file.clone()))
    }
}
