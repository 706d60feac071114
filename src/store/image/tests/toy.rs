//! Toy row rules and a plain model, for the image's tests.
//!
//! Owns: rows that are maps from a byte to bytes with an expiry, and what they should look like after any history.
//! Promises: nothing clever: the model keeps every entry of every key and composes them all when asked. Must not: share
//! code with the image.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;

use super::super::{DropContext, Entry, Pieces, Reason, Rules, Snapshot, TableCounts, Verdict};
use tideline_base::entry::EntryKind;
use tideline_base::ids::TableId;

/// Cells by number: when they expire (0 = never) and their bytes.
pub(super) type Cells = BTreeMap<u8, (u32, Vec<u8>)>;

pub(super) fn encode(cells: &Cells) -> Bytes {
    let mut out = Vec::new();
    for (&cell, (expiry, bytes)) in cells {
        out.push(cell);
        out.extend_from_slice(&expiry.to_be_bytes());
        out.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        out.extend_from_slice(bytes);
    }
    out.into()
}

pub(super) fn decode(mut bytes: &[u8]) -> Cells {
    let mut cells = Cells::new();
    while let Some((&cell, rest)) = bytes.split_first() {
        let (expiry, rest) = rest.split_first_chunk().unwrap();
        let (length, rest) = rest.split_first_chunk().unwrap();
        let (value, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        cells.insert(cell, (u32::from_be_bytes(*expiry), value.to_vec()));
        bytes = rest;
    }
    cells
}

/// Bytes in which nothing comes twice.
pub(super) fn noise(seed: u32, bytes: usize) -> Vec<u8> {
    let mut bits = u64::from(seed) << 1 | 1 << 40 | 1;
    let mut next = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn live(cells: Cells, now_ms: u64) -> Cells {
    cells
        .into_iter()
        .filter(|(_, (expiry, _))| *expiry == 0 || u64::from(*expiry) > now_ms)
        .collect()
}

pub(super) struct Toy;

impl Toy {
    pub(super) fn rules() -> Arc<dyn Rules> {
        Arc::new(Toy)
    }
}

impl Rules for Toy {
    fn compose(&self, _key: &[u8], older: &Entry, newer: &Entry) -> Entry {
        let kind = match older.kind {
            EntryKind::Delta => EntryKind::Delta,
            EntryKind::Put | EntryKind::Tombstone => EntryKind::Put,
        };
        let mut cells = decode(&older.value);
        cells.extend(decode(&newer.value));
        Entry {
            kind,
            value: encode(&cells),
        }
    }

    fn verdict(&self, key: &[u8], entry: &Entry, context: &DropContext<'_>) -> Verdict {
        if entry.kind != EntryKind::Put {
            return Verdict::Keep;
        }
        if (context.read)(b"head").is_some_and(|head| decode(&head).contains_key(&key[0])) {
            return Verdict::Drop(Reason::Marked);
        }
        let cells = decode(&entry.value);
        let before = cells.len();
        let cells = live(cells, context.now_ms);
        match cells.len() {
            0 => Verdict::Drop(Reason::Expired),
            after if after == before => Verdict::Keep,
            _ => Verdict::Replace(Entry::put(encode(&cells)), Reason::Expired),
        }
    }

    fn split(&self, value: &Bytes, piece_bytes_max: usize) -> Option<Pieces> {
        // Cells with an even first number stay uncut, so that both ways are walked.
        if value[0].is_multiple_of(2) {
            return None;
        }
        let pieces: Vec<Bytes> = value
            .chunks(piece_bytes_max)
            .map(Bytes::copy_from_slice)
            .collect();
        Some(Pieces {
            directory: Bytes::from(pieces.len().to_be_bytes().to_vec()),
            pieces,
        })
    }

    fn join(&self, directory: &Bytes, pieces: &[Bytes]) -> Result<Bytes, &'static str> {
        if directory[..] != pieces.len().to_be_bytes() {
            return Err("wrong count");
        }
        Ok(pieces.concat().into())
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..2)
    }

    fn filter_key(&self, key: &[u8]) -> bool {
        key.len().is_multiple_of(2)
    }

    fn versions(&self, _key: &[u8], entry: &Entry) -> Option<(u64, u64)> {
        let cells = decode(&entry.value);
        let expiries = || cells.values().map(|(expiry, _)| u64::from(*expiry));
        let expiring = || expiries().filter(|expiry| *expiry > 0);
        Some((expiring().min()?, expiring().max()?))
    }

    fn over_percent(&self, counts: &TableCounts, now_ms: u64) -> u64 {
        // Far too high where most rows stay: a rewrite must leave nothing that asks for another one all the same.
        let has_expired = counts.version_min > 0 && counts.version_min <= now_ms;
        100 * u64::from(has_expired)
    }

    fn table(&self, key: &[u8]) -> TableId {
        TableId(u32::from(key[0]))
    }
}

