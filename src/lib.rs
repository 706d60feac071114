//! Tideline: timelines on a commit log, behind a WebSocket gateway.
//!
//! The modules are layers; ARCHITECTURE.md has the table and `tests/tidy.rs` holds it. docs/INTERNALS.md has the ways
//! of calls through them in detail.

pub mod access;
pub mod admin;
pub mod bounds;
pub mod commands;
pub mod config;
pub mod credentials;
mod decode;
mod disk;
mod entry;
mod faults;
pub mod feed;
pub mod gateway;
pub mod health;
pub mod ids;
mod image;
pub mod journal;
mod log;
pub mod metrics;
pub mod model;
mod ordered;
pub mod partition;
pub mod people;
pub mod relay;
pub mod reshape;
pub mod secret;
pub mod server;
pub mod store;
pub mod table;
pub mod timeline;
pub mod timers;
pub mod tls;
pub mod webhook;
pub mod wire;
