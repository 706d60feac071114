//! The rows of timelines: their formats and keys, when merges may drop them, what the writer remembers of them, and the
//! virtual tables that show them.
//!
//! Owns: the formats of rows that have no folder of their own. Promises: arbitrary bytes never panic. Must not: decide
//! what a call writes.

pub(super) mod drop_rules;
pub(super) mod epoch;
pub(super) mod head;
pub(super) mod lately;
pub(super) mod stored;
pub(super) mod stored_tables;
pub(super) mod tables;
pub(super) mod virtual_tables;
