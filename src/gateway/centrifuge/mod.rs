//! The Centrifuge dialect as a server speaks it: what is beside its sessions.
//!
//! Owns: its options, its connected clients, and what it asks of timelines. Promises: what the options do not give is
//! not given. Must not: know the bytes of a message; the wire does.

pub(super) mod api;
pub(super) mod calls;
pub(super) mod emulation;
pub(super) mod hub;
mod options;

pub(super) use emulation::Emulated;
pub(super) use hub::Hub;
pub use options::{Allow, Ask, ChannelOptions, Channels, Options};
