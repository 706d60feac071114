//! What lies at users, checked in a directory that no server has open.
//!
//! Owns: the walk over all of it, and what must hold. Promises: each fault is reported with its place, but for a
//! difference that the relay may still mend. Must not: write.

pub(super) mod dump;
pub(super) mod verify;
pub(super) mod verify_feeds;
