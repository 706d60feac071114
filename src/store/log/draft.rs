//! The batch that is being filled, in place as the frame that it becomes.
//!
//! Owns: the bytes of the next frame, each key and value copied once. Promises: what was added since [`Draft::keep`]
//! can be taken back; a sealed frame has the entries in the order in which their keys came. Must not: look for a key
//! (the partition does), or know how large a frame may be before it is sealed.
//!
//! Frames lie one behind the other in chunks. A chunk of which nobody has a frame any more is used again: memory fresh
//! from the system would have to be cleared first.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use super::extent::{EntryExtent, Extent};
use super::frame::{self, Frame, HEADER_BYTES, Header};
use super::squeeze::squeeze;
use crate::squeeze::varint::{VARINT_BYTES_MAX, put_varint, varint_bytes};
use tideline_base::entry::{EntryKind, KeyedEntry};

/// Small frames share allocations of this size.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Full chunks that are remembered for reuse: what memtables have of them, and the newest frames that stay in memory.
const CHUNKS_MAX: usize = 256;

/// A batch is expected to become as large as the last one, but not larger than this: some are much larger than most.
const EXPECTED_BYTES_MAX: usize = 8 * CHUNK_BYTES;

/// A payload that gets smaller by less than this part is left as it is, which is cheaper to read.
const SAVED_PART: usize = 16;

/// In front of the entries: the header and their count, which is written last and may be shorter.
const FRONT_BYTES: usize = HEADER_BYTES + VARINT_BYTES_MAX;

/// The next batch.
pub(crate) struct Draft {
    buffer: BytesMut,
    /// What is left of full chunks, oldest first.
    full: VecDeque<BytesMut>,
    entries: Vec<EntryExtent>,
    /// Change records, each behind its length, as they will follow the entries.
    changes: Vec<u8>,
    change_count: usize,
    /// The entries do not lie one behind the other in `buffer`: a value was replaced by one of another length.
    is_scattered: bool,
    kept: Kept,
    /// What was replaced since, oldest first.
    replaced: Vec<Replaced>,
    /// The values that were overwritten.
    overwritten: Vec<u8>,
    /// How long the last frame was.
    last_bytes: usize,
    /// The last frame in fewer bytes; its memory is used again.
    squeezed: Bytes,
}

/// How far a draft was when it was last kept.
#[derive(Clone, Copy, Default)]
struct Kept {
    bytes: usize,
    entries: usize,
    changes: usize,
    change_count: usize,
    is_scattered: bool,
}

/// An entry before it was replaced.
struct Replaced {
    entry: usize,
    before: EntryExtent,
    /// Where in `overwritten` its value is, if it was overwritten.
    value: Option<usize>,
}

impl Default for Draft {
    fn default() -> Draft {
        let mut draft = Draft {
            buffer: BytesMut::with_capacity(CHUNK_BYTES),
            full: VecDeque::new(),
            entries: Vec::new(),
            changes: Vec::new(),
            change_count: 0,
            is_scattered: false,
            kept: Kept::default(),
            replaced: Vec::new(),
            overwritten: Vec::new(),
            last_bytes: 0,
            squeezed: Bytes::new(),
        };
        draft.clear();
        draft
    }
}

