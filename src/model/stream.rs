//! Streams of tables: what is asked of one, what the catalog keeps of it, and the changes that its readers get.
//!
//! Owns: the rules of a stream's definition (its JSON is a format on disk), and a change as it leaves the log,
//! borrowed. Promises: what [`StreamSpec::new`] gives keeps every documented rule. Must not: know where changes are
//! stored.

use serde::{Deserialize, Serialize};

use super::limits::{DEFINED_COLUMNS_MAX, VERSION_BYTES};
use super::{Cell, Error, KeyColumn, KeyValue, check_column_name, key_size};
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// A stream's changes are kept for this many hours at most.
pub const STREAM_HOURS_MAX: u32 = 168;

/// A stream as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    hours: u32,
    original_columns: Vec<String>,
}

impl StreamSpec {
    /// A stream whose changes are kept for `hours` at least, each with the values that these columns had before it.
    pub fn new(hours: i64, original_columns: Vec<String>) -> Result<StreamSpec, Error> {
        let hours = u32::try_from(hours).ok();
        let hours = hours.filter(|hours| (1..=STREAM_HOURS_MAX).contains(hours));
        if original_columns.len() > DEFINED_COLUMNS_MAX {
            return Err(Error::StreamColumnCount);
        }
        for name in &original_columns {
            check_column_name(name)?;
        }
        Ok(StreamSpec {
            hours: hours.ok_or(Error::InvalidStreamHours)?,
            original_columns,
        })
    }
}

/// A table's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Never used again: not by the same table either.
    pub id: String,
    /// For how many hours its changes are kept at least.
    pub hours: u32,
    /// Each change tells what these columns held before it.
    #[serde(default)]
    pub original_columns: Vec<String>,
    /// When it was enabled, µs since 1970.
    pub enabled_us: u64,
    /// By partition: the stream begins behind this position of its log. [`u64::MAX`]: the partition had gone.
    pub after: Vec<u64>,
}

const GONE: u64 = u64::MAX;

impl Stream {
    /// Behind which position of a partition's log its changes begin; `None` = the partition had gone before.
    #[must_use]
    pub fn behind(&self, partition: PartitionId) -> Option<Position> {
        match self.after.get(usize::from(partition.0)) {
            Some(&GONE) => None,
            Some(after) => Some(Position(*after)),
            // It was born later.
            None => Some(Position::ZERO),
        }
    }

    /// [`Stream::after`] of a stream that begins behind these positions, of all partitions that there are.
    pub fn all_behind(ends: impl Iterator<Item = (PartitionId, Position)>) -> Vec<u64> {
        let mut after = Vec::new();
        for (partition, end) in ends {
            let at = usize::from(partition.0);
            after.resize(after.len().max(at + 1), GONE);
            after[at] = end.0;
        }
        after
    }

    /// A table's stream when it is asked to be so: the one that it has goes on, a new one has a name that no other has
    /// and begins behind these positions.
    #[must_use]
    pub fn asked(
        known: Option<Stream>,
        asked: Option<StreamSpec>,
        now_us: u64,
        after: Vec<u64>,
    ) -> Option<Stream> {
        let StreamSpec {
            hours,
            original_columns,
        } = asked?;
        let new = || Stream {
            id: HistoryId::random().to_string(),
            hours,
            original_columns: Vec::new(),
            enabled_us: now_us,
            after,
        };
        Some(Stream {
            hours,
            original_columns,
            ..known.unwrap_or_else(new)
        })
    }
}

/// What a change did to its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It became these cells and nothing else.
    Put,
    /// Some cells changed.
    Update,
    /// It went.
    Delete,
}

/// A cell of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangedCell<'a> {
    /// A version was written.
    Put(Cell<'a>),
    /// A version went.
    DeleteOne {
        /// The column.
        name: &'a str,
        /// The version.
        version: i64,
    },
    /// All versions went.
    DeleteAll {
        /// The column.
        name: &'a str,
    },
}

/// A change of a row; borrows the log.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRef<'a> {
    /// What was done.
    pub kind: ChangeKind,
    /// When it was committed, µs since 1970. The changes of one shard with one time are of one commit.
    pub time_us: u64,
    /// Its number among the table's changes of its commit, from 0.
    pub index: u32,
    /// The table's primary key columns.
    pub columns: &'a [KeyColumn],
    /// The values of the primary key.
    pub key: &'a [KeyValue],
    /// What changed: columns in the order of their names, versions newest first.
    pub cells: &'a [ChangedCell<'a>],
    /// What the stream's original columns held before; `None` = there was no row, or it was not asked for.
    pub original: Option<&'a [Cell<'a>]>,
}

/// Takes the changes that a read finds, while they can be read.
pub trait ChangeSink: Default + Send + 'static {
    /// Takes a change.
    fn push(&mut self, change: ChangeRef<'_>);
}

impl ChangeRef<'_> {
    /// How many bytes it counts.
    #[must_use]
    pub fn size(&self) -> usize {
        let cell = |cell: &ChangedCell<'_>| match cell {
            ChangedCell::Put(cell) => cell.size(VERSION_BYTES),
            ChangedCell::DeleteOne { name, .. } => name.len() + VERSION_BYTES,
            ChangedCell::DeleteAll { name } => name.len(),
        };
        let original = self.original.unwrap_or_default().iter();
        let original = original.map(|cell| cell.size(VERSION_BYTES));
        let cells = self.cells.iter().map(cell);
        key_size(self.columns, self.key) + cells.chain(original).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_a_bounded_life_and_legal_columns() {
        for hours in [i64::MIN, -1, 0, 169, i64::MAX] {
            let refused = StreamSpec::new(hours, Vec::new());
            assert_eq!(refused, Err(Error::InvalidStreamHours));
        }
        for hours in [1, 168] {
            assert!(StreamSpec::new(hours, vec!["a".to_owned()]).is_ok());
        }
        let many = vec!["a".to_owned(); DEFINED_COLUMNS_MAX + 1];
        assert_eq!(StreamSpec::new(24, many), Err(Error::StreamColumnCount));
        let name = "#a".to_owned();
        let refused = StreamSpec::new(24, vec![name.clone()]);
        assert_eq!(refused, Err(Error::InvalidColumnName(name)));
    }

    #[test]
    fn a_partition_that_is_born_later_is_read_whole_and_one_that_had_gone_not_at_all() {
        let spec = StreamSpec::new(1, Vec::new()).unwrap();
        let ends = [(3, 7), (1, 9)].map(|(id, end)| (PartitionId(id), Position(end)));
        let after = Stream::all_behind(ends.into_iter());
        let stream = Stream::asked(None, Some(spec), 1, after).unwrap();
        let text = serde_json::to_string(&stream).unwrap();
        let stream: Stream = serde_json::from_str(&text).unwrap();
        let behind = [0, 1, 2, 3, 4].map(|id| stream.behind(PartitionId(id)).map(|at| at.0));
        assert_eq!(behind, [None, Some(9), None, Some(7), Some(0)]);
    }
}
