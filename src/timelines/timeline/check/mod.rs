//! Timelines checked from outside, in a directory that no server has open.
//!
//! Owns: the walk over all of a view, and what must hold between its rows. Promises: each fault is reported with its
//! place. Must not: write, but for what a repair
//! has to (`mend.rs`).

pub(super) mod dump;
pub(super) mod losses;
pub(super) mod mend;
pub(super) mod verify;
