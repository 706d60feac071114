//! Tideline: timelines on a commit log, behind a WebSocket gateway.
//!
//! The layers are crates, one above the other; ARCHITECTURE.md shows them, Cargo holds them. Here they come together:
//! the configuration, the server's start and end, the commands. docs/INTERNALS.md has the ways of calls in detail.

pub use tideline_base::{bounds, clock, decode, disk, faults, ids, journal, metrics, secret, tls};
pub use tideline_gateway as gateway;
pub use tideline_gateway::{credentials, health, webhook};
pub use tideline_model as model;
pub use tideline_model::access;
pub use tideline_search as search;
pub use tideline_store::partition;
pub use tideline_table as table;
pub use tideline_timelines::{feed, people, relay, reshape, timeline, timers};
pub use tideline_wire as wire;

pub mod admin;
pub mod commands;
pub mod config;
mod data_directory;
pub mod logging;
pub mod offsite;
pub mod server;
pub mod supervisor;
