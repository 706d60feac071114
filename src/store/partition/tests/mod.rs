//! Tests of a partition.
//!
//! Owns: one file a subject: against a plain map, on failing disks, on a log that takes several batches at once.
//! Promises: the toy row rules of all of them are in `model.rs`. Must not: know the rows of the layers above.

mod adopt;
mod backup;
mod cluster;
mod crash;
mod full;
#[cfg(feature = "faults")]
mod interleavings;
mod member;
mod memtable;
mod model;
mod pipeline;
#[path = "../../../../tests/simulation/random.rs"]
mod random;
mod reshape;

pub(in crate::partition) use model::{OF_EACH, OF_NOBODY, ToyRules, UNFINISHED, UNKNOWN};
