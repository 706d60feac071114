//! One connection's bytes, with TLS or without.
//!
//! Owns: the handshake of TLS, and connections that end in this process. Promises: without TLS it adds nothing to a
//! read or a write; a handshake ends in time. Must not: know what is said.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use tideline_base::tls::dns_names;

/// A connection that was accepted.
pub(in super::super) enum Socket {
    Plain(TcpStream),
    /// In a box: it is ten times as large.
    Tls(Box<TlsStream<TcpStream>>),
    /// Something in this process speaks for the client.
    Memory(Box<DuplexStream>),
}

/// What a handshake came to.
pub(in super::super) enum Shaken {
    Done(Socket),
    /// The caller keeps the socket open until the client has read why.
    Failed(io::Error, TcpStream),
    TooSlow,
}

impl Socket {
    /// Speaks TLS on a connection.
    pub(in super::super) async fn shake_hands(
        socket: TcpStream,
        config: Arc<ServerConfig>,
    ) -> Shaken {
        let accepting = TlsAcceptor::from(config).accept(socket).into_fallible();
        match timeout(HANDSHAKE_TIME_MAX, accepting).await {
            Ok(Ok(stream)) => Shaken::Done(Socket::Tls(Box::new(stream))),
            Ok(Err((error, socket))) => Shaken::Failed(error, socket),
            Err(_) => Shaken::TooSlow,
        }
    }

    /// Whether it is one of TLS.
    pub(in super::super) fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// DNS names of the certificate that the client has shown.
    pub(in super::super) fn client_names(&self) -> Vec<String> {
        let Socket::Tls(stream) = self else {
            return Vec::new();
        };
        let shown = stream.get_ref().1.peer_certificates();
        shown
            .and_then(<[_]>::first)
            .map_or_else(Vec::new, dns_names)
    }

    /// Where it was accepted.
    pub(in super::super) fn local_address(&self) -> Option<SocketAddr> {
        self.tcp()?.local_addr().ok()
    }

    /// A client whose system acknowledges nothing of what was sent for so long is gone. Elsewhere than on Linux the
    /// system decides when it is.
    pub(in super::super) fn expect_acknowledgements(&self, patience: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(socket) = self.tcp()
            && let Err(error) = SockRef::from(socket).set_tcp_user_timeout(Some(patience))
        {
            tracing::debug!(%error, "a client that vanishes is noticed late");
        }
        #[cfg(not(target_os = "linux"))]
        let _ = patience;
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Plain(socket) => Some(socket),
            Socket::Tls(stream) => Some(stream.get_ref().0),
            Socket::Memory(_) => None,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Socket::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(context),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(context),
            Socket::Memory(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
            Socket::Memory(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Socket::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Socket::Memory(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}

const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
