//! What a batch changed of the messages and metas that the virtual tables show.
//!
//! Owns: which rows of timelines make a row of these tables another. Promises: a row that a batch changed is named, or
//! gone with all below a sequence: trims and deletions name no message. Time alone changes rows without a batch. Must
//! not: read the store.

use tideline_base::entry::KeyedEntry;
use tideline_base::ids::Position;
use tideline_model::KeyValue;
use tideline_table::{Batch, Malformed, ReadError, Touched, damaged, split_key};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::{
    HEADS, MEMBERS, MESSAGES, METAS, Name, PARTS, REACTION_SUMS, SEQUENCE_END, incarnation_of,
};
use super::super::write::is_made_at;

/// Of messages.
pub(in super::super) fn messages(batch: &Batch) -> Result<Vec<Touched>, ReadError> {
    each(batch, |entry| message(entry, batch.position))
}

/// Of metas.
pub(in super::super) fn metas(batch: &Batch) -> Result<Vec<Touched>, ReadError> {
    each(batch, |entry| match split_key(entry.key) {
        Some((HEADS | METAS, columns)) => Ok(Some(Touched::Row(vec![timeline(columns)?]))),
        _ => Ok(None),
    })
}

/// The timelines whose followers a batch may have news for. Every change writes the head row, but for those of members.
pub(in super::super) fn told(batch: &Batch) -> Result<Vec<String>, ReadError> {
    let told = batch.entries().filter_map(|entry| {
        let (table, columns) = split_key(entry.key)?;
        let name = || Name::of(columns)?.text();
        let bad = |_| damaged(entry.key, "not a row of a timeline");
        matches!(table, HEADS | MEMBERS).then(|| name().map_err(bad))
    });
    told.collect()
}

fn each(
    batch: &Batch,
    of: impl Fn(KeyedEntry<'_>) -> Result<Option<Touched>, Malformed>,
) -> Result<Vec<Touched>, ReadError> {
    let touched = batch.entries().map(|entry| {
        let bad = |_| damaged(entry.key, "not a row of a timeline");
        of(entry).map_err(bad).transpose()
    });
    touched.flatten().collect()
}

fn message(entry: KeyedEntry<'_>, position: Position) -> Result<Option<Touched>, Malformed> {
    Ok(match split_key(entry.key) {
        Some((MESSAGES | REACTION_SUMS | PARTS, columns)) => {
            let (_, mut rest) = incarnation_of(columns)?;
            Some(Touched::Row(key(columns, rest.u64()?)?))
        }
        Some((HEADS, columns)) => {
            let head = HeadRow::decode(entry.value)?;
            // Where a timeline was made there may have been an earlier one of its name.
            let is_over = head.dropped || is_made_at(head.incarnation, position);
            let floor = if is_over { SEQUENCE_END } else { head.floor };
            let has_gone = floor > 1;
            has_gone
                .then(|| key(columns, floor).map(Touched::Below))
                .transpose()?
        }
        _ => None,
    })
}

fn key(columns: &[u8], sequence: u64) -> Result<Vec<KeyValue>, Malformed> {
    let sequence = KeyValue::Integer(sequence.cast_signed());
    Ok(vec![timeline(columns)?, sequence])
}

fn timeline(columns: &[u8]) -> Result<KeyValue, Malformed> {
    Ok(KeyValue::String(Name::of(columns)?.text()?))
}
