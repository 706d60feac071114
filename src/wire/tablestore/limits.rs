//! The limits of the protocol, as the service documents or shows them.
//!
//! Owns: the numbers. They are part of the protocol, since SDKs and their tests compare the texts that name them; so
//! they are constants and no settings. Must not: check anything.

/// Bytes of a table's or column's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Columns of a primary key.
pub const KEY_COLUMNS_MAX: usize = 4;
/// Bytes of a text or binary in a primary key.
pub const KEY_VALUE_BYTES_MAX: usize = 1024;
/// Defined columns of a table.
pub const DEFINED_COLUMNS_MAX: usize = 32;
/// Bytes of an attribute's text or binary.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Attribute cells of one write of one row; a row has no limit.
pub const WRITE_COLUMNS_MAX: usize = 1024;
/// Names in `columns_to_get`.
pub const READ_COLUMNS_MAX: usize = 1024;
/// Bytes of the data of a PutRow or UpdateRow, and of all rows of a BatchWriteRow.
pub const WRITE_BYTES_MAX: usize = 4 << 20;
/// Rows of a BatchWriteRow.
pub const BATCH_WRITE_ROWS_MAX: usize = 200;
/// Rows of a BatchGetRow.
pub const BATCH_GET_ROWS_MAX: usize = 100;
/// Filters in a filter, inner ones and leaves.
pub const FILTER_NODES_MAX: usize = 32;
/// How far a request's date may be from the server's clock, ms.
pub const DATE_WINDOW_MS: u64 = 15 * 60 * 1000;
/// Versions and the ends of time ranges are below this, ms.
pub const TIMESTAMP_END: i64 = i64::MAX / 1000;
/// The largest offset of versions from the time of the write, s.
pub const DEVIATION_SECONDS_MAX: i64 = i64::MAX / 1_000_000;
/// The offset of a table that names none, s.
pub const DEVIATION_SECONDS_DEFAULT: i64 = 86_400;
/// Bytes that a version's timestamp counts for.
pub const TIMESTAMP_BYTES: usize = 8;
/// Bytes of a body that reads or writes rows: the data of a batch, and room for its names and framing.
pub const BODY_BYTES_MAX: usize = 8 << 20;
/// Bytes of a body about tables.
pub const TABLE_BODY_BYTES_MAX: usize = 256 << 10;
/// Fields of a body: a batch of 100 tables with 1024 columns each, and room. What an empty field of two bytes becomes
/// in memory is many times as large, so their number has to have a limit of its own.
pub const FIELDS_MAX: usize = 1 << 17;
