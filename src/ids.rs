//! Newtypes that every layer names: partitions, positions, tables, the kinds of an entry, the clock.
//!
//! Owns: identity and time. Promises: each type is a plain number with a fixed text form; nothing here allocates a
//! store or touches a disk. Must not: import anything of the project.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
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

/// What an entry does to its key. The numbers are part of the formats on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The whole row: masks everything older.
    Put = 1,
    /// A change of some cells of whatever is older.
    Delta = 2,
    /// The row is gone: masks everything older.
    Tombstone = 3,
}

impl EntryKind {
    /// The kind with this number on disk.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<EntryKind> {
        match byte {
            1 => Some(EntryKind::Put),
            2 => Some(EntryKind::Delta),
            3 => Some(EntryKind::Tombstone),
            _ => None,
        }
    }
}

/// Where "now" comes from: the system's clock, or one that a test moves by hand.
#[derive(Debug, Default)]
pub struct Clock {
    /// 0 = the system's clock; else the fixed time in ms.
    fixed_ms: AtomicU64,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stands at `now_ms` until `set` moves it.
    #[must_use]
    pub fn fixed(now_ms: u64) -> Clock {
        Clock {
            fixed_ms: AtomicU64::new(now_ms),
        }
    }

    /// Moves a fixed clock, also backwards.
    pub fn set(&self, now_ms: u64) {
        self.fixed_ms.store(now_ms, Ordering::SeqCst);
    }

    /// Milliseconds since 1970. May go backwards; who needs more keeps a maximum.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // the one place that asks the system
    pub fn now_ms(&self) -> u64 {
        match self.fixed_ms.load(Ordering::Relaxed) {
            0 => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| {
                    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
                }),
            fixed => fixed,
        }
    }
}
