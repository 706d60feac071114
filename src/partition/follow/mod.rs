//! Following a partition's log, also when the partition has ended.
//!
//! Owns: the followers' handles, and what is kept for them. Promises: each batch is seen once, in order. Must not: know
//! what is in a batch.

pub(super) mod each;
pub(super) mod ended;
pub(super) mod hold;
pub(super) mod life;
pub(super) mod tail;
