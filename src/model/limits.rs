//! The limits of keys, cells, requests and definitions.
//!
//! Owns: the numbers. They are part of Tablestore's protocol, because SDKs and their tests compare the texts that name
//! them; so they are constants and no settings. Must not: check anything.

/// Bytes of a table's or column's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Columns of a primary key.
pub const KEY_COLUMNS_MAX: usize = 4;
/// Columns of an index's whole key: its own, and those of its table's.
pub const INDEX_KEY_COLUMNS_MAX: usize = 2 * KEY_COLUMNS_MAX;
/// Bytes of a text or binary in a primary key.
pub const KEY_VALUE_BYTES_MAX: usize = 1024;
/// Defined columns of a table.
pub const DEFINED_COLUMNS_MAX: usize = 32;
/// Secondary indexes of a table.
pub const INDEXES_MAX: usize = 5;
/// Search indexes of a table.
pub const SEARCH_INDEXES_MAX: usize = 16;
/// Bytes of the columns that an index's row may hold: one is written with each row that it is of.
pub const INDEX_ROW_BYTES_MAX: usize = 16 << 20;
/// Bytes of an index's key as it is stored; only keys of many columns with many zero bytes come so far.
pub const INDEX_KEY_BYTES_MAX: usize = 16 << 10;
/// Reserved capacity units of a table, for reading and for writing.
pub const CAPACITY_UNITS_MAX: i64 = 100_000;
/// Bytes of an attribute's text or binary.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Attribute cells of a write of one row, and columns that a read names; a row has no limit.
pub const COLUMNS_MAX: usize = 1024;
/// Bytes of the data of a PutRow or UpdateRow, and of all rows of a BatchWriteRow.
pub const WRITE_BYTES_MAX: usize = 4 << 20;
/// Bytes of the data that one local transaction writes.
pub const TRANSACTION_BYTES_MAX: usize = 4 << 20;
/// How long a local transaction may be open, ms.
pub const TRANSACTION_LIFE_MS: u64 = 60_000;
/// Rows of a BatchWriteRow.
pub const BATCH_WRITE_ROWS_MAX: usize = 200;
/// Rows of a BatchGetRow.
pub const BATCH_GET_ROWS_MAX: usize = 100;
/// Filters in a filter, inner ones and leaves.
pub const FILTER_NODES_MAX: usize = 32;
/// Bytes of a filter's expression as it is written: reading one takes many times as much.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Versions are times in [0, this) ms.
pub const VERSION_END: i64 = i64::MAX / 1_000;
/// The largest offset of versions from the time of the write, s.
pub const VERSION_OFFSET_S_MAX: i64 = i64::MAX / 1_000_000;
/// Bytes that a version's time counts.
pub const VERSION_BYTES: usize = 8;
