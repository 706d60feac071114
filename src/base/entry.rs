//! Entries: what a batch says of a key, from a closure by way of log and memtable to a run.
//!
//! Owns: the kinds of an entry and their numbers, which are part of the formats on disk. Must not: know what a value
//! means, or import anything of the project.

use bytes::Bytes;

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

/// An entry of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it does to what is older.
    pub kind: EntryKind,
    /// The row of a put, the changed cells of a delta; empty for a tombstone.
    pub value: Bytes,
}

impl Entry {
    /// A whole row.
    #[must_use]
    pub fn put(value: Bytes) -> Entry {
        Entry {
            kind: EntryKind::Put,
            value,
        }
    }

    /// The end of a row.
    #[must_use]
    pub fn tombstone() -> Entry {
        Entry {
            kind: EntryKind::Tombstone,
            value: Bytes::new(),
        }
    }
}

/// An entry with its key, both still somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedEntry<'a> {
    /// The row's key.
    pub key: &'a [u8],
    /// What the entry does.
    pub kind: EntryKind,
    /// The row of a put, the changed cells of a delta; empty for a tombstone.
    pub value: &'a [u8],
}

impl KeyedEntry<'_> {
    /// The entry by itself, copied.
    #[must_use]
    pub fn to_entry(self) -> Entry {
        Entry {
            kind: self.kind,
            value: Bytes::copy_from_slice(self.value),
        }
    }
}
