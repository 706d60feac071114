//! What is said of timelines: their members and readers, signals, syncs and subscriptions, and the news of them.
//!
//! Owns: these families' parameters and results. Promises: a type is what its schema says. Must not: decide.

pub mod member;
pub mod new_member;
pub(super) mod news;
pub(super) mod open_places;
pub mod prefixes;
pub mod readers;
pub mod settings;
pub mod signal;
pub(super) mod subscriptions;
pub mod sync;
pub mod timeline;
