//! A block: rows of a part, one behind the other, squeezed, as one record of LMDB.
//!
//! ```text
//! block:  CRC-32C (4) | bytes of the rows (varint) | the rows, squeezed      under the stored key of its first row
//! rows:   each: key's length (varint) | stored key | value's length (varint) | value (`row.rs`, without a checksum)
//!         The first one's key is that of the record: its length is not there, and what is squeezed begins behind it.
//! ```
//!
//! Owns: this layout, the search for what rows say again, and how much goes into one block: as much as fills LMDB's
//! pages, and no more than a look-up should unfold. Promises: what is unfolded with the right checksum is what was
//! written in this run under this key; arbitrary bytes never panic. Must not: touch LMDB, or know what a row means.
//!
//! The checksum covers run number, the record's key and all behind it.

use super::super::pages::page::{PAGE_BYTES, PAGE_HEAD, Rows};
use crate::squeeze::varint::{put_varint, varint_at, varint_bytes};
use crate::squeeze::{COPY_MIN, put_sequence, same, unfold};

/// LMDB keeps an entry in a leaf page up to this size (two must fit into a page); past it the value gets pages of its
/// own.
pub(in super::super) const NODE_MAX: usize = 2038;
/// A node's own bytes, and its offset in the page.
pub(in super::super) const NODE_HEAD: usize = 8;
const NODE_OFFSET: usize = 2;
/// What nodes may take of a page.
const PAGE_ROOM: usize = PAGE_BYTES - PAGE_HEAD;
/// So many blocks share a page. The last one of them fills it.
const PER_PAGE: usize = 3;
/// Rows in one block, and their bytes: what a look-up has to unfold.
const ROWS_MAX: usize = 32;
const BYTES_MAX: usize = PAGE_BYTES - ROOM_BYTES;
/// What is unfolded needs so much room behind it: for the places of the rows.
const ROOM_BYTES: usize = ROWS_MAX * Rows::PLACE_BYTES;
const CRC_BYTES: usize = 4;
/// A block's head, the head of its only sequence, and of its only row the length of the value.
pub(in super::super) const OVERHEAD: usize = CRC_BYTES + 2 + 3 + 2;

/// Bytes that have been said, by a hash of four of them.
const TABLE_BITS: u32 = 12;
/// After so many bytes of a row without a copy the rest of it is taken for new.
const MISSES_MAX: usize = 64;

/// A block while it grows.
pub(in super::super) struct BlockWriter {
    /// The first row's key, and the rows.
    plain: Vec<u8>,
    key_bytes: usize,
    rows: usize,
    out: Vec<u8>,
    /// Everything before is in `out`.
    literal: usize,
    /// Of the last copy.
    distance: usize,
    /// Places in `plain`, plus one.
    seen: Box<[u16]>,
    /// Bytes left of LMDB's page.
    left: usize,
    /// The node may take so many bytes.
    node_max: usize,
}

impl BlockWriter {
    pub(in super::super) fn new() -> BlockWriter {
        BlockWriter {
            plain: Vec::with_capacity(PAGE_BYTES),
            key_bytes: 0,
            rows: 0,
            out: Vec::with_capacity(PAGE_BYTES),
            literal: 0,
            distance: 0,
            seen: vec![0; 1 << TABLE_BITS].into(),
            left: PAGE_ROOM,
            node_max: 0,
        }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row whose key is above those before it; `false` = the block is full without it. An empty one takes any
    /// row that a node has room for.
    pub(in super::super) fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (plain_bytes, out_bytes) = (self.plain.len(), self.out.len());
        let (literal, distance) = (self.literal, self.distance);
        if self.rows == 0 {
            self.plain.extend_from_slice(key);
            self.note_all(key.len());
            (self.literal, self.key_bytes) = (key.len(), key.len());
        } else {
            let bytes = varint_bytes(key.len()) + key.len() + varint_bytes(value.len());
            if self.rows == ROWS_MAX || plain_bytes + bytes + value.len() > BYTES_MAX {
                return false;
            }
            put_varint(&mut self.plain, key.len());
            self.plain.extend_from_slice(key);
        }
        put_varint(&mut self.plain, value.len());
        self.plain.extend_from_slice(value);
        self.search(plain_bytes.max(self.key_bytes));
        let node = self.node_bytes();
        if self.rows == 0 {
            if node > self.left {
                self.left = PAGE_ROOM;
            }
            let others = self.left.div_ceil(NODE_MAX + NODE_OFFSET);
            self.node_max = self.left / others.max(self.left * PER_PAGE / PAGE_ROOM);
        } else if node > self.node_max {
            self.plain.truncate(plain_bytes);
            self.out.truncate(out_bytes);
            (self.literal, self.distance) = (literal, distance);
            return false;
        }
        self.rows += 1;
        true
    }

    /// What the node takes of its page, if the block ends here.
    fn node_bytes(&self) -> usize {
        let literals = self.plain.len() - self.literal;
        let block = CRC_BYTES + 2 + self.out.len() + 2 + literals;
        (NODE_OFFSET + NODE_HEAD + self.key_bytes + block).next_multiple_of(2)
    }

