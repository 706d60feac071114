//! A TCP connection with a buffer of what was read and not yet taken: below all lean clients of the tool.
//!
//! Owns: the socket and its input. Promises: nothing is copied but a rest that has to move to the front; waiting for more
//! can be given up without losing a byte. Must not: know any protocol.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    stream: TcpStream,
    /// Bytes that were read: `start..end` are not taken yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Pipe {
    /// Connects to `host:port`. The buffer begins with so many bytes and grows when one unit does not fit.
    pub(crate) async fn connect(address: &str, buffer_bytes: usize) -> io::Result<Pipe> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Pipe {
            stream,
            buffer: vec![0; buffer_bytes.max(1)],
            start: 0,
            end: 0,
        })
    }

    /// Writes all of it.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Waits until more bytes are there. Cancel-safe.
    pub(crate) async fn more(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end * 2, 0);
            }
        }
        match self.stream.read(&mut self.buffer[self.end..]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }

    /// What was read and not taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the first `count` of them.
    pub(crate) fn take(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }
}
