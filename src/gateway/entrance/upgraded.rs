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
use super::{Accept, Ends};

/// What a connection has become.
pub(in super::super) enum Left {
    /// A session's.
    Session(Box<Upgraded>),
    /// One by which another node passes a client's on.
    Passed(Box<Passed>),
}

/// A connection of another node, if it answers the challenge.
pub(in super::super) struct Passed {
    pub(in super::super) socket: Socket,
    pub(in super::super) challenge: Arc<str>,
    pub(in super::super) ends: Ends,
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

impl Upgraded {
    /// What a handshake of this connection has accepted; `read` came behind it.
    pub(in super::super) fn of(accept: Accept, socket: Socket, read: Bytes) -> Box<Upgraded> {
        let Accept {
            form,
            entered,
            guard,
            streaming,
        } = accept;
        Box::new(Upgraded {
            socket,
            guard,
            read,
            form,
            entered,
            emulated: None,
            streaming,
        })
    }
}
