//! The bytes of rows: cells, rows, deltas, wide rows in pieces, keys, change records; and which stored cells live.
//!
//! Owns: these formats. Promises: each value has one form, and arbitrary bytes never panic. Must not: read or write the
//! store.

pub(super) mod cell;
pub(super) mod change;
pub(super) mod chunks;
pub(super) mod columns;
pub(super) mod delta;
pub(super) mod key;
pub(super) mod primary_key;
pub(super) mod row;
pub(super) mod versions;
