//! The wide-column model on partitions: tables, rows of versioned cells, and their formats: keys, deltas, wide rows in
//! pieces, change records.
//!
//! Owns: [`Tables`], the formats of keys and values on disk, and the row rules that the store below runs on. Promises:
//! formats name themselves in their first byte (1 row, 2 delta, 3 directory) and each value has one form; arbitrary
//! bytes never panic; all access to rows from above goes through here. Must not: know timelines.

mod access;
mod batch;
mod catalog;
mod format;
#[cfg(feature = "faults")]
pub mod fuzz;
mod index;
mod mapping;
mod memory;
mod read;
mod rows;
mod rules;
mod schema;
mod search;
mod series;
mod stream;
mod tables;
mod transaction;
mod virtual_table;
mod write;

#[cfg(test)]
mod tests;

pub use access::{
    RowPage, Source, changed_rows, damaged, delete, load, page, put, read_row, record, scan,
    scan_all, scan_behind,
};
pub use batch::Answers;
pub use catalog::{Catalog, TABLES_MAX, USER_TABLES_FROM};
pub use format::change::{Action, Change};
pub use format::columns::{Stored, cell_bytes, number, number_in, push_other, version_of};
pub use format::key::{Key, split_key};
pub use format::primary_key::{decode as key_values, key_of};
pub use format::row::{Row, RowWriter};
pub use index::{Backfill, Indexed, verify_indexes};
pub use mapping::MappingChange;
pub use memory::{Kept, Looked, Mark, Memory};
pub use read::Got;
pub use read::export::Exported;
pub use read::range::{RangePage, SCANNED_BYTES_MAX, SCANNED_ROWS_MAX};
pub use rules::{API_KEYS, BuiltInTables, REVOCATIONS, TableRules, owner_of_text};
pub use schema::Table;
pub use search::{ChangedRows, RowNow};
pub use series::SeriesTable;
pub use series::metas::SeriesRows;
pub use stream::{
    CHANGES_MAX, Cursor, DEAD, DEAD_LETTERS, FollowError, Followed, PageBounds, Place, Places,
    Scope, Shard, ShardId, ShardIterator, ShardPage, TablePage, WEBHOOK, in_turn,
};
pub use tables::Tables;
/// All that `timeline` and `people`, in the crate above, know of the store: a view, a transaction, a committed batch
/// and what belongs to these.
pub use tideline_store::partition::{
    Batch, DropContext, Each, Entry, Gap, Holder, Map, Origin, Owner, Partitions, Purpose,
    ReadError, Reason, Rows, Rules, Seal, StoreError, SubmitError, TableCounts, Tail, Txn, Verdict,
    View, caught,
};
pub use virtual_table::{Touched, VirtualRows, Walk};
pub use write::Written;
pub use write::apply::ROW_BYTES_MAX;

pub use tideline_base::ordered::Malformed;
