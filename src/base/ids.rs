//! Newtypes that every layer names: partitions, positions, tables, histories.
//!
//! Owns: identity. Promises: each type is a plain number with a fixed text form; nothing here allocates a store or
//! touches a disk. Must not: import anything of the project.

use std::fmt;

/// One partition of a data directory, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl fmt::Display for PartitionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A batch number in one partition's commit log. The first batch has position 1; 0 is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Before the first batch.
    pub const ZERO: Position = Position(0);

    /// The position after this one. Panics past `u64::MAX`, which no log reaches.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A table of the wide-column layer. IDs are never reused.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct TableId(pub u32);

/// 128 random bits that tell one history of a data directory from another (a restore sets new ones), and one log from
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistoryId(pub [u8; 16]);

impl HistoryId {
    /// A new random ID.
    #[must_use]
    pub fn random() -> HistoryId {
        HistoryId(*uuid::Uuid::new_v4().as_bytes())
    }

    /// Reads the 32 hexadecimal digits that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<HistoryId> {
        uuid::Uuid::try_parse(text)
            .ok()
            .map(|id| HistoryId(*id.as_bytes()))
    }
}

impl fmt::Display for HistoryId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", uuid::Uuid::from_bytes(self.0).simple())
    }
}
