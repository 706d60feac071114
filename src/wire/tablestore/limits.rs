//! The limits of requests as a whole; those of rows are in [`tideline_model::limits`].
//!
//! Owns: the numbers. They are part of the protocol and no settings. Must not: check anything.

/// How far a request's date may be from the server's clock, ms.
pub const DATE_WINDOW_MS: u64 = 15 * 60 * 1000;
/// Bytes of a body that reads or writes rows: the data of a batch, and room for its names and framing.
pub const BODY_BYTES_MAX: usize = 8 << 20;
/// Bytes of a body about tables.
pub const TABLE_BODY_BYTES_MAX: usize = 256 << 10;
/// Fields of a body: a batch of 100 tables with 1024 columns each, and room. What an empty field of two bytes becomes
/// in memory is many times as large, so their number has to have a limit of its own.
pub const FIELDS_MAX: usize = 1 << 17;
