//! Tests of the tables as a whole.
//!
//! Owns: what the subjects share. Promises: one file per subject. Must not: be in a build that is not a test.

mod bed;
mod commands;
mod condition;
mod indexes;
mod model;
mod ranges;
mod reclaim;
mod row_size;
mod serializable;
mod series;
mod stream;
mod stream_speed;
mod streams;
mod transactions;

pub(super) use commands::{PLANTED_HOURS, PLANTED_OFFSET_S};
pub(super) use condition::evaluated;
pub(super) use indexes::PLANTED_INDEX_OFFSET_S;
