//! A connection that has become a session's.
//!
//! Owns: what the handshake leaves to the session. Promises: it is whole. Must not: do anything.

use bytes::Bytes;

use super::form::Form;
use super::limits::Place;
use super::session::login::Entered;
use super::socket::Socket;

/// A connection that has become a WebSocket.
pub(super) struct Upgraded {
    pub(super) socket: Socket,
    /// Counts it where a trusted proxy stands before it.
    pub(super) place: Option<Place>,
    /// What came behind the handshake.
    pub(super) read: Bytes,
    pub(super) form: Form,
    pub(super) entered: Entered,
    /// What a session without a socket of its own is called by those who send to it.
    pub(super) emulated: Option<String>,
}
