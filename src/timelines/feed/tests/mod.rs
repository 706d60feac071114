//! Tests of the feed on whole partitions.
//!
//! Owns: one file a subject. Promises: none needs another. Must not: know a wire.

mod changes;
#[cfg(feature = "faults")]
mod interleavings;
mod windows;
