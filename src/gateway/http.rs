//! HTTP on one connection: routes, statuses, and the hand-over to a WebSocket session.
//!
//! Owns: which path answers what. Promises: heads, bodies and the reading of responses have deadlines; every refusal
//! has the right status and a line that says why; the connection's task is the session's task. Must not: decode a
//! request's meaning.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE,
    WWW_AUTHENTICATE,
};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::respond::{Answer, full, not_allowed, say};
use super::{Shared, cors, dispatch, rpc, tablestore, upgrade};
use crate::metrics;
use crate::wire::jsonrpc::Dialect;

/// A connection that has become a WebSocket.
pub(super) struct Upgraded {
    pub(super) socket: TcpStream,
    /// What came behind the handshake.
    pub(super) read: Bytes,
    pub(super) dialect: Dialect,
}

/// Serves HTTP on a connection until it ends or becomes a WebSocket.
pub(super) async fn serve(socket: TcpStream, shared: Arc<Shared>) -> Option<Upgraded> {
    let local = socket.local_addr().ok()?;
    let upgraded: Arc<Mutex<Option<Dialect>>> = Arc::default();
    let http = serve_http(socket, local.ip(), shared, Arc::clone(&upgraded));
    let (socket, read) = http.await?;
    let dialect = upgraded
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take()?;
    Some(Upgraded {
        socket,
        read,
        dialect,
    })
}

async fn serve_http(
    socket: TcpStream,
    local: IpAddr,
    shared: Arc<Shared>,
    upgraded: Arc<Mutex<Option<Dialect>>>,
) -> Option<(TcpStream, Bytes)> {
    let options = &shared.options;
    let io = Impatient::new(socket, options.http_body_time_max);
    let service = {
        let shared = Arc::clone(&shared);
        service_fn(
            move |request| -> BoxFuture<'static, Result<Answer, Infallible>> {
                let (shared, upgraded) = (Arc::clone(&shared), Arc::clone(&upgraded));
                Box::pin(async move { Ok(route(request, local, &shared, &upgraded).await) })
            },
        )
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.http_head_time_max)
        .max_buf_size(options.http_head_bytes_max)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(io, service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
        () = shared.draining.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended early");
        return None;
    }
    let parts = connection.into_parts();
    Some((parts.io.into_inner(), parts.read_buf))
}

async fn route(
    request: Request<Incoming>,
    local: IpAddr,
    shared: &Arc<Shared>,
    upgraded: &Mutex<Option<Dialect>>,
) -> Answer {
    let admitted = match shared.origins.admit(request.headers(), local) {
        Ok(admitted) => admitted,
        Err(foreign) => {
            metrics::gateway().refused_origin.increment(1);
            shared.origins.log(&foreign);
            let mut answer = say(StatusCode::FORBIDDEN, &foreign.to_string());
            cors::vary(&mut answer);
            return answer;
        }
    };
    let mut answer = match cors::preflight(request.method(), request.headers()) {
        Some(answer) => answer,
        None => page(request, admitted.is_direct, shared, upgraded).await,
    };
    if let Some(origin) = admitted.origin {
        cors::open(&mut answer, origin);
    }
    answer
}

async fn page(
    request: Request<Incoming>,
    is_direct: bool,
    shared: &Arc<Shared>,
    upgraded: &Mutex<Option<Dialect>>,
) -> Answer {
    let read = *request.method() == Method::GET || *request.method() == Method::HEAD;
    match request.uri().path() {
        "/v1/connect" | "/v1/rpc" if shows_token(request.headers()) => no_authentication(),
        "/v1/connect" if *request.method() == Method::GET => connect(&request, shared, upgraded),
        "/v1/connect" => not_allowed("GET"),
        "/v1/rpc" if *request.method() == Method::POST => rpc::serve(request, shared).await,
        "/v1/rpc" => not_allowed("POST"),
        "/" | "/healthz" | "/readyz" | "/metrics" if !read => not_allowed("GET, HEAD"),
        "/" => full(
            StatusCode::OK,
            "text/html; charset=utf-8",
            shared.pages.start(),
        ),
        "/healthz" => say(StatusCode::OK, "ok"),
        "/readyz" => match shared.pages.readiness(shared.timelines.can_commit()) {
            Ok(()) => say(StatusCode::OK, "ready"),
            Err(why) => say(StatusCode::SERVICE_UNAVAILABLE, why),
        },
        "/metrics" => scrape(shared).await,
        _ if tablestore::is_for(&request) => tablestore::serve(request, is_direct, shared).await,
        _ => say(StatusCode::NOT_FOUND, "no such page; see /"),
    }
}

/// Whether a client wants to prove who it is. Other schemes are of a proxy that asks for a password and passes it on.
fn shows_token(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().get(.."bearer ".len());
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    })
}

/// To take the call and leave the token aside would let its sender believe that somebody has checked it.
fn no_authentication() -> Answer {
    let mut answer = say(StatusCode::UNAUTHORIZED, dispatch::NO_AUTHENTICATION);
    let bearer = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    answer
}

/// Off the threads that serve clients: it looks into files and locks of the stores.
async fn scrape(shared: &Arc<Shared>) -> Answer {
    let _turn = shared.scrapes.acquire().await;
    let pages = Arc::clone(&shared.pages);
    match tokio::task::spawn_blocking(move || pages.metrics()).await {
        Ok(text) => full(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            text,
        ),
        Err(_) => say(StatusCode::INTERNAL_SERVER_ERROR, "the scrape failed"),
    }
}

fn connect(
    request: &Request<Incoming>,
    shared: &Arc<Shared>,
    upgraded: &Mutex<Option<Dialect>>,
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    match upgrade::accept(request.headers(), request.version()) {
        Ok((response, dialect)) => {
            let mut place = upgraded
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *place = Some(dialect);
            response.map(|()| Full::default())
        }
        Err((status, why)) => {
            let mut answer = say(status, why);
            if status == StatusCode::UPGRADE_REQUIRED {
                let headers = answer.headers_mut();
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            answer
        }
    }
}

const HEADERS_MAX: usize = 64;

/// A socket whose writes do not wait for ever: a client that stops reading a response gives its place free.
struct Impatient {
    socket: TokioIo<TcpStream>,
    patience: Duration,
    /// Runs while the socket takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(socket: TcpStream, patience: Duration) -> Impatient {
        Impatient {
            socket: TokioIo::new(socket),
            patience,
            stalled: None,
        }
    }

    fn into_inner(self) -> TcpStream {
        self.socket.into_inner()
    }

    /// Passes on what a write said, and times out one that has been pending for too long.
    fn timed<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Read for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl Write for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.timed(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.timed(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.timed(written, context)
    }
}
