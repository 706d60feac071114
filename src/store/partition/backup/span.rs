//! What a repair asks of a log, and of a backup.
//!
//! Owns: these figures, and whether log and backup fit each other. Promises: what is damaged anywhere gives none. Must
//! not: change either.

use std::path::{Path, PathBuf};

use super::super::OpenError;
use super::super::directory::inspection::Inspection;
use super::super::directory::partition_folder;
use super::manifest::{BackupManifest, BackupPartition};
use super::progress::Progress;
use super::{BACKUP_DATA, BackupError};
use crate::log::{self, LocalStorage, segment_firsts};
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// A log that was read from one end to the other.
pub(super) struct Span {
    pub(super) id: HistoryId,
    pub(super) first: Position,
    pub(super) last: Position,
    /// The checksum of the batch that was asked for.
    pub(super) crc: Option<u32>,
}

impl Span {
    /// Reads the log in a folder; `at` is the batch whose checksum is asked for.
    pub(super) fn read(folder: &Path, at: Option<Position>) -> Result<Span, OpenError> {
        let storage = LocalStorage::read_only(folder)
            .map_err(|error| OpenError::from_io("open", folder, error))?;
        let firsts = segment_firsts(&storage)?;
        let first = firsts.first().copied().unwrap_or(Position(1));
        let mut crc = None;
        let report = log::verify(&storage, Position(first.0 - 1), &mut |frame| {
            if Some(frame.position) == at {
                crc = Some(frame.crc());
            }
        })?;
        Ok(Span {
            id: log::identity(&storage)?,
            first,
            last: report.last,
            crc,
        })
    }
}

/// A backup of this directory's history, held against its checksums.
pub(super) fn open_backup(
    from: &Path,
    inspection: &Inspection,
) -> Result<(PathBuf, BackupManifest), BackupError> {
    let manifest = BackupManifest::read(from)?;
    let history = inspection.origin().history.to_string();
    if manifest.history != history {
        return Err(BackupError::refused(format!(
            "{} is a backup of history {}, and the directory has history {history}; name a backup of this directory",
            from.display(),
            manifest.history
        )));
    }
    manifest.check_files(from, &Progress::new(0))?;
    Ok((from.join(BACKUP_DATA), manifest))
}

/// What a backup gives, if the directory's log goes on from it; else why it does not.
pub(super) fn of_backup(
    data: &Path,
    of: Option<BackupPartition>,
    (id, span): (PartitionId, &Span),
) -> Result<Result<(PathBuf, BackupPartition), String>, BackupError> {
    let refused = |why: &str| Ok(Err(why.to_owned()));
    let Some(of) = of else {
        return refused("it does not have the partition");
    };
    let theirs = Span::read(&partition_folder(data, id).join("log"), None)?;
    let (end, first) = (of.position, span.first.0);
    if theirs.id != span.id {
        return refused("it is of another log");
    }
    if end + 1 < first {
        return refused(&format!(
            "it ends with batch {end}, and the log begins with {first}, so batches {} to {} are in neither",
            end + 1,
            first - 1
        ));
    }
    if end >= first && span.crc != Some(of.last_crc) {
        return refused("the log has other batches, or fewer, than the backup");
    }
    Ok(Ok((data.to_owned(), of)))
}
