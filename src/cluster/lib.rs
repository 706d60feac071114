//! What the nodes of a cluster decide about one log that they share: who may write to it, what was acknowledged, who
//! may answer reads, and when a node must stop.
//!
//! Owns: these decisions, as functions of events and time. Promises: no frame is acknowledged by two nodes, or lost,
//! doubled or reordered; a read under a lease shows every write that was acknowledged before it; a node stops, and says
//! why, rather than go on with another history. Must not: have a socket, a thread or a clock. A driver brings a
//! [`Node`] its events, and does its commands in order: `src/jetstream/`, with a real stream, and the worlds in
//! `tests/`.
//!
//! docs/INTERNALS.md, "A cluster's decisions", shows the way of one frame through these files.

mod attach;
mod frame;
pub mod guards;
mod halt;
mod host;
mod lease;
pub mod nats_config;
mod node;
mod place;
mod plant;
pub mod rebuild;
mod settle;
#[cfg(test)]
mod tests;
mod trim;
mod watch;
mod whole;

pub use attach::{LOOK_PATIENCE_MS, StreamFacts};
pub use frame::{Claim, Content, Draft, Genesis, Sealed};
pub use halt::Halt;
pub use host::{Event, Host};
pub use lease::{ReadProof, SteadyMs};
pub use node::{
    BACK_OFF_MS, Command, Node, OWNER_SILENCE_MS_MIN, Options, Reading, Standing, Unready,
};
pub use place::{Place, RECENT_MAX};
pub use settle::Answer;
pub use trim::TrimOptions;
pub use watch::Beat;
pub use whole::{CommitTime, Frame, HEADER_BYTES};
