//! What is said of messages: appends, edits, pins, reactions, hides, schedules.
//!
//! Owns: these families' parameters and results; messages and entries themselves are the model's. Promises: a type is
//! what its schema says. Must not: decide.

pub(super) mod append;
pub mod grow;
pub mod hide;
pub mod message;
pub mod pin;
pub mod reaction;
pub mod schedule;
pub mod search;

pub(super) use tideline_model::entry::{self, nested};