    /// Gives the record of the rows that were added to `put`, and begins anew.
    pub(in super::super) fn take<T>(&mut self, run: u64, put: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let (key, rows) = self.plain.split_at(self.key_bytes);
        let mut block = Vec::with_capacity(CRC_BYTES + 2 + self.out.len() + 3 + rows.len());
        block.extend_from_slice(&[0; CRC_BYTES]);
        put_varint(&mut block, rows.len());
        block.extend_from_slice(&self.out);
        if self.literal < self.plain.len() {
            put_sequence(&mut block, &self.plain[self.literal..], 0, 0);
        }
        let crc = block_crc(run, key, &block[CRC_BYTES..]);
        block[..CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
        let node = (NODE_OFFSET + NODE_HEAD + key.len() + block.len()).next_multiple_of(2);
        self.left = match self.left.checked_sub(node) {
            Some(left) => left,
            None => PAGE_ROOM.saturating_sub(node),
        };
        let done = put(key, &block);
        self.plain.clear();
        self.out.clear();
        self.seen.fill(0);
        (self.key_bytes, self.rows, self.literal, self.distance) = (0, 0, 0, 0);
        done
    }

    /// Notes the words that begin below a place.
    fn note_all(&mut self, end: usize) {
        for at in 0..(end + 1).saturating_sub(COPY_MIN) {
            self.seen[slot(four(&self.plain, at))] = (at + 1) as u16;
        }
    }

    /// Squeezes what was added at a place: copies from as far back as the last time, or from where the same word was
    /// last.
    fn search(&mut self, from: usize) {
        let (mut at, mut misses) = (from, 0);
        while at + COPY_MIN <= self.plain.len() && misses < MISSES_MAX {
            let word = four(&self.plain, at);
            let noted = std::mem::replace(&mut self.seen[slot(word)], (at + 1) as u16);
            let last = at.wrapping_sub(self.distance);
            let source = match usize::from(noted) {
                _ if last < at && four(&self.plain, last) == word => last,
                noted if noted > 0 && four(&self.plain, noted - 1) == word => noted - 1,
                _ => {
                    (at, misses) = (at + 1, misses + 1);
                    continue;
                }
            };
            (at, misses) = (self.copy(source, at), 0);
        }
    }

    /// Writes what was new up to a copy, and the copy; gives its end.
    fn copy(&mut self, source: usize, at: usize) -> usize {
        let (mut first, mut source) = (at, source);
        while first > self.literal && source > 0 && self.plain[first - 1] == self.plain[source - 1]
        {
            (first, source) = (first - 1, source - 1);
        }
        let copied = same(&self.plain, source, first);
        let distance = first - source;
        let told = if distance == self.distance {
            0
        } else {
            distance
        };
        put_sequence(
            &mut self.out,
            &self.plain[self.literal..first],
            copied,
            told,
        );
        (self.distance, self.literal) = (distance, first + copied);
        // The last words of a copy are often what comes again.
        let end = self.literal;
        if let Some(at) = end.checked_sub(COPY_MIN / 2)
            && at + COPY_MIN <= self.plain.len()
        {
            self.seen[slot(four(&self.plain, at))] = (at + 1) as u16;
        }
        end
    }
}

#[inline]
fn four(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; COPY_MIN];
    four.copy_from_slice(&bytes[at..at + COPY_MIN]);
    u32::from_be_bytes(four)
}

#[inline]
fn slot(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - TABLE_BITS)) as usize
}

/// Whether a record is a block of this run.
pub(in super::super) fn is_sound(run: u64, key: &[u8], block: &[u8]) -> bool {
    let Some((crc, content)) = block.split_first_chunk::<CRC_BYTES>() else {
        return false;
    };
    u32::from_be_bytes(*crc) == block_crc(run, key, content)
        || tideline_base::faults::is_named("rows_unchecked")
}

/// The rows of a block; `None` = it is none of this run.
pub(in super::super) fn open(run: u64, key: &[u8], block: &[u8]) -> Option<Rows> {
    if !is_sound(run, key, block) {
        return None;
    }
    unfolded(key, block.get(CRC_BYTES..)?)
}

/// The same, whatever the checksum is.
pub(in super::super) fn unfolded(key: &[u8], content: &[u8]) -> Option<Rows> {
    let mut at = 0;
    let bytes = varint_at(content, &mut at).filter(|bytes| *bytes <= usize::from(u16::MAX) / 2)?;
    let mut plain = Vec::with_capacity(key.len() + bytes + ROOM_BYTES);
    plain.extend_from_slice(key);
    unfold(&content[at..], &mut plain, key.len() + bytes)?;
    let (end, mut at) = (plain.len(), 0);
    let mut places = Vec::with_capacity(ROWS_MAX);
    while at < end {
        let key_bytes = match places.len() {
            0 => key.len(),
            _ => varint_at(&plain[..end], &mut at)?,
        };
        let from = at;
        let key_end = from
            .checked_add(key_bytes)
            .filter(|key_end| *key_end <= end)?;
        at = key_end;
        let value_bytes = varint_at(&plain[..end], &mut at)?;
        let value = at;
        at = value.checked_add(value_bytes).filter(|at| *at <= end)?;
        places.push([from, key_end, value, at].map(|place| place as u16));
    }
    (!places.is_empty()).then(|| Rows::new(plain, &places))
}

fn block_crc(run: u64, key: &[u8], content: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&run.to_be_bytes()), key);
    crc32c::crc32c_append(crc, content)
}
