//! Timelines looked at from outside, where nobody serves them.
//!
//! Owns: the walk over all of a view, and what must hold between its rows. Promises: each fault is told with its place.
//! Must not: write.

pub(super) mod dump;
pub(super) mod verify;