impl Draft {
    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.changes.clear();
        self.change_count = 0;
        self.is_scattered = false;
        self.buffer.clear();
        let expected = FRONT_BYTES.max(self.last_bytes.min(EXPECTED_BYTES_MAX));
        if self.buffer.capacity() < expected {
            let chunk = self.take_chunk(expected);
            let full = std::mem::replace(&mut self.buffer, chunk);
            self.put_away(full);
        }
        self.buffer.put_bytes(0, FRONT_BYTES);
        self.keep();
    }

    /// How many entries there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.change_count == 0
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len() + self.changes.len()
    }

    /// An entry by its number.
    #[must_use]
    pub(crate) fn entry(&self, number: usize) -> KeyedEntry<'_> {
        self.entries[number].of(&self.buffer)
    }

    /// The entries, in the order in which their keys came.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = KeyedEntry<'_>> {
        self.entries.iter().map(|entry| entry.of(&self.buffer))
    }

    /// Adds an entry, whose key must be new.
    pub(crate) fn push(&mut self, entry: KeyedEntry<'_>) {
        let more = 1 + 2 * VARINT_BYTES_MAX + entry.key.len() + entry.value.len();
        self.make_room(more);
        let entry = put_entry(&mut self.buffer, entry);
        self.entries.push(entry);
    }

    /// Gives an entry another kind and value.
    pub(crate) fn replace(&mut self, number: usize, kind: EntryKind, value: &[u8]) {
        let before = self.entries[number];
        let in_place = before.value.bytes() == value.len() && before.kind == kind;
        if number < self.kept.entries {
            let at = self.overwritten.len();
            if in_place {
                let old = &self.buffer[before.value.range()];
                self.overwritten.extend_from_slice(old);
            }
            self.replaced.push(Replaced {
                entry: number,
                before,
                value: in_place.then_some(at),
            });
        }
        if in_place {
            self.buffer[before.value.range()].copy_from_slice(value);
            return;
        }
        self.make_room(value.len());
        let extent = Extent::new(self.buffer.len(), value.len());
        self.buffer.put_slice(value);
        self.is_scattered = true;
        (self.entries[number].kind, self.entries[number].value) = (kind, extent);
    }

    /// Adds an opaque change record.
    pub(crate) fn change(&mut self, record: &[u8]) {
        put_varint(&mut self.changes, record.len());
        self.changes.extend_from_slice(record);
        self.change_count += 1;
    }

    /// The change records, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.changes[..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (mut bytes, mut length_bytes) = (0, 0);
            loop {
                let byte = usize::from(rest[length_bytes]);
                bytes |= (byte & 0x7f) << (7 * length_bytes);
                length_bytes += 1;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let (record, behind) = rest[length_bytes..].split_at(bytes);
            rest = behind;
            Some(record)
        })
    }

    /// What was done so far stays.
    pub(crate) fn keep(&mut self) {
        self.replaced.clear();
        self.overwritten.clear();
        self.kept = Kept {
            bytes: self.buffer.len(),
            entries: self.entries.len(),
            changes: self.changes.len(),
            change_count: self.change_count,
            is_scattered: self.is_scattered,
        };
    }

    /// How many entries stay if the rest is taken back.
    #[must_use]
    pub(crate) fn kept(&self) -> usize {
        self.kept.entries
    }

    /// Bytes of memory that were taken since [`Draft::keep`].
    #[must_use]
    pub(crate) fn bytes_since_kept(&self) -> usize {
        self.bytes() - self.kept.bytes - self.kept.changes + self.overwritten.len()
    }

    /// Whether an entry was replaced or added since [`Draft::keep`].
    #[must_use]
    pub(crate) fn is_changed(&self) -> bool {
        !self.replaced.is_empty() || self.entries.len() > self.kept.entries
    }

    /// Undoes everything since [`Draft::keep`].
    pub(crate) fn take_back(&mut self) {
        while let Some(Replaced {
            entry,
            before,
            value,
        }) = self.replaced.pop()
        {
            self.entries[entry] = before;
            if let Some(at) = value {
                let old = &self.overwritten[at..at + before.value.bytes()];
                self.buffer[before.value.range()].copy_from_slice(old);
            }
        }
        self.entries.truncate(self.kept.entries);
        self.buffer.truncate(self.kept.bytes);
        self.changes.truncate(self.kept.changes);
        self.change_count = self.kept.change_count;
        self.is_scattered = self.kept.is_scattered;
        self.overwritten.clear();
    }

    /// Makes a frame of it and empties it; `None` if that would pass `frame_bytes_max`, and then it stays as it is.
    pub(super) fn seal(&mut self, mut header: Header, frame_bytes_max: usize) -> Option<Frame> {
        if self.is_scattered {
            self.put_in_order();
        }
        let (entries_end, count) = (self.buffer.len(), self.entries.len());
        let start = VARINT_BYTES_MAX - varint_bytes(count);
        let tail_bytes = varint_bytes(self.change_count) + self.changes.len();
        if entries_end - start + tail_bytes > frame_bytes_max {
            return None;
        }
        self.make_room(tail_bytes);
        put_varint(&mut self.buffer, self.change_count);
        let changes = self.put_changes();
        let mut front = &mut self.buffer[start + HEADER_BYTES..FRONT_BYTES];
        put_varint(&mut front, count);
        let squeezed = self.squeeze(start + HEADER_BYTES, &mut header);
        if squeezed.is_none() {
            frame::seal(&mut self.buffer[start..], &mut header);
        }
        self.last_bytes = self.buffer.len();
        let buffer = self.buffer.split().freeze();
        let encoded = squeezed.unwrap_or_else(|| buffer.slice(start..));
        let entries = self.entries.clone();
        self.clear();
        Some(Frame::new(&header, buffer, encoded, entries, changes))
    }

    /// The frame with its payload, which is in the buffer from `from` on, squeezed and sealed; `None` if that saves
    /// little.
    fn squeeze(&mut self, from: usize, header: &mut Header) -> Option<Bytes> {
        let plain = self.buffer.len() - from;
        let free = std::mem::take(&mut self.squeezed).try_into_mut();
        let mut squeezed = free.map(Vec::from).unwrap_or_default();
        squeezed.clear();
        squeezed.reserve(HEADER_BYTES + plain);
        squeezed.resize(HEADER_BYTES, 0);
        let entries = self.entries.iter();
        let entries = entries.map(|entry| (entry.key.range(), entry.value.range()));
        squeeze(&self.buffer, from, entries, &mut squeezed);
        let saves = squeezed.len() - HEADER_BYTES < plain - plain / SAVED_PART;
        if saves {
            frame::seal_squeezed(&mut squeezed, header);
        }
        let squeezed = Bytes::from(squeezed);
        if plain <= EXPECTED_BYTES_MAX {
            self.squeezed = squeezed.clone();
        }
        saves.then_some(squeezed)
    }

    /// Where the change records are, once they are in the buffer.
    fn put_changes(&mut self) -> Vec<Extent> {
        let mut extents = Vec::with_capacity(self.change_count);
        let mut at = self.buffer.len();
        self.buffer.put_slice(&self.changes);
        for record in self.changes() {
            at += varint_bytes(record.len());
            extents.push(Extent::new(at, record.len()));
            at += record.len();
        }
        extents
    }

    /// Lays the entries one behind the other: the one copy more that replacing by another length costs.
    fn put_in_order(&mut self) {
        let scattered = self.buffer.split();
        self.make_room(scattered.len() + self.entries.len() * 2 * VARINT_BYTES_MAX);
        self.buffer.put_bytes(0, FRONT_BYTES);
        for entry in &mut self.entries {
            *entry = put_entry(&mut self.buffer, entry.of(&scattered));
        }
        self.is_scattered = false;
        self.keep();
    }

    /// Gives memory back that only much writing needs.
    pub(crate) fn forget_memory(&mut self) {
        self.full.clear();
        self.squeezed = Bytes::new();
    }

    /// Room for so many bytes more.
    fn make_room(&mut self, more: usize) {
        let bytes = self.buffer.len() + more;
        if self.buffer.capacity() < bytes {
            let mut begun = std::mem::take(&mut self.buffer);
            self.buffer = self.take_chunk(bytes.max(2 * begun.len()));
            self.buffer.put_slice(&begun);
            begun.clear();
            self.put_away(begun);
        }
    }

    /// An empty chunk of at least so many bytes.
    fn take_chunk(&mut self, bytes: usize) -> BytesMut {
        let bytes = bytes.max(CHUNK_BYTES);
        let mut full = self.full.iter_mut();
        let free = full.position(|chunk| chunk.try_reclaim(bytes));
        let free = free.and_then(|at| self.full.remove(at));
        free.unwrap_or_else(|| BytesMut::with_capacity(bytes))
    }

    fn put_away(&mut self, full: BytesMut) {
        self.full.push_back(full);
        if self.full.len() > CHUNKS_MAX {
            self.full.pop_front();
        }
    }
}

/// Encodes an entry; gives where it is.
fn put_entry(out: &mut BytesMut, entry: KeyedEntry<'_>) -> EntryExtent {
    let KeyedEntry { key, kind, value } = entry;
    out.put_u8(kind as u8);
    put_varint(out, key.len());
    let key_extent = Extent::new(out.len(), key.len());
    out.put_slice(key);
    put_varint(out, value.len());
    let value_extent = Extent::new(out.len(), value.len());
    out.put_slice(value);
    EntryExtent {
        kind,
        key: key_extent,
        value: value_extent,
    }
}
