//! What of a partition is in memory: memtables, and views that compose them with the image.
//!
//! Owns: memtables and their way into the image. Promises: a view shows a state between two batches. Must not:
//! write the log, or answer a write.

pub(super) mod batches;
pub(super) mod flusher;
pub(super) mod memtable;
pub(super) mod merge;
pub(super) mod rows;
pub(super) mod view;
pub(super) mod walk;
