//! Reading and writing rows in a view or a transaction.
//!
//! Owns: the way from keys and rows to the partition's bytes. Promises: a row that can't be read is an error that names
//! its key, never a wrong answer. Must not: hold a view longer than its caller does.

use std::borrow::BorrowMut;
use std::ops::Bound;

use bytes::Bytes;

use super::change::{Action, Change};
use super::key::Key;
use super::row::RowWriter;
use crate::ids::TableId;
use crate::model::Direction;
use crate::partition::{Found, ReadError, Rows, Txn, View};

/// Where rows are read: a view, or a transaction that also sees its own batch.
pub trait Source {
    /// The value of a row.
    fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError>;

    /// The value of a row; of a wide one perhaps little else than these columns, which are in order. `None` = all.
    fn columns(&self, key: &Key, columns: Option<&[&str]>) -> Result<Found, ReadError>;

    /// The rows between two keys; see [`scan`].
    fn between(&self, from: &Key, to: &Key, direction: Direction) -> Rows<'_>;
}

impl Source for View {
    fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError> {
        self.get(key.as_bytes())
    }

    fn columns(&self, key: &Key, columns: Option<&[&str]>) -> Result<Found, ReadError> {
        self.get_some(key.as_bytes(), columns)
    }

    fn between(&self, from: &Key, to: &Key, direction: Direction) -> Rows<'_> {
        let (from, to) = bounds(from, to);
        self.range(from, to, direction)
    }
}

impl Source for Txn<'_> {
    fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError> {
        self.get(key.as_bytes())
    }

    fn columns(&self, key: &Key, columns: Option<&[&str]>) -> Result<Found, ReadError> {
        self.get_some(key.as_bytes(), columns)
    }

    fn between(&self, from: &Key, to: &Key, direction: Direction) -> Rows<'_> {
        let (from, to) = bounds(from, to);
        self.range(from, to, direction)
    }
}

/// The rows from `from` (inclusive) to `to` (exclusive), in the direction's order: encoded key columns and value. Lazy.
pub fn scan<'v>(rows: &'v impl Source, from: &Key, to: &Key, direction: Direction) -> Rows<'v> {
    rows.between(from, to, direction)
}

fn bounds<'k>(from: &'k Key, to: &'k Key) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    let to = Bound::Excluded(to.as_bytes());
    (Bound::Included(from.as_bytes()), to)
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

/// The error of a row that can't be read.
#[must_use]
pub fn damaged(key: &[u8], what: &str) -> ReadError {
    ReadError(format!("row {}: {what}", key.escape_ascii()))
}
