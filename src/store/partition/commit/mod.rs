//! The way of a write: from the queue to the writer's batch, the log, the disk and the answer.
//!
//! Owns: group commit, the room that it keeps on the disk, and its beginning, the recovery. Promises: a closure takes
//! effect whole or not at all, after those submitted before it, and is answered after its batch is on disk. Must not:
//! know what a row is.

pub(super) mod disk_reserve;
mod filling;
pub(super) mod flush_lag;
pub(super) mod in_flight;
pub(super) mod intake;
pub(super) mod job;
pub(super) mod pending;
pub(super) mod queue;
pub(super) mod recovery;
pub(super) mod submit;
pub(super) mod syncer;
pub(super) mod txn;
pub(super) mod write_set;
pub(super) mod writer;
