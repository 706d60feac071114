//! What is said on sockets, as types: requests, replies, pushes, refusals, close codes, limits, and the dialects that
//! turn them into bytes and back.
//!
//! Owns: PROTOCOL's shapes and its rules about values, names, identifiers and limits. A [`Request`] that leaves this
//! crate is whole and checked: lengths, ranges, exclusions and page limits are settled, so nothing behind it checks
//! them again. Promises: no input, however broken or deep, panics or overflows the stack; every refusal names its
//! [`Reason`]. Must not: do I/O, know sockets or sessions, or import any crate of ours but `base` and `model`. JSON-RPC
//! is one dialect (`jsonrpc`), in JSON or MessagePack, Centrifuge's protocol another (`centrifuge`), server-sent events
//! the third (`events`); requests and replies know nothing of them.

#[macro_use]
mod listed;

mod about;
pub mod centrifuge;
mod check;
mod close;
mod dialect;
pub mod durable;
pub mod events;
mod failure;
pub mod jsonrpc;
mod limits;
pub mod messages;
mod methods;
mod needs;
pub mod otlp;
mod params;
pub mod people;
pub mod push;
mod reasons;
pub mod schema;
pub mod server;
pub mod tables;
pub mod tablestore;
pub mod timelines;
pub use check::{check_timeline, check_user, checked};
pub use close::Close;
pub use dialect::{Call, Dialect, Frames, Id, Incoming, Together};
pub use failure::{Actual, Closed, Details, Failure, Said};
pub use limits::Limits;
pub use messages::entry::{Columns, Entry, Integers, OneValue, Patch};
pub use messages::search;
pub use methods::{Method, Reply, Request};
pub use needs::Needs;
pub use params::parameters;
pub use push::{Ended, Push};
pub use reasons::Reason;
pub use schema::openrpc::openrpc;
