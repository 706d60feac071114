//! An open message is open no more.
//!
//! Owns: the deletion of the rows that say that it is open and when it is due. Promises: all that ends one comes by
//! [`end`]; a trim leaves no open message below the floor. Must not: write the message itself.

use tideline_model::Direction;
use tideline_table::{ReadError, Source, Txn, damaged, delete, load, number_in, scan};

use super::super::rows::head::HeadRow;
use super::super::rows::lately::Lately;
use super::super::rows::tables::Name;
use super::super::time::{Kind, due_key, expiry_columns};
use super::DUE_AT;

/// A message is not open any more: its due row and its own go. The caller puts the head, and writes or buries the
/// message.
pub(in super::super) fn end(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    sequence: u64,
) -> Result<(), ReadError> {
    let key = name.open_key(head.incarnation, sequence);
    let due = |value: &[u8]| number_in(value, DUE_AT);
    if let Some(at_ms) = load(txn, &key, "not an open message", due)? {
        let columns = expiry_columns(head.incarnation, sequence);
        delete(txn, due_key(Kind::Abandon, at_ms, name, &columns));
        delete(txn, key);
        head.open = head.open.saturating_sub(1);
    }
    let message = name.message_key(head.incarnation, sequence);
    txn.memo::<Lately>().forget_growing(message.as_bytes());
    Ok(())
}

/// Open messages above a floor that has moved because of damage: what is gone below it is forgotten, and the others are
/// counted. The caller puts the head.
pub(in super::super) fn recount(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
) -> Result<(), ReadError> {
    trimmed(txn, name, head, 0)?;
    let open = open_between(txn, name, head, (head.floor, head.last))?;
    head.open = u32::try_from(open.len()).unwrap_or(u32::MAX);
    Ok(())
}

/// The floor has moved from `before`: no message below it is open any more. The caller puts the head.
pub(in super::super) fn trimmed(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    before: u64,
) -> Result<(), ReadError> {
    if head.floor > before {
        for sequence in open_between(txn, name, head, (before, head.floor - 1))? {
            end(txn, name, head, sequence)?;
        }
    }
    Ok(())
}

/// The messages from the first to the last of these that are open, in order.
pub(in super::super) fn open_between(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (first, last): (u64, u64),
) -> Result<Vec<u64>, ReadError> {
    if head.open == 0 {
        return Ok(Vec::new());
    }
    let key = |sequence| name.open_key(head.incarnation, sequence);
    let rows = scan(
        rows,
        &key(first),
        &key(last.saturating_add(1)),
        Direction::Forward,
    );
    let sequence = |row: Result<(bytes::Bytes, bytes::Bytes), ReadError>| {
        let (key, _) = row?;
        name.number_of(&key)
            .map_err(|_| damaged(&key, "not an open message"))
    };
    rows.map(sequence).collect()
}

/// The last sequence below the first message that is open; if none is, the last one. A reader's `head` is the head as
/// that reader sees it.
pub(in super::super) fn whole_up_to(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
) -> Result<u64, ReadError> {
    let from = head.floor.min(head.last + 1);
    let open = open_between(rows, name, head, (from, head.last))?;
    Ok(open.first().map_or(head.last, |first| first - 1))
}
