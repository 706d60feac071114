//! The log of a partition that has ended, for its last readers.
//!
//! Owns: what is open of it. Promises: it ends where the directory says that it does, and never changes. Must not: be
//! written to.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::super::directory::map::Share;
use super::super::shared::Shared;
use super::super::{Batch, LogOptions, OpenError, ReadError};
use crate::log::{LocalStorage, Log, LogReader};
use tideline_base::ids::Position;

/// Such a log.
pub(in super::super) struct EndedLog {
    pub(in super::super) log: LogReader,
    pub(in super::super) last: Position,
    /// Nothing comes any more.
    pub(in super::super) end: watch::Receiver<Position>,
}

impl EndedLog {
    /// Opens the log of a share that has ended.
    pub(in super::super) fn open(
        folder: &Path,
        options: LogOptions,
        share: &Share,
    ) -> Result<EndedLog, OpenError> {
        let last = share.ends.unwrap_or_default();
        let storage =
            LocalStorage::new(folder).map_err(|error| OpenError::from_io("open", folder, error))?;
        let within = |error| OpenError::from(error).within(folder);
        let (log, _) = Log::open(Arc::new(storage), options, last).map_err(within)?;
        if log.settled() != last {
            return Err(OpenError::DoesNotFit {
                text: format!(
                    "the log in {} ends with {}, but its partition ended with {last}",
                    folder.display(),
                    log.settled()
                ),
            });
        }
        let opened = EndedLog {
            log: log.reader(),
            last,
            end: watch::channel(last).1,
        };
        log.close().map_err(within)?;
        Ok(opened)
    }

    /// The log of a partition that has just ended; it is open already.
    pub(in super::super) fn of(partition: &Shared) -> EndedLog {
        let last = partition.tail();
        EndedLog {
            log: partition.log.clone(),
            last,
            end: watch::channel(last).1,
        }
    }

    pub(in super::super) fn batches(
        &self,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        let batches = self.log.read(after, bytes_max);
        batches.map_err(|error| ReadError::new(error.to_string()))
    }
}
