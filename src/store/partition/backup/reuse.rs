//! What a new backup shares with the one before: files that are the same, under a second name.
//!
//! Owns: the links, and whether a log goes on from what the backup before has of it. Promises: each backup has all of
//! its files by itself, so that any of them can be removed; a file that was changed since, or that the disk gives no
//! second name, is not shared. Must not: decide what is copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::directory::partition_folder;
use super::BACKUP_DATA;
use super::manifest::{BackupManifest, BackupPartition, ListedFile};
use crate::log::{self, Frame, LocalStorage, LogReadError, LogReader, segment_name};
use tideline_base::ids::{PartitionId, Position};

/// Where a backup has a partition's log, below its own folder.
pub(super) fn log_folder(id: PartitionId) -> PathBuf {
    partition_folder(Path::new(BACKUP_DATA), id).join("log")
}

/// The backup before.
pub(super) struct Before {
    path: PathBuf,
    manifest: BackupManifest,
}

impl Before {
    pub(super) fn new(path: PathBuf, manifest: BackupManifest) -> Before {
        Before { path, manifest }
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

    /// Whether a partition's log, which lies in a folder, goes on from what this backup has of it: one that was set
    /// back to an earlier copy and written to since has the same ID, and other batches. That of a partition which had
    /// ended does not change.
    pub(super) fn leads_to(&self, id: PartitionId, log: &LogReader, folder: &Path) -> bool {
        let is_same = |then: BackupPartition| {
            let frame = frame_at(log, Position(then.position)).ok().flatten();
            frame.is_some_and(|frame| frame.crc() == then.last_crc)
        };
        let identity = |folder: &Path| {
            let storage = LocalStorage::read_only(folder).ok()?;
            log::identity(&storage).ok()
        };
        let then = identity(&self.path.join(log_folder(id)));
        self.partition(id).is_none_or(is_same) && then.is_some() && then == identity(folder)
    }

    /// The segments of a partition's log with their bytes, in order; before them those of this backup that have been
    /// trimmed since, from the last batch that its image covers on.
    pub(super) fn segments(
        &self,
        id: PartitionId,
        log: &LogReader,
        covered: Position,
    ) -> Vec<(Position, u64)> {
        let kept = log.pieces();
        let first = kept.first().map_or(Position::ZERO, |(first, _)| *first);
        let folder = log_folder(id);
        let there = LocalStorage::read_only(self.path.join(&folder)).ok();
        let there = there.and_then(|storage| log::segment_firsts(&storage).ok());
        let trimmed = there.unwrap_or_default().into_iter();
        let listed = trimmed.filter_map(|begins| {
            let path = folder.join(segment_name(begins));
            Some((begins, self.manifest.file(&path)?.bytes))
        });
        let mut segments: Vec<_> = listed.filter(|(begins, _)| *begins < first).collect();
        // With the batch at that position, from whose time on the backup can be restored to a point.
        let behind = segments.partition_point(|(begins, _)| *begins <= covered);
        segments.drain(..behind.saturating_sub(1));
        segments.extend(kept);
        segments
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

/// A batch, if there is one at that position.
pub(super) fn frame_at(log: &LogReader, at: Position) -> Result<Option<Arc<Frame>>, LogReadError> {
    if at == Position::ZERO {
        return Ok(None);
    }
    let frames = log.read(Position(at.0 - 1), 1)?;
    let first = frames.into_iter().next();
    Ok(first.filter(|frame| frame.position == at))
}
