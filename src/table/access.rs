//! Reading and writing rows in a view or a transaction.
//!
//! Owns: the way from keys and rows to the partition's bytes. Promises: a row that can't be read is an error that names
//! its key, never a wrong answer. Must not: hold a view longer than its caller does.

use std::borrow::BorrowMut;
use std::ops::Bound;

use bytes::Bytes;

use super::Malformed;
use super::format::change::{Action, Change};
use super::format::key::{Key, split_key};
use super::format::row::RowWriter;
use tideline_base::entry::KeyedEntry;
use tideline_base::ids::TableId;
use tideline_model::Direction;
use tideline_store::partition::{Batch, Found, ReadError, Rows, Txn, View};

/// Where rows are read: a view, or a transaction that also sees its own batch.
pub trait Source {
    /// The value of a row.
    fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError>;

    /// The value of a row; of a wide one perhaps little else than these columns, which are in order. `None` = all.
    fn columns(&self, key: &Key, columns: Option<&[&str]>) -> Result<Found, ReadError>;

    /// The rows between two keys; see [`scan`].
    fn between(&self, from: &Key, to: &Key, direction: Direction) -> Rows<'_>;
}

macro_rules! sources {
    ($($rows:ty),+) => {$(
        impl Source for $rows {
            fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError> {
                self.get(key.as_bytes())
            }

            fn columns(&self, key: &Key, columns: Option<&[&str]>) -> Result<Found, ReadError> {
                self.get_some(key.as_bytes(), columns)
            }

            fn between(&self, from: &Key, to: &Key, direction: Direction) -> Rows<'_> {
                let to = Bound::Excluded(to.as_bytes());
                self.range(Bound::Included(from.as_bytes()), to, direction)
            }
        }
    )+};
}

sources! { View, Txn<'_> }

/// The rows from `from` (inclusive) to `to` (exclusive), in the direction's order: encoded key columns and value. Lazy.
pub fn scan<'v>(rows: &'v impl Source, from: &Key, to: &Key, direction: Direction) -> Rows<'v> {
    rows.between(from, to, direction)
}

/// All rows whose keys begin with these columns, in order. Lazy.
pub fn scan_all<'v>(rows: &'v impl Source, of: &Key) -> Rows<'v> {
    scan_behind(rows, of, None)
}

/// The same behind a text in the next column. Lazy.
pub fn scan_behind<'v>(rows: &'v impl Source, of: &Key, after: Option<&str>) -> Rows<'v> {
    let from = match after {
        Some(after) => of.clone().string(after).above_all(),
        None => of.clone().below_all(),
    };
    scan(rows, &from, &of.clone().above_all(), Direction::Forward)
}

/// A page of a table's rows and the key columns that the next one begins with.
pub type RowPage<T> = (Vec<T>, Option<Vec<u8>>);

/// Up to `limit` rows of a table as `read` reads their key columns and values, from a key's columns on (`None` = from
/// the first).
pub fn page<T>(
    view: &View,
    table: TableId,
    (from, limit): (Option<&[u8]>, usize),
    what: &str,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<T, Malformed>,
) -> Result<RowPage<T>, ReadError> {
    let all = Key::new(table, &[], 1);
    let start = match from {
        Some(columns) => Key::new(table, columns, 0),
        None => all.clone().below_all(),
    };
    let mut found = Vec::new();
    for row in scan(view, &start, &all.above_all(), Direction::Forward) {
        let row = row?;
        if found.len() == limit {
            return read_row(&row, what, |columns, _| Ok((found, Some(columns.to_vec()))));
        }
        found.push(read_row(&row, what, &mut read)?);
    }
    Ok((found, None))
}

/// The row of a key as `decode` reads it, if there is one; `what` says what it should have been.
pub fn load<T>(
    rows: &impl Source,
    key: &Key,
    what: &str,
    decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
) -> Result<Option<T>, ReadError> {
    let Some(value) = rows.row(key)? else {
        return Ok(None);
    };
    let row = decode(&value).map_err(|_| damaged(key.as_bytes(), what))?;
    Ok(Some(row))
}

/// A row of a scan as `read` reads its key columns and its value; `what` says what it should have been.
pub fn read_row<T>(
    (key, value): &(Bytes, Bytes),
    what: &str,
    read: impl FnOnce(&[u8], &[u8]) -> Result<T, Malformed>,
) -> Result<T, ReadError> {
    let columns = split_key(key).ok_or(Malformed);
    let row = columns.and_then(|(_, columns)| read(columns, value));
    row.map_err(|_| damaged(key, what))
}

/// Writes a whole row whose cells have `version`. Gives the number of the entry.
pub fn put(txn: &mut Txn<'_>, key: Key, mut row: impl BorrowMut<RowWriter>, version: i64) -> u32 {
    txn.put(key.as_bytes(), row.borrow_mut().at(version))
}

/// Deletes a row. Gives the number of the entry.
pub fn delete(txn: &mut Txn<'_>, key: Key) -> u32 {
    txn.delete(key.as_bytes())
}

/// Records for the log's followers that `entries` rows from the entry `first` on were treated so.
pub fn record(txn: &mut Txn<'_>, table: TableId, action: Action, first: u32, entries: u32) {
    let change = Change {
        table,
        action,
        first,
        entries,
        ..Change::default()
    };
    txn.change(change.encode());
}

/// The rows of a table that a batch's change records name, in order: what was done to each, its key columns and its
/// entry.
pub fn changed_rows(batch: &Batch, table: TableId) -> Result<Vec<ChangedRow<'_>>, Malformed> {
    let mut rows = Vec::new();
    for record in batch.changes() {
        let change = Change::decode(record)?;
        if change.table != table {
            continue;
        }
        for entry in batch.entries_in(change.indexes()).ok_or(Malformed)? {
            let (_, columns) = split_key(entry.key).ok_or(Malformed)?;
            rows.push((change.action, columns, entry));
        }
    }
    Ok(rows)
}

/// See [`changed_rows`].
pub(super) type ChangedRow<'b> = (Action, &'b [u8], KeyedEntry<'b>);

/// The error of a row that can't be read.
#[must_use]
pub fn damaged(key: &[u8], what: &str) -> ReadError {
    ReadError(format!("row {}: {what}", key.escape_ascii()))
}
