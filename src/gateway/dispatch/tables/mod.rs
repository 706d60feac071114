//! Calls on tables, rows and streams.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: a call's rights go with it to that layer,
//! which decides where it looks at the rows. Must not: encode.

pub(super) mod row;
pub(in super::super) mod stream;
pub(super) mod table;
