//! Writing one part of a run, row by row, in rising order.
//!
//! Owns: the shaping of values (whole, cut, directory and pieces), the counters and the filter of a part that grows.
//! Promises: every put is an `APPEND`, so pages are dense; big values fill whole pages; `part` ends the block that
//! grows, and describes what is written then. Must not: commit, or touch the catalog: the caller does both in the same
//! transaction.

use std::ops::Bound;
use std::sync::OnceLock;

use bytes::Bytes;
use heed::{PutFlags, RwTxn};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::catalog::{Part, TableCounts};
use super::super::env::{Db, Store};
use super::super::pages::page::PAGE_BYTES;
use super::super::{Entry, Error, Rules};
use super::block::{BlockWriter, NODE_HEAD, NODE_MAX, OVERHEAD};
use super::filter;
use super::keys::{KEY_MAX, StoredKey};
use super::read::PartReader;
use super::row::{NewRow, PIECE_HEAD_BYTES, Shape, encode_piece, piece_key};
use tideline_base::entry::EntryKind;

/// Pages of a big piece.
const PIECE_PAGES: usize = 4;
/// The largest piece: with its checksum and LMDB's page header it fills its pages exactly.
pub(in super::super) const PIECE_BYTES_MAX: usize = paged(PIECE_PAGES);

/// Bytes of a piece that fills `pages` pages.
const fn paged(pages: usize) -> usize {
    pages * PAGE_BYTES - 16 - PIECE_HEAD_BYTES
}

/// A part while it grows.
pub(in super::super) struct PartWriter {
    run: u64,
    pub(in super::super) slot: u16,
    pub(in super::super) side: u16,
    rows_db: Db,
    side_db: Db,
    rows: u64,
    blocks: u64,
    /// The one that grows.
    block: BlockWriter,
    first: Option<Bytes>,
    last: Vec<u8>,
    /// Bytes put so far, about.
    pub(in super::super) bytes: u64,
    hashes: Vec<u64>,
    last_prefix: Option<u64>,
    counts: Vec<TableCounts>,
    scratch: Vec<u8>,
}

