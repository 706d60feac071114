//! The decoders of rows, keys and change records, for `tests/fuzz`. Only in builds with the feature `faults`.
//!
//! Owns: what is asked of bytes that a decoder took. Promises: each target takes any bytes. Must not: read the store.

use bytes::Bytes;

use super::catalog::stored;
use super::format::change::Change;
use super::format::row::Row;
use super::format::versions::{Shortened, judge, shorten};
use super::format::{chunks, delta, primary_key};
use super::{Places, ShardIterator, key_of};
use tideline_base::entry::{Entry, EntryKind};
use tideline_base::faults::Decoder;
use tideline_base::ids::TableId;
use tideline_model::{Definition, TableOptions};

/// Decoders by name.
pub const TARGETS: &[Decoder] = &[
    ("table_row", row),
    ("table_delta", changes),
    ("table_pieces", pieces),
    ("table_change", change),
    ("table_key", key),
    ("table_definition", definition),
    ("table_places", places),
];

fn row(input: &[u8]) {
    let Ok(row) = Row::parse(input) else {
        return;
    };
    let cells: Result<Vec<_>, _> = row.cells().collect();
    let Ok(cells) = cells else {
        return;
    };
    let names: Vec<&str> = row.columns().flatten().map(|cell| cell.name).collect();
    assert!(names.len() <= cells.len());
    for name in &names {
        let found = row.column(name).ok().flatten();
        assert_eq!(found.map(|cell| cell.name), Some(*name));
    }
    assert_eq!(row.pick(names.iter().copied()).count(), names.len());
    let options = TableOptions {
        max_versions: 1,
        ..TableOptions::default()
    };
    if let (Ok(judged), Ok(shorter)) = (
        judge(input, &options, 1 << 40),
        shorten(input, &options, 1 << 40),
    ) {
        assert_eq!(judged.hidden.is_empty(), shorter == Shortened::Same);
        if let Shortened::Less(left) = shorter {
            let left = Row::parse(&left).map(|row| row.cells().flatten().count());
            assert_eq!(left, Ok(judged.living.len()));
        }
    }
}

/// An older and a newer change: a byte of kinds, a byte of the older one's length.
fn changes(input: &[u8]) {
    let Some(([kinds, length], bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let entry = |kind: u8, value: &[u8]| Entry {
        kind: [EntryKind::Put, EntryKind::Tombstone, EntryKind::Delta][usize::from(kind % 3)],
        value: Bytes::copy_from_slice(value),
    };
    let (older, newer) = bytes.split_at(bytes.len().min(usize::from(*length)));
    let (older, newer) = (entry(kinds & 15, older), entry(kinds >> 4, newer));
    for one in [&older, &newer] {
        let _ = (delta::span(one), delta::narrow(one, &["a", "b"]));
        if let Ok(mut cells) = delta::cells_of(&one.value) {
            while let Ok(Some(_)) = cells.next_cell() {}
        }
    }
    let both = delta::compose(&older, &newer);
    let again = delta::compose(&older, &both);
    if newer.kind != EntryKind::Delta {
        assert_eq!(again.kind, both.kind);
    }
}

/// A row cut into pieces, and a directory with pieces of anybody's.
fn pieces(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else {
        return;
    };
    let value = Bytes::copy_from_slice(bytes);
    if let Some(cut) = chunks::split(&value, usize::from(*size)) {
        assert_eq!(
            chunks::join(&cut.directory, &cut.pieces).as_ref(),
            Ok(&value)
        );
        pick(&cut.directory, &cut.pieces);
    }
    let directory = value.slice(..value.len().min(usize::from(*size)));
    let rest = value.slice(directory.len()..);
    let halves = [rest.slice(..rest.len() / 2), rest.slice(rest.len() / 2..)];
    let _ = chunks::join(&directory, &halves);
    pick(&directory, &halves);
}

fn pick(directory: &Bytes, pieces: &[Bytes]) {
    let wanted = ["a", "b"];
    let Some((numbers, _)) = chunks::pick(directory, &wanted) else {
        return;
    };
    let pieces = numbers.iter().map(|at| pieces.get(*at as usize).cloned());
    if let Some(pieces) = pieces.collect::<Option<Vec<_>>>() {
        let _ = chunks::join_picked(directory, &wanted, &pieces);
    }
}

fn change(input: &[u8]) {
    if let Ok(change) = Change::decode(input) {
        assert_eq!(Change::table_of(input), Some(change.table));
        assert!(change.indexes().len() == change.entries as usize);
        assert_eq!(change.encode(), input);
    }
}

fn key(input: &[u8]) {
    if let Ok(values) = primary_key::decode(input) {
        let table = input
            .first_chunk()
            .map_or(0, |table| u32::from_be_bytes(*table));
        let again = key_of(TableId(table), &values);
        assert_eq!(again.as_bytes(), input);
    }
}

fn definition(input: &[u8]) {
    if let Ok(definition) = serde_json::from_slice::<Definition>(input) {
        let written = serde_json::to_string(&definition).expect("into memory");
        assert_eq!(
            serde_json::from_str(&written).ok(),
            Some(definition.clone())
        );
        let _ = stored(definition);
    }
}

fn places(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(places) = Places::parse(text) {
        assert_eq!(places.to_string(), text);
    }
    if let Some(iterator) = ShardIterator::parse(text) {
        assert_eq!(iterator.to_string(), text);
    }
}
