//! The wide-column model on partitions: tables, rows of versioned cells, and their formats: keys, deltas, wide rows in
//! pieces, change records.
//!
//! Owns: [`Tables`], the formats of keys and values on disk, and the row rules that the store below runs on. Promises:
//! formats name themselves in their first byte (1 row, 2 delta, 3 directory) and each value has one form; arbitrary
//! bytes never panic; all access to rows from above goes through here. Must not: know timelines.

mod access;
mod ahead;
mod apply;
mod batch;
mod catalog;
mod cell;
mod change;
mod chunks;
mod counter;
mod delta;
mod error;
mod found;
mod key;
mod key_value;
mod options;
mod primary_key;
mod range;
mod read;
mod row;
mod rows;
mod rules;
mod schema;
mod tables;
mod update;
mod versions;
mod virtual_table;
mod write;

#[cfg(test)]
mod tests;

/// The door to the partition: what timelines hold and hand on (a view, a transaction, a committed batch) comes from
/// here, so that this list says what of the store they may know.
pub use crate::partition::{
    Batch, Direction, DropContext, Effect, Entry, Partitions, Purpose, ReadError, Reason, Rows,
    Rules, SubmitError, TableCounts, Tail, Txn, Verdict, View,
};
pub use access::{Source, damaged, delete, put, record, scan};
pub use apply::ROW_BYTES_MAX;
pub use batch::{Answers, BATCH_GET_ROWS_MAX, BATCH_WRITE_ROWS_MAX};
pub use catalog::{Catalog, USER_TABLES_FROM};
pub use change::{Action, Change};
pub use delta::DeltaWriter;
pub use error::Error;
pub use found::{COLUMNS_MAX, Consumed, FoundCell, FoundRow, RowFilter, Selection, VERSION_END};
pub use key::{Key, split_key};
pub use key_value::{Existence, KeyColumn, KeyType, KeyValue, PrimaryKey};
pub use options::{OptionsUpdate, TableOptions};
pub use primary_key::{KEY_VALUE_BYTES_MAX, key_of};
pub use range::{GetRange, RangePage, SCANNED_BYTES_MAX, SCANNED_ROWS_MAX};
pub use read::Got;
pub use row::{Cell, Row, RowWriter};
pub use rules::{Retention, TableRules};
pub use schema::{
    CAPACITY_UNITS_MAX, ColumnType, DEFINED_COLUMNS_MAX, DefinedColumn, KEY_COLUMNS_MAX,
    NAME_BYTES_MAX, NewTable, Table, Throughput,
};
pub use tables::{TABLES_MAX, TableUpdate, Tables};
pub use virtual_table::{VirtualRows, Walk};
pub use write::{
    CellChange, Condition, PutCell, ReturnContent, RowChange, RowTest, RowWrite, VALUE_BYTES_MAX,
    WRITE_BYTES_MAX, Written,
};

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
