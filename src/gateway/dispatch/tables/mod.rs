//! Calls on tables, rows and streams.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: rights are decided here, before a table or
//! a stream is looked at. Must not: encode.

pub(super) mod row;
pub(super) mod sql;
pub(in super::super) mod stream;
pub(super) mod table;
