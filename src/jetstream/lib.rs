//! A log that several machines share, as a stream of NATS JetStream: position = sequence, a frame = a message.
//!
//! Owns: all that is known of NATS, and the thread on which it is talked to. Promises: of `tideline-cluster`, whose
//! decisions it carries out in order: no acknowledged frame is lost, doubled or reordered, and a node that finds
//! another stream than its own stops with a sentence. Must not: decide anything of the log, or hold what frames say;
//! the [`Host`] does. Nothing outside of this crate is async because of it.

mod api;
mod beat;
mod create;
mod driver;
mod follow;
mod link;
mod names;
mod patient;
mod steady;
mod survey;

pub use create::{Beginning, Begins, adopt, begins, create, genesis, read_all, refuse_existing};
pub use driver::{Driver, Options};
pub use link::Access;
pub use steady::steady_now;
pub use survey::Demands;
pub use tideline_cluster::{CommitTime, Event, Frame, HEADER_BYTES, Host, Standing, Unready};
