//! A follower's handle on one partition's log.
//!
//! Owns: [`Tail`]. Promises: it shows no batch whose rows a view may not show. Every partition that ever was has one;
//! after a partition has ended nothing new comes. Must not: hold up commits.

use std::sync::Arc;

use tokio::sync::watch;

use super::super::shared::Shared;
use super::super::{Batch, Holder, ReadError};
use super::ended::EndedLog;
use crate::log::LogReader;
use tideline_base::ids::Position;

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Tail {
    position: watch::Receiver<Position>,
    of: Of,
}

/// Whose log it is.
#[derive(Clone)]
enum Of {
    Live(Arc<Shared>),
    Ended(Arc<EndedLog>),
    /// A partition that ended at this position, and whose log is no longer kept.
    Gone(Position),
}

impl Tail {
    pub(in super::super) fn live(partition: Arc<Shared>) -> Tail {
        Tail {
            position: partition.subscribe(),
            of: Of::Live(partition),
        }
    }

    pub(in super::super) fn ended(log: Arc<EndedLog>) -> Tail {
        Tail {
            position: log.end.clone(),
            of: Of::Ended(log),
        }
    }

    pub(in super::super) fn gone(ends: Position) -> Tail {
        Tail {
            position: watch::channel(ends).1,
            of: Of::Gone(ends),
        }
    }

    /// The newest committed and visible position.
    #[must_use]
    pub fn position(&self) -> Position {
        match &self.of {
            Of::Live(partition) => partition.tail(),
            Of::Ended(log) => log.last,
            Of::Gone(ends) => *ends,
        }
    }

    /// Bytes of the batches that were committed since the start.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.of {
            Of::Live(partition) => partition.hold.published_bytes(),
            Of::Ended(_) | Of::Gone(_) => 0,
        }
    }

    /// The partition, if it has not ended.
    pub(in super::super) fn live_partition(&self) -> Option<&Arc<Shared>> {
        match &self.of {
            Of::Live(partition) => Some(partition),
            Of::Ended(_) | Of::Gone(_) => None,
        }
    }

    fn log(&self) -> Option<&LogReader> {
        match &self.of {
            Of::Live(partition) => Some(&partition.log),
            Of::Ended(log) => Some(&log.log),
            Of::Gone(_) => None,
        }
    }

    /// Has the log keep every batch above a position, whatever its age and the log's size, until the holder's next
    /// call; `None` = the holder needs nothing of it. See `Options::holds_log` for the time before the first one.
    pub fn hold(&self, holder: Holder, above: Option<Position>) {
        if let Of::Live(partition) = &self.of {
            match above {
                Some(above) => partition.hold.set(holder, above),
                None => partition.hold.let_go(holder),
            }
        }
    }

    /// Up to here the holders are to let go, if they can: the log had no room for the batch but what is kept
    /// for making room.
    #[must_use]
    pub fn asked(&self) -> Position {
        match &self.of {
            Of::Live(partition) => partition.hold.asked(),
            Of::Ended(_) | Of::Gone(_) => Position::ZERO,
        }
    }

    /// The first position that the log keeps, or will have.
    #[must_use]
    pub fn first(&self) -> Position {
        let none = match self.of {
            Of::Gone(ends) => ends.next(),
            Of::Live(_) | Of::Ended(_) => Position(1),
        };
        self.pieces().first().map_or(none, |(first, _)| *first)
    }

    /// The pieces in which the log keeps and lets go, oldest first: each one's first position and bytes.
    #[must_use]
    pub fn pieces(&self) -> Vec<(Position, u64)> {
        self.log().map_or_else(Vec::new, LogReader::pieces)
    }

    /// The first batch that was committed at or after a time, µs since 1970; the one behind the tail if there is none.
    /// May block on the disk.
    pub fn since(&self, commit_us: u64) -> Result<Position, ReadError> {
        let Some(log) = self.log() else {
            return Ok(self.position().next());
        };
        let since = log.since(commit_us);
        let since = since.map_err(|error| ReadError::new(error.to_string()))?;
        // No further than a view shows.
        Ok(since.min(self.position().next()))
    }

    /// Waits until the tail is past `position`; `false` once the partition has closed. What waits holds nothing of the
    /// partition, which may end meanwhile. Cancel-safe.
    pub fn past(&self, position: Position) -> impl Future<Output = bool> + Send + use<> {
        let mut tails = self.position.clone();
        async move { tails.wait_for(|tail| *tail > position).await.is_ok() }
    }

    /// Committed batches above `position` in order, from memory where they still are, else from disk; at least one if
    /// there is one, then up to about `bytes_max`. May block on the disk: `Err` also if retention has removed them.
    pub fn batches(
        &self,
        position: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        match &self.of {
            Of::Live(partition) => partition.batches(position, bytes_max),
            Of::Ended(log) => log.batches(position, bytes_max),
            Of::Gone(ends) if position >= *ends => Ok(Vec::new()),
            Of::Gone(_) => Err(ReadError::new(
                "the log of a partition that ended is gone".to_owned(),
            )),
        }
    }

    /// The same from memory; `None` = the disk has to be read for it. Never blocks on the disk.
    #[must_use]
    pub fn recent(&self, position: Position, bytes_max: usize) -> Option<Vec<Arc<Batch>>> {
        match &self.of {
            Of::Live(partition) => partition.recent(position, bytes_max),
            Of::Ended(log) => log.log.recent(position, bytes_max),
            Of::Gone(ends) => (position >= *ends).then(Vec::new),
        }
    }

    /// [`Tail::batches`] for a task, which must not block: near the end they are in memory; further back it may be the
    /// disk, which is for another thread.
    pub async fn next(
        &self,
        position: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        if let Some(batches) = self.recent(position, bytes_max) {
            return Ok(batches);
        }
        let tail = self.clone();
        let read = tokio::task::spawn_blocking(move || tail.batches(position, bytes_max));
        read.await.unwrap_or_else(|error| {
            let text = format!("the read of the log failed: {error}");
            Err(ReadError::new(text))
        })
    }

    /// The age of the oldest batch above a position, ms; 0 = there is none. May block on the disk.
    #[must_use]
    pub fn age_ms(&self, position: Position, now_ms: u64) -> u64 {
        let is_behind = position < self.position();
        let next = is_behind.then(|| self.batches(position, 1).ok()).flatten();
        let since_ms = next.and_then(|batches| Some(batches.first()?.commit_ms));
        since_ms.map_or(0, |since| now_ms.saturating_sub(since))
    }
}
