//! Tests of the timelines as a whole.
//!
//! Owns: one file a subject: commands against a model made from the protocol, the space that comes back, a wrong clock.
//! Promises: what a file needs of another is in `commands.rs` and `model.rs`. Must not: look below the partition.

mod access;
mod clock;
mod commands;
mod export;
mod growth;
mod image;
mod members;
mod model;
mod policies;
mod prefixes;
mod time;
mod verify;
mod virtual_tables;
