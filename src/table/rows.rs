//! Where a table's rows are, and what of them shows: stored under their keys, as an index's, or made on demand.
//!
//! Owns: the one place that distinguishes the kinds of tables. Promises: its callers need not. Must not: know what is
//! asked of a row.

use bytes::Bytes;

use tideline_base::ids::{PartitionId, TableId};
use tideline_base::ordered::Reader;
use tideline_model::{Direction, KeyValue};
use tideline_store::partition::{Batch, Partitions, ReadError, View, hash};

use super::access::{Source, damaged, scan};
use super::format::key::split_key;
use super::format::primary_key::{decode, key_of};
use super::format::versions::{Judged, Shortened, judge, shorten};
use super::index::MARK;
use super::schema::{Kind, Table};
use super::virtual_table::{Touched, Walk};
use super::{Key, Malformed};

impl Table {
    /// Where the rows are whose keys begin with these values, as many as [`Table::place_columns`] says.
    pub(super) fn place(&self, partitions: &Partitions, key: &[KeyValue]) -> PartitionId {
        match &self.kind {
            Kind::Virtual(rows) => rows.place(&key[0]),
            Kind::Stored(_) => place(partitions, self.id, &key[0]),
            Kind::Index(of) => place(partitions, of.table, &key[of.partition_key]),
        }
    }

    /// The hash by which a row is placed; `columns` are the encoded ones of its key.
    pub(super) fn home(&self, columns: &[u8]) -> Result<u64, Malformed> {
        let (table, before) = match &self.kind {
            Kind::Index(of) => (of.table, of.partition_key),
            Kind::Stored(_) | Kind::Virtual(_) => (self.id, 0),
        };
        let mut reader = Reader::new(columns);
        for _ in 0..before {
            reader.skip()?;
        }
        Ok(hash(Key::new(table, reader.skip()?, 0).as_bytes()))
    }

    /// How many values a key must begin with to tell where its row is.
    pub(super) fn place_columns(&self) -> usize {
        match &self.kind {
            Kind::Index(of) => of.partition_key + 1,
            Kind::Stored(_) | Kind::Virtual(_) => 1,
        }
    }

    /// The value of one row; of a wide one perhaps little else than `columns` (in order), if they are given.
    pub(super) fn row(
        &self,
        view: &View,
        key: &[KeyValue],
        columns: Option<&[&str]>,
    ) -> Result<Option<Bytes>, ReadError> {
        match &self.kind {
            Kind::Virtual(rows) => rows.row(view, key),
            Kind::Stored(_) | Kind::Index(_) => self.stored_row(view, key, columns),
        }
    }

    /// The same of a table whose rows are stored.
    pub(super) fn stored_row(
        &self,
        rows: &impl Source,
        key: &[KeyValue],
        columns: Option<&[&str]>,
    ) -> Result<Option<Bytes>, ReadError> {
        let key = key_of(self.id, key);
        match (&self.kind, columns) {
            (_, None) => rows.row(&key),
            (Kind::Index(_), Some(columns)) => {
                let columns = [&[MARK], columns].concat();
                Ok(rows.columns(&key, Some(&columns))?.value)
            }
            (_, columns) => Ok(rows.columns(&key, columns)?.value),
        }
    }

    /// A view's rows from `low` (inclusive) to `high` (exclusive).
    pub(super) fn rows<'v>(
        &'v self,
        view: &'v View,
        low: &[KeyValue],
        high: &[KeyValue],
        direction: Direction,
    ) -> Walk<'v> {
        match &self.kind {
            Kind::Virtual(rows) => rows.rows(view, low, high, direction),
            Kind::Stored(_) | Kind::Index(_) => self.stored_rows(view, low, high, direction),
        }
    }

    /// The same of a table whose rows are stored.
    pub(super) fn stored_rows<'v>(
        &self,
        rows: &'v impl Source,
        low: &[KeyValue],
        high: &[KeyValue],
        direction: Direction,
    ) -> Walk<'v> {
        let (low, high) = (key_of(self.id, low), key_of(self.id, high));
        let rows = scan(rows, &low, &high, direction);
        Box::new(rows.map(|row| row.map(|(key, value)| (key, Some(value)))))
    }

    /// The partition keys of a virtual table for whose followers a batch may have news.
    pub(super) fn told(&self, batch: &Batch) -> Result<Vec<String>, ReadError> {
        match &self.kind {
            Kind::Virtual(rows) => rows.told(batch),
            _ => Ok(Vec::new()),
        }
    }

    /// What a batch changed of the rows.
    pub(super) fn touched(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError> {
        if let Kind::Virtual(rows) = &self.kind {
            return rows.touched(batch);
        }
        let entries = batch.entries();
        let own = entries.filter(|entry| split_key(entry.key).is_some_and(|(id, _)| id == self.id));
        own.map(|entry| {
            let key = decode(entry.key).map_err(|_| damaged(entry.key, "not a row's key"));
            key.map(Touched::Row)
        })
        .collect()
    }

    /// What of a stored row shows; `None` = nothing, as if it were not there.
    pub(super) fn judge<'a>(
        &self,
        value: &'a [u8],
        now_ms: i64,
    ) -> Result<Option<Judged<'a>>, Malformed> {
        let mut judged = judge(value, &self.options, now_ms)?;
        let is_there = match self.kind {
            Kind::Index(_) => take_mark(&mut judged),
            Kind::Stored(_) | Kind::Virtual(_) => judged.is_there(),
        };
        Ok(is_there.then_some(judged))
    }

    /// Takes what no longer shows out of a stored row.
    pub(super) fn shorten(&self, value: &[u8], now_ms: i64) -> Result<Shortened, Malformed> {
        match self.kind {
            Kind::Index(_) if self.judge(value, now_ms)?.is_none() => Ok(Shortened::Gone),
            _ => shorten(value, &self.options, now_ms),
        }
    }
}

fn place(partitions: &Partitions, table: TableId, partition_key: &KeyValue) -> PartitionId {
    let key = key_of(table, std::slice::from_ref(partition_key));
    partitions.place(key.as_bytes())
}

/// Takes an index's mark out of a row; `false` = it has none, or that has expired.
fn take_mark(judged: &mut Judged<'_>) -> bool {
    let is_there = judged.living.first().is_some_and(|cell| cell.name == MARK);
    if is_there {
        judged.living.remove(0);
    }
    is_there
}
