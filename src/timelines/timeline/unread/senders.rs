//! Which messages are whose: one row for each message of a sender, with its number among that sender's messages.
//!
//! Owns: these rows and their numbers, the ordinals. Promises: from the floor on a sender's ordinals have no holes and
//! never change, so that two rows tell how many are between them; the writer mostly knows the last one without
//! looking. Must not: write rows of messages without a sender.
//!
//! ```text
//! sender  $n: the ordinal
//! ```

use xxhash_rust::xxh3::xxh3_128;

use tideline_model::Direction;
use tideline_table::{Key, ReadError, RowWriter, Source, Txn, damaged, number_in, put, scan};

use super::super::rows::head::HeadRow;
use super::super::rows::lately::Lately;
use super::super::rows::tables::Name;
use super::super::write::version;
use super::gone::Of;

const ORDINAL: &str = "$n";

/// Writes the rows of a sender's next messages, in order.
pub(super) fn write(
    txn: &mut Txn<'_>,
    (name, head): (&Name, &HeadRow),
    sender: &str,
    sequences: impl IntoIterator<Item = u64>,
) -> Result<(), ReadError> {
    if sender.is_empty() {
        return Ok(());
    }
    let rows = name.sender_rows(head.incarnation, sender);
    let hash = xxh3_128(rows.as_bytes());
    let mut ordinal = match txn.memo::<Lately>().last_ordinal(name, hash) {
        Some(ordinal) => ordinal,
        None => end(txn, &rows, &rows.clone().below_all(), Direction::Backward)?.unwrap_or(0),
    };
    let time = version(txn.now_ms());
    for sequence in sequences {
        ordinal += 1;
        let row = RowWriter::of(ORDINAL, ordinal.into());
        put(txn, rows.numbered(sequence), row, time);
    }
    txn.memo::<Lately>().note_ordinal(hash, ordinal);
    Ok(())
}

/// How many messages above a sequence are of this sender.
pub(super) fn above(
    rows: &impl Source,
    (name, head): Of<'_>,
    sender: &str,
    low: u64,
) -> Result<u64, ReadError> {
    let of_sender = name.sender_rows(head.incarnation, sender);
    let from = of_sender.numbered(low + 1);
    let Some(first) = end(rows, &of_sender, &from, Direction::Forward)? else {
        return Ok(0);
    };
    let last = end(rows, &of_sender, &from, Direction::Backward)?;
    Ok(last.map_or(0, |last| last + 1 - first))
}

/// Whether a message is of this sender.
pub(super) fn is_of(
    rows: &impl Source,
    (name, head): Of<'_>,
    sender: &str,
    sequence: u64,
) -> Result<bool, ReadError> {
    let row = name.sender_rows(head.incarnation, sender).number(sequence);
    Ok(rows.row(&row)?.is_some())
}

/// The ordinal of the first or last of a sender's rows from a key on.
fn end(
    rows: &impl Source,
    of_sender: &Key,
    from: &Key,
    direction: Direction,
) -> Result<Option<u64>, ReadError> {
    let to = of_sender.clone().above_all();
    let row = scan(rows, from, &to, direction).next().transpose()?;
    row.map(|(key, value)| ordinal_of(&key, &value)).transpose()
}

pub(super) fn ordinal_of(key: &[u8], value: &[u8]) -> Result<u64, ReadError> {
    number_in(value, ORDINAL).map_err(|_| damaged(key, "not a sender's row"))
}
