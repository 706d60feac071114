//! A TCP connection with what was read and not yet taken: below all clients of the tool.
//!
//! Owns: the socket and its input. Promises: waiting can be given up without losing a byte; a connection that waits
//! holds no buffer, so that thousands are cheap. Must not: know any protocol.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use super::secure::secure;

/// What one read may bring.
const READ_BYTES: usize = 256 << 10;
/// What a connection may keep allocated while it waits for the rest of a unit.
const KEPT_BYTES: usize = 4 << 10;

thread_local! {
    /// All connections of a thread read into it: one buffer stays in the processor's cache, thousands do not.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How a connection is made.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// As the system does it.
    Plain,
    /// With so many bytes (the system rounds it up) for what has come and was not read: a client that stops reading
    /// then stops the sender soon.
    Narrow(u32),
    /// From this address of the machine.
    From(IpAddr),
}

impl Way {
    async fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = match to.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        match self {
            Way::Plain => {}
            // Only what is set before connecting bounds the window from the first byte.
            Way::Narrow(bytes) => socket.set_recv_buffer_size(bytes)?,
            Way::From(from) => socket.bind(SocketAddr::new(from, 0))?,
        }
        socket.connect(to).await
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Pipe {
    stream: Box<dyn Stream>,
    /// What was read and not taken.
    rest: Vec<u8>,
}

/// A socket, perhaps with TLS on it.
trait Stream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> Stream for S {}

impl Pipe {
    /// Connects to `host:port`.
    pub async fn connect(address: &str, way: Way) -> io::Result<Pipe> {
        let mut connected = Err(io::Error::other(format!("{address}: no such host")));
        for to in tokio::net::lookup_host(address).await? {
            connected = way.connect(to).await;
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        stream.set_nodelay(true)?;
        Ok(Pipe {
            stream: Box::new(stream),
            rest: Vec::new(),
        })
    }

    /// Speaks TLS from now on, with the server at `host:port`.
    pub(crate) async fn secured(self, host: &str) -> io::Result<Pipe> {
        let stream = Box::new(secure(self.stream, host).await?);
        Ok(Pipe { stream, ..self })
    }

    /// Waits for bytes, and writes meanwhile what the socket takes of `out`, from its front. What came, behind the rest
    /// of the last time, goes to `each`, which may add to `out` and returns how many bytes it took; it must not read
    /// from another pipe. Cancel-safe.
    pub async fn exchange(
        &mut self,
        out: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<()> {
        poll_fn(|context| {
            // A socket that takes nothing now is asked again with the next bytes. One that takes nothing any more may
            // still hold the last words of a server that died.
            let drained = self.poll_drain(context, out);
            let fed = self.poll_feed(context, |bytes| each(bytes, out));
            match drained {
                Poll::Ready(Err(error)) if fed.is_pending() => Poll::Ready(Err(error)),
                _ => fed,
            }
        })
        .await
    }

    fn poll_feed(
        &mut self,
        context: &mut Context<'_>,
        each: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.rest.len();
            if scratch.len() < kept + READ_BYTES {
                scratch.resize(kept + READ_BYTES, 0);
            }
            let mut into = ReadBuf::new(&mut scratch[kept..]);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut into))?;
            let end = kept + into.filled().len();
            if end == kept {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            scratch[..kept].copy_from_slice(&self.rest);
            let taken = each(&scratch[..end])?;
            self.rest.clear();
            self.rest.shrink_to(KEPT_BYTES);
            self.rest.extend_from_slice(&scratch[taken..end]);
            Poll::Ready(Ok(()))
        })
    }

    /// Writes what the socket takes, and removes it from the front.
    fn poll_drain(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, out))?;
            out.drain(..written);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Writes a request and waits until `find` finds the answer in the bytes; it returns its length, too.
    pub async fn ask<T>(
        &mut self,
        request: &[u8],
        find: impl Fn(&[u8]) -> io::Result<Option<(T, usize)>>,
    ) -> io::Result<T> {
        let (mut out, mut answer) = (request.to_vec(), None);
        loop {
            let each = |bytes: &[u8], _: &mut Vec<u8>| {
                let (found, length) = find(bytes)?.unzip();
                answer = found;
                Ok(length.unwrap_or(0))
            };
            self.exchange(&mut out, each).await?;
            if let Some(answer) = answer.take() {
                return Ok(answer);
            }
        }
    }
}
