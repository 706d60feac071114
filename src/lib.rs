//! Tideline: timelines on a commit log, behind a WebSocket gateway.
//!
//! The modules are layers; ARCHITECTURE.md has the table and `tests/tidy.rs` holds it.

pub mod admin;
pub mod config;
pub mod disk;
pub mod dump;
pub mod feed;
pub mod gateway;
pub mod ids;
pub mod image;
pub mod log;
pub mod metrics;
pub mod model;
pub mod ordered;
pub mod partition;
pub mod server;
pub mod table;
pub mod timeline;
pub mod verify;
pub mod wire;
