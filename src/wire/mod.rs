//! What is said on sockets, as types: requests, replies, pushes, refusals, close codes, limits, and the dialects
//! that turn them into bytes and back.
//!
//! Owns: PROTOCOL's shapes and its rules about values, names, identifiers and limits. A [`Request`] that leaves this
//! module is whole and checked: lengths, ranges, exclusions and page limits are settled, so nothing behind it checks
//! them again. Promises: no input, however broken or deep, panics or overflows the stack; every refusal names its
//! [`Reason`]. Must not: do I/O, know sockets or sessions, or import a layer above `ids`, `ordered`, `metrics` and
//! `value`. JSON-RPC is one dialect (`jsonrpc`), in JSON or MessagePack, Centrifuge's protocol another (`centrifuge`);
//! requests and replies know nothing of them.

#[macro_use]
mod listed;

mod append;
pub mod centrifuge;
pub mod changes;
mod check;
mod close;
pub mod conversation;
mod dialect;
mod entry;
mod entry_schema;
mod failure;
pub mod feed;
mod generator;
pub mod hide;
pub mod jsonrpc;
pub mod key;
mod limits;
pub mod log;
pub mod member;
pub mod message;
mod methods;
mod needs;
mod nested;
pub mod new_member;
mod news;
mod openrpc;
mod params;
pub mod partition;
pub mod pin;
pub mod position;
mod positions;
pub mod prefixes;
pub mod push;
pub mod reaction;
pub mod readers;
mod reason;
pub mod receipt;
pub mod row;
pub mod row_filter;
mod rules;
pub mod schedule;
pub mod schemas;
pub mod server;
pub mod session;
pub mod sessions;
pub mod settings;
pub mod signal;
pub mod stream;
mod subscriptions;
pub mod sync;
pub mod table;
pub mod tablestore;
pub mod timeline;
pub mod webhook;
pub use check::check_user;
pub use close::Close;
pub use dialect::{Call, Dialect, Frames, Id, Incoming, Ticket, Together};
pub use entry::{Columns, Entry, Integers, OneValue, Patch};
pub use failure::{Actual, Details, Failure, Said};
pub use limits::Limits;
pub use methods::{Method, Reply, Request};
pub use needs::Needs;
pub use openrpc::openrpc;
pub(crate) use params::parameters;
pub use push::{Ended, Push};
pub use reason::Reason;
