//! Tablestore's requests, decoded.
//!
//! Owns: what each operation asks. Promises: what comes out is checked against the protocol's limits. Must not: decide
//! what the tables decide.

pub(super) mod batch;
pub(super) mod cells;
pub(super) mod filter;
pub(super) mod index;
pub(super) mod read;
pub(super) mod stream;
pub(super) mod table;
pub(super) mod transaction;
pub(super) mod write;
