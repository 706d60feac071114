//! Splits and merges, of partitions that are served and of a directory that nobody serves.
//!
//! Owns: the making of children, the cut, and what becomes of the parents. Promises: until the cut nothing has changed;
//! from the cut on every new caller finds the children. Must not: know what a row is.

pub(super) mod cut;
pub(super) mod fault_point;
pub(super) mod gate;
pub(super) mod inherited;
pub(super) mod making;
pub(super) mod noted;
pub(super) mod offline;
pub(super) mod plan;
