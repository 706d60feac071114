//! What lies at users, looked at where nobody serves it.
//!
//! Owns: the walk over all of it, and what must hold. Promises: each fault is told with its place. Must not: write.

pub(super) mod dump;
pub(super) mod verify;
pub(super) mod verify_feeds;
