//! What a repair asks of a log.
//!
//! Owns: these figures. Promises: a log that is damaged anywhere gives none. Must not: change it.

use std::path::Path;

use super::super::OpenError;
use crate::log::{self, LocalStorage, segment_firsts};
use tideline_base::ids::{HistoryId, Position};

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
