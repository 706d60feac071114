//! Timelines, people, and what follows the change log: the feed, the relay, the timers, changes of partitions.
//!
//! Owns: what PROTOCOL says of messages and people, and the tables that they lie in. Promises: those that
//! each module's file opens with. Must not: know JSON-RPC or sockets.

pub mod feed;
#[cfg(feature = "faults")]
pub mod fuzz;
pub mod people;
pub mod relay;
pub mod reshape;
pub mod timeline;
pub mod timers;
