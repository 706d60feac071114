//! What is said of messages: appends, edits, pins, reactions, hides, schedules.
//!
//! Owns: these families' parameters and results, and the forms of entries. Promises: a type is what its schema says.
//! Must not: decide.

pub(super) mod append;
pub(super) mod entry;
pub(super) mod entry_schema;
pub mod hide;
pub mod message;
pub(super) mod nested;
pub mod pin;
pub mod reaction;
pub mod schedule;
