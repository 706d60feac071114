//! A TCP connection with a buffer of what was read and not yet taken: below all lean clients of the tool.
//!
//! Owns: the socket and its input. Promises: nothing is copied but a rest that has to move to the front; waiting for
//! more can be given up without losing a byte; who reads with `poll_feed` only holds no buffer while it waits, so that
//! thousands of connections are cheap. Must not: know any protocol.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// What one read of `poll_feed` may bring.
const FEED_BYTES: usize = 256 << 10;
/// What a connection that is fed may keep allocated while it waits for the rest of a unit.
const KEPT_BYTES: usize = 4 << 10;

thread_local! {
    /// Where all connections of a thread are fed from: one buffer stays in the processor's cache, thousands do not.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

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
        Pipe::on(TcpStream::connect(address).await?, buffer_bytes)
    }

    /// As `connect`, with so many bytes (the system rounds it up) for what has come and was not read: who stops
    /// reading then stops the sender soon.
    pub(crate) async fn connect_narrow(address: &str, receive_bytes: u32) -> io::Result<Pipe> {
        let to = tokio::net::lookup_host(address).await?.next();
        let to = to.ok_or_else(|| io::Error::other(format!("{address}: no such host")))?;
        let socket = match to {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Only what is set before connecting bounds the window from the first byte.
        socket.set_recv_buffer_size(receive_bytes)?;
        Pipe::on(socket.connect(to).await?, 1 << 10)
    }

    fn on(stream: TcpStream, buffer_bytes: usize) -> io::Result<Pipe> {
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
        if self.start == self.end && self.end > 0 {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.buffer.len() {
                self.buffer.resize((self.end * 2).max(KEPT_BYTES), 0);
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

    /// Waits for bytes and hands them, behind the rest of the last time, to `each`, which tells how many it took.
    /// `each` must not read from another pipe.
    pub(crate) fn poll_feed(
        &mut self,
        context: &mut Context<'_>,
        each: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.end - self.start;
            if scratch.len() < kept + FEED_BYTES {
                scratch.resize(kept + FEED_BYTES, 0);
            }
            let mut into = ReadBuf::new(&mut scratch[kept..]);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut into))?;
            let end = kept + into.filled().len();
            if end == kept {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            scratch[..kept].copy_from_slice(&self.buffer[self.start..self.end]);
            let taken = each(&scratch[..end])?;
            self.buffer.clear();
            self.buffer.shrink_to(KEPT_BYTES);
            self.buffer.extend_from_slice(&scratch[taken..end]);
            (self.start, self.end) = (0, end - taken);
            Poll::Ready(Ok(()))
        })
    }

    /// Writes what the socket takes, and removes it from the front.
    pub(crate) fn poll_drain(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        while !bytes.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
            bytes.drain(..written);
        }
        Poll::Ready(Ok(()))
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
