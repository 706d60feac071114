//! Rows of runs: how they are stored, written and read.
//!
//! Owns: the bytes of rows, blocks, pieces and filters. Promises: what is read is checked. Must not: know which runs
//! count.

pub(super) mod block;
pub(super) mod filter;
pub(super) mod keys;
pub(super) mod part;
pub(super) mod read;
pub(super) mod row;
pub(super) mod scan;
