//! What of timelines lies in the store: the rows, their keys, and which of them have expired.
//!
//! Owns: the formats of all rows that are not a folder's of their own. Promises: arbitrary bytes never panic. Must not:
//! decide what is written.

pub(super) mod drop_rules;
pub(super) mod head;
pub(super) mod lately;
pub(super) mod stored;
pub(super) mod tables;
pub(super) mod virtual_tables;
