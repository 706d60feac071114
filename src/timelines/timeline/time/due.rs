//! Due rows: what is to be done in a partition, in the order of time.
//!
//! Owns: their keys, and the scan for those whose time has come. Promises: a kind of work is one stretch of keys, so
//! that much of one kind hides nothing of another; a row leads to what it is about and decides nothing, so one that is
//! there for nothing does no harm. Must not: know what is done.
//!
//! ```text
//! key  kind, time (ms), timeline, …      value: a row without columns
//!   1 deliver    user, message ID        2 expire    incarnation, sequence
//!   3 trim       incarnation, and 0 where it ends a stream
//!   4 abandon    incarnation, sequence
//! ```
//! The first column is not a timeline: the rows of all timelines of a partition lie together.

use tideline_base::ordered::{INTEGER_BYTES_MAX, Reader, push_u64};
use tideline_model::Direction;
use tideline_table::{
    Key, Malformed, ReadError, RowWriter, Txn, View, damaged, delete, put, scan, split_key,
};

use super::super::rows::tables::{DUE, Name};
use super::alarm::Alarm;

/// A kind of work. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Append a scheduled message.
    Deliver = 1,
    /// Make an expired message a tombstone.
    Expire = 2,
    /// Move a timeline's floor by its retention.
    Trim = 3,
    /// Close an open message that no part came to.
    Abandon = 4,
}

impl Kind {
    fn key(self, at_ms: u64, more: usize) -> Key {
        let numbers = 2 * INTEGER_BYTES_MAX + more;
        Key::new(DUE, &[], numbers)
            .number(self as u64)
            .number(at_ms)
    }
}

/// The key of a due row. `columns`: those behind the timeline.
pub(in super::super) fn due_key(kind: Kind, at_ms: u64, name: &Name, columns: &[u8]) -> Key {
    let name = name.as_bytes();
    kind.key(at_ms, name.len() + columns.len())
        .columns(name)
        .columns(columns)
}

/// The columns of the due row of an expiry, or of an open message, behind the timeline.
pub(in super::super) fn expiry_columns(incarnation: u64, sequence: u64) -> Vec<u8> {
    let mut columns = Vec::with_capacity(18);
    push_u64(&mut columns, incarnation);
    push_u64(&mut columns, sequence);
    columns
}

/// Writes a due row and notes its time.
pub(in super::super) fn put_due(
    txn: &mut Txn<'_>,
    alarm: &Alarm,
    (kind, at_ms): (Kind, u64),
    name: &Name,
    columns: &[u8],
) {
    let key = due_key(kind, at_ms, name, columns);
    let now = txn.now_ms().cast_signed();
    put(txn, key, RowWriter::new(0), now);
    alarm.note(at_ms, txn.position());
}

/// A due row, read.
#[derive(Clone, Debug)]
pub(in super::super) struct Due {
    pub(in super::super) at_ms: u64,
    pub(in super::super) name: Name,
    /// The columns behind the timeline.
    pub(in super::super) columns: Vec<u8>,
    kind: Kind,
}

impl Due {
    /// Reads the columns of a due row's key.
    pub(in super::super) fn of(columns: &[u8]) -> Result<Due, Malformed> {
        let mut reader = Reader::new(columns);
        let kind = match reader.u64()? {
            1 => Kind::Deliver,
            2 => Kind::Expire,
            3 => Kind::Trim,
            4 => Kind::Abandon,
            _ => return Err(Malformed),
        };
        let at_ms = reader.u64()?;
        let name = Name::of(reader.rest())?;
        reader.skip()?;
        Ok(Due {
            at_ms,
            name,
            columns: reader.rest().to_vec(),
            kind,
        })
    }

    pub(in super::super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a trim is the end of a stream.
    pub(in super::super) fn is_end(&self) -> bool {
        let more = self.incarnation().map(|(_, more)| more.rest().len());
        self.kind == Kind::Trim && more.is_ok_and(|more| more > 0)
    }

    /// Deletes the row.
    pub(in super::super) fn done(&self, txn: &mut Txn<'_>) {
        delete(
            txn,
            due_key(self.kind, self.at_ms, &self.name, &self.columns),
        );
    }

    /// The incarnation that the columns of an expiry or a trim begin with, and what follows.
    pub(in super::super) fn incarnation(&self) -> Result<(u64, Reader<'_>), Malformed> {
        let mut reader = Reader::new(&self.columns);
        let incarnation = reader.u64()?;
        Ok((incarnation, reader))
    }
}

/// Rows of one kind whose time lies between `from_ms` and `now_ms`, up to `limit` of them, and the time of the next one
/// behind them, whether it has come or not.
pub(super) fn due(
    view: &View,
    kind: Kind,
    (from_ms, now_ms): (u64, u64),
    limit: usize,
) -> Result<(Vec<Due>, Option<u64>), ReadError> {
    let mut found = Vec::new();
    let to = Key::new(DUE, &[], INTEGER_BYTES_MAX)
        .number(kind as u64)
        .above_all();
    for row in scan(view, &kind.key(from_ms, 0), &to, Direction::Forward) {
        let (key, _) = row?;
        let row = split_key(&key).map(|(_, columns)| Due::of(columns));
        let Some(Ok(row)) = row else {
            return Err(damaged(&key, "not a due row"));
        };
        if row.at_ms > now_ms || found.len() == limit {
            return Ok((found, Some(row.at_ms)));
        }
        found.push(row);
    }
    Ok((found, None))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back_in_the_order_of_their_times(
            at_ms in 0u64..1 << 53,
            later in 0u64..1 << 53,
            name in "\\PC{1,9}",
            columns: Vec<u8>,
            bytes: Vec<u8>,
        ) {
            for kind in [Kind::Deliver, Kind::Expire, Kind::Trim, Kind::Abandon] {
                let key = due_key(kind, at_ms, &Name::new(&name), &columns);
                let (_, read) = split_key(key.as_bytes()).unwrap();
                let due = Due::of(read).unwrap();
                prop_assert_eq!((due.kind(), due.at_ms, &due.columns), (kind, at_ms, &columns));
                prop_assert_eq!(due.name.head_key(), Name::new(&name).head_key());
                let other = due_key(kind, later, &Name::new(&name), &columns);
                prop_assert_eq!(key.cmp(&other), at_ms.cmp(&later));
                prop_assert!(key >= kind.key(at_ms, 0) && key < kind.key(at_ms + 1, 0));
            }
            let _ = Due::of(&bytes);
        }
    }
}