pub(super) fn put(cells: &Cells) -> Entry {
    entry(EntryKind::Put, cells)
}

pub(super) fn delta(cells: &Cells) -> Entry {
    entry(EntryKind::Delta, cells)
}

fn entry(kind: EntryKind, cells: &Cells) -> Entry {
    Entry {
        kind,
        value: encode(cells),
    }
}

pub(super) fn tombstone() -> Entry {
    Entry {
        kind: EntryKind::Tombstone,
        value: Bytes::new(),
    }
}

pub(super) fn cell(number: u8, bytes: &[u8]) -> Cells {
    Cells::from([(number, (0, bytes.to_vec()))])
}

/// What every key should show.
#[derive(Clone, Default)]
pub(super) struct Model {
    rows: BTreeMap<Vec<u8>, Option<Cells>>,
}

impl Model {
    pub(super) fn apply(&mut self, key: &[u8], entry: &Entry) {
        let row = self.rows.entry(key.to_vec()).or_default();
        match entry.kind {
            EntryKind::Put => *row = Some(decode(&entry.value)),
            EntryKind::Tombstone => *row = None,
            EntryKind::Delta => row.get_or_insert_default().extend(decode(&entry.value)),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.rows.keys()
    }

    /// The visible rows.
    pub(super) fn visible(&self, now_ms: u64) -> BTreeMap<Vec<u8>, Cells> {
        self.rows
            .iter()
            .filter_map(|(key, row)| Some((key.clone(), live(row.clone()?, now_ms))))
            .filter(|(_, cells)| !cells.is_empty())
            .collect()
    }
}

/// Whether a key lies between two bounds.
pub(super) fn between(key: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    let above = match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
    };
    let below = match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
    };
    above && below
}

pub(super) fn fold(entries: &[Entry], now_ms: u64) -> Option<Cells> {
    let mut row: Option<Cells> = None;
    for entry in entries.iter().rev() {
        match entry.kind {
            EntryKind::Put => row = Some(decode(&entry.value)),
            EntryKind::Tombstone => row = None,
            EntryKind::Delta => row.get_or_insert_default().extend(decode(&entry.value)),
        }
    }
    row.map(|cells| live(cells, now_ms))
        .filter(|cells| !cells.is_empty())
}

/// What `snapshot` shows of one key.
pub(super) fn get(snapshot: &Snapshot, key: &[u8], now_ms: u64) -> Option<Cells> {
    let mut entries = Vec::new();
    snapshot
        .get(key, &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    fold(&entries, now_ms)
}

/// What `snapshot` shows of a range; checks the order of every cursor.
pub(super) fn range(
    snapshot: &Snapshot,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    backward: bool,
    now_ms: u64,
) -> BTreeMap<Vec<u8>, Cells> {
    let mut found: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
    for cursor in snapshot.cursors(from, to, backward).unwrap() {
        let mut last: Option<Bytes> = None;
        for row in cursor {
            let (key, entry) = row.unwrap();
            if let Some(last) = last {
                assert_eq!(last < key, !backward, "{last:?} then {key:?}");
                assert_ne!(last, key);
            }
            last = Some(key.clone());
            found.entry(key.to_vec()).or_default().push(entry);
        }
    }
    let rows = found.into_iter();
    rows.filter_map(|(key, entries)| Some((key, fold(&entries, now_ms)?)))
        .collect()
}
