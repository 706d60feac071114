//! A connection that is one of HTTP no more.
//!
//! Owns: what the handshake leaves to the session. Promises: it is whole. Must not: do anything.

use std::sync::Arc;

use bytes::Bytes;

use super::super::form::Form;
use super::super::limits::ConnectionGuard;
use super::super::session::events::Streaming;
use super::super::session::login::Entered;
use super::socket::Socket;

/// What a connection has become.
pub(in super::super) enum Left {
    /// A session's.
    Session(Upgraded),
    /// One by which another node passes a client's on, if it answers this challenge.
    Passed(Socket, Arc<str>),
}

/// A connection that has become a WebSocket, or that one response takes to its end.
pub(in super::super) struct Upgraded {
    pub(in super::super) socket: Socket,
    /// Counts it for its client's address, if it came through a trusted proxy.
    pub(in super::super) guard: Option<ConnectionGuard>,
    /// What came behind the handshake.
    pub(in super::super) read: Bytes,
    pub(in super::super) form: Form,
    pub(in super::super) entered: Entered,
    /// The name by which clients send to a session that has no socket of its own.
    pub(in super::super) emulated: Option<String>,
    /// What it streams, if it is a response of HTTP.
    pub(in super::super) streaming: Option<Box<Streaming>>,
}
