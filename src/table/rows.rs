//! Where a table's rows are: stored under their keys, or made when they are read.
//!
//! Owns: the one place that distinguishes stored tables from virtual ones. Promises: its callers need not. Must not:
//! look into a row.

use bytes::Bytes;

use crate::ids::PartitionId;
use crate::model::{Direction, KeyValue};
use crate::partition::{Partitions, ReadError, View};

use super::access::{Source, scan};
use super::primary_key::key_of;
use super::schema::Table;
use super::virtual_table::Walk;

impl Table {
    /// Where the rows of a partition key are.
    pub(super) fn place(&self, partitions: &Partitions, partition_key: &KeyValue) -> PartitionId {
        match &self.virtual_rows {
            Some(rows) => rows.place(partition_key),
            None => {
                let key = key_of(self.id, std::slice::from_ref(partition_key));
                partitions.place(key.as_bytes())
            }
        }
    }

    /// The value of one row; of a wide one perhaps little else than `columns` (in order), if they are given.
    pub(super) fn row(
        &self,
        view: &View,
        key: &[KeyValue],
        columns: Option<&[&str]>,
    ) -> Result<Option<Bytes>, ReadError> {
        match &self.virtual_rows {
            Some(rows) => rows.row(view, key),
            None => self.stored_row(view, key, columns),
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
        match columns {
            Some(columns) => Ok(rows.columns(&key, Some(columns))?.value),
            None => rows.row(&key),
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
        match &self.virtual_rows {
            Some(rows) => rows.rows(view, low, high, direction),
            None => self.stored_rows(view, low, high, direction),
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
}
