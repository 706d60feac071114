//! Calls on tables, rows and streams.
//!
//! Owns: from each decoded call to the layer that does it. Promises: one decision about rights each. Must not: encode.

pub(super) mod row;
pub(in super::super) mod stream;
pub(super) mod table;
