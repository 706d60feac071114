//! The partition against a plain map, beside its writer, on failing disks and on a log that takes several batches at
//! once.

mod crash;
mod member;
mod memtable;
mod model;
mod pipeline;

pub(in crate::partition) use model::ToyRules;