impl PartWriter {
    /// A part in two empty slots; all its keys must be above `after`, where its predecessor ended.
    pub(in super::super) fn new(
        run: u64,
        (slot, rows_db): (u16, Db),
        (side, side_db): (u16, Db),
        after: &[u8],
    ) -> Self {
        PartWriter {
            run,
            slot,
            side,
            rows_db,
            side_db,
            rows: 0,
            blocks: 0,
            block: BlockWriter::new(),
            first: None,
            last: after.to_vec(),
            bytes: 0,
            hashes: Vec::new(),
            last_prefix: None,
            counts: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Goes on with a part after a restart: the hashes for its filter are taken from its keys again. On the way every
    /// page is checked, because LMDB will follow them without a look.
    pub(in super::super) fn resume(
        store: &Store,
        run: u64,
        part: &Part,
        rules: &dyn Rules,
    ) -> Result<Self, Error> {
        let txn = store.read()?;
        let reader = PartReader::new(store, run, part, &txn, rules)?;
        reader.check_structure()?;
        let mut writer = PartWriter::new(
            run,
            (part.slot, part.rows_db),
            (part.side, part.side_db),
            &[],
        );
        let mut rows = reader.rows(Bound::Unbounded, Bound::Unbounded, false)?;
        while let Some(row) = rows.next()? {
            writer.note_hashes(rules, &row.key);
        }
        (writer.rows, writer.blocks) = (part.rows(), part.blocks);
        writer.first = Some(part.first.clone());
        writer.last = part.last.to_vec();
        writer.bytes = part.page_bytes;
        writer.counts.clone_from(&part.counts);
        Ok(writer)
    }

    /// Whether nothing has been put.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Puts one row. `key` must be above all before it.
    pub(in super::super) fn put(
        &mut self,
        wtxn: &mut RwTxn<'_>,
        rules: &dyn Rules,
        wide_row_bytes: usize,
        key: &[u8],
        entry: &Entry,
    ) -> Result<(), Error> {
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(Error::BadKey("empty or too long"));
        }
        // `<=` of slices goes byte by byte; `cmp` compares whole words.
        if key.cmp(&self.last).is_le() {
            return Err(Error::BadKey("keys do not rise"));
        }
        let stored_key = StoredKey::new(key, self.rows);
        let mut row = NewRow {
            rest: stored_key.rest(),
            kind: entry.kind,
            shape: Shape::Whole,
            pieced: None,
            bytes: &entry.value,
        };
        let split = match entry.kind {
            EntryKind::Put if entry.value.len() > wide_row_bytes => {
                rules.split(&entry.value, PIECE_BYTES_MAX)
            }
            _ => None,
        };
        let rest = row.rest;
        let room = |pieced| {
            let of_row = NewRow::overhead(rest, pieced);
            let taken = NODE_HEAD + stored_key.bytes().len() + OVERHEAD + of_row;
            NODE_MAX.saturating_sub(taken)
        };
        if let Some(pieces) = &split {
            row.pieced = Some((self.rows, self.put_pieces(wtxn, &mut pieces.pieces.iter())?));
            row.shape = Shape::Directory;
            row.bytes = &pieces.directory;
        } else if entry.value.len() > room(false) {
            let (head, lengths) = cut(entry.value.len(), room(true));
            let (head, mut left) = entry.value.split_at(head);
            let mut pieces = lengths.iter().map(|&length| {
                let (piece, after) = left.split_at(length);
                left = after;
                piece
            });
            row.pieced = Some((self.rows, self.put_pieces(wtxn, &mut pieces)?));
            row.shape = Shape::Cut;
            row.bytes = head;
        }
        row.encode(&mut self.scratch);
        if !self.block.add(stored_key.bytes(), &self.scratch) {
            self.end_block(wtxn)?;
            self.block.add(stored_key.bytes(), &self.scratch);
        }
        self.note(rules, key, entry);
        Ok(())
    }

    /// Puts the rows that wait in the block, if there are any.
    fn end_block(&mut self, wtxn: &mut RwTxn<'_>) -> Result<(), Error> {
        if self.block.is_empty() {
            return Ok(());
        }
        let db = self.rows_db;
        let put = |key: &[u8], block: &[u8]| {
            db.put_with_flags(wtxn, PutFlags::APPEND, key, block)?;
            Ok::<_, Error>(key.len() + block.len() + NODE_HEAD + 2)
        };
        self.bytes += self.block.take(self.run, put)? as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Puts the pieces of the row that comes next; how many there were.
    fn put_pieces(
        &mut self,
        wtxn: &mut RwTxn<'_>,
        pieces: &mut dyn Iterator<Item = impl AsRef<[u8]>>,
    ) -> Result<u32, Error> {
        let mut count = 0;
        for piece in pieces {
            let piece = piece.as_ref();
            let key = piece_key(self.rows, count);
            encode_piece(&mut self.scratch, self.run, &key, piece);
            self.side_db
                .put_with_flags(wtxn, PutFlags::APPEND, &key, &self.scratch)?;
            self.bytes += (key.len() + self.scratch.len() + NODE_HEAD + 2) as u64;
            count += 1;
        }
        Ok(count)
    }

    /// Counts a row that was put.
    fn note(&mut self, rules: &dyn Rules, key: &[u8], entry: &Entry) {
        self.rows += 1;
        if self.first.is_none() {
            self.first = Some(Bytes::copy_from_slice(key));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.note_hashes(rules, key);
        count_row(&mut self.counts, rules, key, entry);
    }

    fn note_hashes(&mut self, rules: &dyn Rules, key: &[u8]) {
        if let Some(prefix) = rules.filter_prefix(key) {
            // Rows of one prefix are neighbours: most hashes would be there already.
            let hash = filter::prefix_hash(prefix);
            if self.last_prefix != Some(hash) {
                self.last_prefix = Some(hash);
                self.hashes.push(hash);
            }
        }
        if rules.filter_key(key) {
            self.hashes.push(filter::key_hash(key));
        }
    }

    /// Stores the filter. After it the part is only read.
    pub(in super::super) fn seal(&mut self, wtxn: &mut RwTxn<'_>) -> Result<Part, Error> {
        let mut filter_bytes = 0;
        if !self.hashes.is_empty() {
            let bits = filter::build(&self.hashes);
            for (chunk, bytes) in (0..).zip(bits.chunks(filter::CHUNK_BYTES)) {
                let key = filter::chunk_key(chunk);
                encode_piece(&mut self.scratch, self.run, &key, bytes);
                self.side_db
                    .put_with_flags(wtxn, PutFlags::APPEND, &key, &self.scratch)?;
            }
            filter_bytes = bits.len() as u64;
        }
        self.part(wtxn, filter_bytes)
    }

    /// What the catalog has to say about the part as it is now.
    pub(in super::super) fn part(
        &mut self,
        wtxn: &mut RwTxn<'_>,
        filter_bytes: u64,
    ) -> Result<Part, Error> {
        self.end_block(wtxn)?;
        let pages = |db: Db| Ok::<_, Error>(db.stat(wtxn)?.non_free_page_size() as u64);
        Ok(Part {
            slot: self.slot,
            side: self.side,
            rows_db: self.rows_db,
            side_db: self.side_db,
            first: self.first.clone().unwrap_or_default(),
            last: Bytes::copy_from_slice(&self.last),
            page_bytes: pages(self.rows_db)? + pages(self.side_db)?,
            filter_bytes,
            blocks: self.blocks,
            counts: self.counts.clone(),
            filter: OnceLock::new(),
            trees: OnceLock::new(),
        })
    }
}

/// Adds one row to the counters of its table.
pub(in super::super) fn count_row(
    counts: &mut Vec<TableCounts>,
    rules: &dyn Rules,
    key: &[u8],
    entry: &Entry,
) {
    let table = rules.table(key);
    let at = match counts.last() {
        Some(last) if last.table == table => counts.len() - 1,
        _ => counts
            .iter()
            .position(|counts| counts.table == table)
            .unwrap_or_else(|| {
                counts.push(TableCounts::new(table));
                counts.len() - 1
            }),
    };
    let counts = &mut counts[at];
    counts.rows += 1;
    counts.bytes += (key.len() + entry.value.len()) as u64;
    counts.tombstones += u64::from(entry.kind == EntryKind::Tombstone);
    counts.deltas += u64::from(entry.kind == EntryKind::Delta);
    if let Some((min, max)) = rules.versions(key, entry) {
        counts.cover(min, max);
    }
    counts.digest = counts.digest.wrapping_add(digest(key, entry));
}

/// The hash of one entry that the digests sum up.
fn digest(key: &[u8], entry: &Entry) -> u64 {
    let seed = xxh3_64_with_seed(key, entry.kind as u64);
    xxh3_64_with_seed(&entry.value, seed)
}

/// Cuts a value of `length` bytes: how much stays in the row, where there is `room`, and the lengths of the pieces.
/// Pieces fill whole pages; what remains is halved if it would leave most of a page empty.
fn cut(length: usize, room: usize) -> (usize, Vec<usize>) {
    let mut pieces = Vec::new();
    let mut left = length;
    while left > room {
        let pages = ((left + PAGE_BYTES - paged(1)) / PAGE_BYTES).min(PIECE_PAGES);
        let piece = match pages {
            0 => left - room.min(left / 2),
            pages => paged(pages),
        };
        pieces.push(piece);
        left -= piece;
    }
    (left, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_pieces_fill_pages_and_add_up() {
        for room in [0, 13, 500, 1900, 2000] {
            for length in (room + 1)..40_000 {
                let (head, pieces) = cut(length, room);
                assert!(head <= room);
                assert_eq!(head + pieces.iter().sum::<usize>(), length);
                let odd = pieces
                    .iter()
                    .filter(|&&piece| !(1..=PIECE_PAGES).any(|pages| piece == paged(pages)));
                assert!(odd.count() <= 1, "{length} with {room}: {pieces:?}");
            }
        }
    }
}
