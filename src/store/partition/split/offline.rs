//! A split or merge of a directory that nobody serves: the children are made whole, and count from the next opening on.
//!
//! Owns: what a change takes of the disk, and the change of a directory that nobody serves. Promises: the parents are
//! not changed; whenever the process ends, the next start finds all parents or all children, whole; a row that belongs
//! to no partition, or lies in the wrong one, ends the change before a child counts. Must not: know what a row means
//! (the rules say where it belongs), or wait for what must be done before (the relay, long work).

use std::fmt;

use tokio_util::sync::CancellationToken;

use super::super::{OpenError, Partitions};
use super::inherited::refused;
use super::making::Making;
use super::plan::Reshape;
use tideline_base::ids::PartitionId;

/// What a reshape would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How many partitions end.
    pub ending: usize,
    /// Bytes that are to be written, about.
    pub bytes: u64,
    /// Bytes that there is room for on the disk; `None` = it does not say.
    pub room: Option<u64>,
}

impl Estimate {
    /// Refuses what there is no room for.
    pub fn check(&self) -> Result<(), OpenError> {
        let needed = self.bytes + self.bytes / 8 + ROOM_BYTES;
        match self.room {
            Some(room) if room < needed => Err(refused(format!(
                "{needed} bytes are needed, and the disk has room for {room}"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate {
            ending,
            bytes,
            room,
        } = self;
        let end = match ending {
            1 => "partition ends",
            _ => "partitions end",
        };
        write!(out, "{ending} {end}; about {bytes} bytes are written anew")?;
        match room {
            Some(room) => write!(out, ", the disk has room for {room}"),
            None => Ok(()),
        }
    }
}

/// Beside the rows: what new files take, and what the rest of the server may write meanwhile.
const ROOM_BYTES: u64 = 64 << 20;

impl Partitions {
    /// What a reshape would take. May block on the disk.
    #[must_use]
    pub fn estimate(&self, reshape: &Reshape) -> Estimate {
        let parents = reshape.parents(&self.map());
        let mut estimate = Estimate {
            ending: parents.len(),
            bytes: 0,
            room: None,
        };
        for parent in parents {
            estimate.bytes += self.bytes_of(parent);
            estimate.room = tideline_base::disk::free(&self.directory().log(parent));
        }
        estimate
    }

    /// About how many bytes the rows of a partition take. May block on the disk.
    #[must_use]
    pub fn bytes_of(&self, partition: PartitionId) -> u64 {
        let figures = self.at(partition).map(|partition| partition.figures());
        figures.map_or(0, |figures| {
            figures.image.bytes_used + figures.memtable_bytes as u64
        })
    }

    /// How many bytes the log of a partition takes, also of one that has ended. May block on the disk.
    #[must_use]
    pub fn log_bytes(&self, partition: PartitionId) -> u64 {
        let pieces = self.log(partition).map(|log| log.pieces());
        pieces
            .unwrap_or_default()
            .iter()
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Makes the partitions own other ranges from the next opening on. Until then these go on, but whatever is written
    /// from now on is lost: nothing must be. The relay must be through, and so must be what is long work of it. With
    /// `keeps_logs` the logs of those that end stay, for readers of streams. Blocks.
    pub fn reshape(&self, reshape: &Reshape, keeps_logs: bool) -> Result<(), OpenError> {
        if reshape.parents(&self.map()).is_empty() {
            return Ok(());
        }
        let mut making = Making::begin(self, reshape, CancellationToken::new())?;
        let outcome = making.complete(keeps_logs)?;
        making.done();
        self.directory().replace(outcome.map)
    }
}
