//! How much of a backup is restored: up to its end, to a time, or to a position.
//!
//! Owns: which of these a backup reaches. Promises: one that it does not reach is refused with the first or last that
//! it does. Must not: open a log.

use super::manifest::BackupManifest;
use super::{BackupError, time_text};
use crate::log::Frame;
use tideline_base::ids::{PartitionId, Position};

/// How much of a backup is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePoint {
    /// All.
    End,
    /// What was committed until then, ms since 1970.
    Time(u64),
    /// Of a partition what it has up to a position, of the others what was committed until that position was.
    Position(PartitionId, Position),
}

/// Where a log is cut.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    Time(u64),
    Position(Position),
}

impl Cut {
    /// Whether a batch is behind it.
    pub(super) fn leaves_out(self, frame: &Frame) -> bool {
        match self {
            // Times do not fall from frame to frame.
            Cut::Time(to_ms) => frame.commit_ms > to_ms,
            Cut::Position(last) => frame.position > last,
        }
    }
}

/// Refuses a point that the backup does not reach.
pub(super) fn check_point(
    manifest: &BackupManifest,
    point: RestorePoint,
) -> Result<(), BackupError> {
    match point {
        RestorePoint::End => Ok(()),
        RestorePoint::Time(to_ms) => check_time(manifest, to_ms),
        RestorePoint::Position(id, position) => check_position(manifest, id, position),
    }
}

fn check_time(manifest: &BackupManifest, to_ms: u64) -> Result<(), BackupError> {
    let from_ms = manifest.partitions.iter().map(|one| one.from_ms).max();
    let from_ms = from_ms.unwrap_or(0);
    match to_ms {
        _ if to_ms < from_ms => Err(BackupError::refused(format!(
            "the backup can be restored to a time from {} on, not to {}; take an older backup",
            time_text(from_ms),
            time_text(to_ms)
        ))),
        _ if to_ms > manifest.as_of_ms => Err(BackupError::refused(format!(
            "the backup ends at {}, before {}; take a later one, or leave the time out",
            time_text(manifest.as_of_ms),
            time_text(to_ms)
        ))),
        _ => Ok(()),
    }
}

fn check_position(
    manifest: &BackupManifest,
    id: PartitionId,
    at: Position,
) -> Result<(), BackupError> {
    let Some(one) = manifest.partitions.iter().find(|one| one.partition == id.0) else {
        let ids = manifest
            .partitions
            .iter()
            .map(|one| one.partition.to_string());
        return Err(BackupError::refused(format!(
            "the backup has no partition {id}; it has {}",
            ids.collect::<Vec<_>>().join(", ")
        )));
    };
    match at.0 {
        _ if at.0 < one.covered => Err(BackupError::refused(format!(
            "partition {id} can be restored to a position from {} on, not to {at}; take an older backup",
            one.covered
        ))),
        _ if at.0 > one.position => Err(BackupError::refused(format!(
            "partition {id} ends with position {} in the backup, before {at}; take a later one",
            one.position
        ))),
        _ => Ok(()),
    }
}

/// The refusal of a point at which nothing of a partition's log would be left. The log's first batch has this position
/// and this time.
pub(super) fn before_log(id: PartitionId, (first, first_ms): (Position, u64)) -> BackupError {
    BackupError::refused(format!(
        "the log of partition {id} begins with position {first}, and the partition can be restored to a position from {first} on, or to a time from {} on; take an older backup",
        time_text(first_ms)
    ))
}

/// Refuses a position whose batch was committed before the image of another partition was written.
pub(super) fn check_time_of(
    (id, at): (PartitionId, Position),
    time: u64,
    manifest: &BackupManifest,
) -> Result<(), BackupError> {
    let late = manifest.partitions.iter().max_by_key(|one| one.from_ms);
    match late.filter(|late| late.from_ms > time) {
        Some(late) => Err(BackupError::refused(format!(
            "{id}:{at} was committed at {}, and partition {} can be restored to a time from {} on; name a later position, or take an older backup",
            time_text(time),
            late.partition,
            time_text(late.from_ms)
        ))),
        None => Ok(()),
    }
}
