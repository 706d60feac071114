//! Numbers that the server gives to rows: one counter per table and partition key.
//!
//! Owns: counter rows. Promises: numbers of one partition key are 1, 2, 3, … without a hole in the order of commits,
//! and never come again while the table exists, whatever is deleted: the counter is written in the same batch as the
//! row. Must not: know what else is in the row.

use tideline_base::ids::TableId;
use tideline_model::{KeyValue, ValueRef};
use tideline_store::partition::{ReadError, Txn, hash};

use super::super::Key;
use super::super::access::{load, put};
use super::super::format::columns::number_in;
use super::super::format::primary_key::key_of;
use super::super::format::row::RowWriter;

/// Counters: table ID, partition key -> last number. In the partition of the rows that they number.
pub(in super::super) const COUNTERS: TableId = TableId(17);

const LAST: &str = "last";

/// A number that is not taken yet.
pub(in super::super) struct Next {
    key: Key,
    pub(in super::super) number: i64,
}

impl Next {
    /// The number after the last one of this partition key.
    pub(in super::super) fn find(
        txn: &Txn<'_>,
        table: TableId,
        partition_key: &KeyValue,
    ) -> Result<Next, ReadError> {
        let rows = key_of(table, std::slice::from_ref(partition_key));
        let key = Key::new(COUNTERS, &[], 9)
            .number(u64::from(table.0))
            .columns(&rows.as_bytes()[4..]);
        let last = load(txn, &key, "not a counter", |row| number_in(row, LAST))?;
        let number = last.unwrap_or(0).cast_signed() + 1;
        Ok(Next { key, number })
    }

    /// Takes it.
    pub(in super::super) fn take(self, txn: &mut Txn<'_>) {
        let row = RowWriter::of(LAST, ValueRef::Integer(self.number));
        let now = txn.now_ms().cast_signed();
        put(txn, self.key, row, now);
    }
}

/// The hash of the partition key whose rows a counter numbers; `columns` are the counter's key columns.
pub(in super::super) fn numbered(columns: &[u8]) -> Option<u64> {
    let table = table_of(columns)?;
    let mut reader = tideline_base::ordered::Reader::new(columns);
    reader.u64().ok()?;
    Some(hash(Key::new(table, reader.rest(), 0).as_bytes()))
}

/// The table whose rows a counter numbers; `columns` are the counter's key columns.
pub(in super::super) fn table_of(columns: &[u8]) -> Option<TableId> {
    let number = tideline_base::ordered::Reader::new(columns).u64().ok()?;
    u32::try_from(number).ok().map(TableId)
}
