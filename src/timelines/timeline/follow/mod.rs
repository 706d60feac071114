//! What committed batches say of timelines.
//!
//! Owns: the way from a batch to events, and the heads that memory knows. Promises: what a batch did is read from the
//! batch alone. Must not: write.

pub(super) mod events;
pub(super) mod heads;
pub(super) mod touched;
