//! Following a partition's log, also when the partition has ended.
//!
//! Owns: the followers' handles, what is kept for them, and what else lives as long as a partition does: the tasks and
//! the memory of layers above. Promises: batches come in order, and what is held is kept. Must not: know what is in a
//! batch.

pub(super) mod each;
pub(super) mod ended;
pub(super) mod hold;
pub(super) mod hold_all;
pub(super) mod life;
pub(super) mod tail;
