//! Parts of a frame's buffer.
//!
//! Owns: how a key or value is named without a copy. Promises: eight bytes each. Must not: hold the buffer; whoever has
//! an extent knows whose it is.

use std::ops::Range;

use tideline_base::entry::{EntryKind, KeyedEntry};

/// A part of a frame's buffer: where it starts and how long it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    start: u32,
    bytes: u32,
}

impl Extent {
    pub(super) fn new(start: usize, bytes: usize) -> Extent {
        let number = |size: usize| u32::try_from(size).expect("a frame is far below 4 GiB");
        Extent {
            start: number(start),
            bytes: number(bytes),
        }
    }

    /// How long it is.
    pub(crate) fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Its place in the buffer.
    pub(crate) fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.bytes as usize
    }
}

/// Where an entry's key and value are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryExtent {
    pub(crate) kind: EntryKind,
    pub(crate) key: Extent,
    pub(crate) value: Extent,
}

impl EntryExtent {
    pub(super) fn of(self, buffer: &[u8]) -> KeyedEntry<'_> {
        KeyedEntry {
            key: &buffer[self.key.range()],
            kind: self.kind,
            value: &buffer[self.value.range()],
        }
    }
}
