//! A WebSocket without a network: bytes in, messages out.
//!
//! Owns: a client's handshake, and the server's frames. Promises: what comes in any pieces is the same messages. Must
//! not: judge; a server that breaks the protocol is found by other tests.

use serde_json::Value;

/// What a client sends first.
pub(crate) const HELLO: &[u8] =
    b"GET /v1/connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2ltdWxhdGlvbjEyMzQ1Ng==\r\n\
Sec-WebSocket-Protocol: tideline.v1.json\r\n\r\n";

/// One side of a connection.
#[derive(Default)]
pub(crate) struct Socket {
    bytes: Vec<u8>,
    /// Of a message that comes in several frames.
    message: Vec<u8>,
    is_open: bool,
}

/// What came.
pub(crate) enum Came {
    /// The handshake is done.
    Open,
    /// It was refused.
    Refused,
    /// A message.
    Message(Value),
    /// A ping, to be answered with this.
    Ping(Vec<u8>),
    /// The server ends it.
    Close,
}

impl Socket {
    /// Takes bytes, and returns what is whole by now.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Came> {
        self.bytes.extend(bytes);
        let mut came = Vec::new();
        if !self.is_open {
            let Some(at) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                return came;
            };
            self.is_open = self.bytes.starts_with(b"HTTP/1.1 101");
            if !self.is_open {
                return vec![Came::Refused];
            }
            self.bytes.drain(..at + 4);
            came.push(Came::Open);
        }
        while let Some((first, payload)) = self.frame() {
            match first & 0x0f {
                0 | 1 => {
                    self.message.extend(payload);
                    if first & 0x80 == 0 {
                        continue;
                    }
                    let message = serde_json::from_slice(&std::mem::take(&mut self.message));
                    came.push(Came::Message(message.expect("JSON of the server")));
                }
                9 => came.push(Came::Ping(payload)),
                _ => came.push(Came::Close),
            }
        }
        came
    }

    /// Its first byte and what is in it.
    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let (first, second) = (*self.bytes.first()?, *self.bytes.get(1)?);
        let extra = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let size = self.bytes.get(2..2 + extra)?;
        let size = size
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let size = if extra == 0 {
            usize::from(second & 0x7f)
        } else {
            size
        };
        let payload = self.bytes.get(2 + extra..2 + extra + size)?.to_vec();
        self.bytes.drain(..2 + extra + size);
        Some((first, payload))
    }
}
