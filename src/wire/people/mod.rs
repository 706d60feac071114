//! What is said of users: conversations, feeds, receipts, positions.
//!
//! Owns: these families' parameters and results. Promises: a type is what its schema says. Must not: decide.

pub mod conversation;
pub mod feed;
pub mod position;
pub(super) mod positions;
pub mod receipt;
