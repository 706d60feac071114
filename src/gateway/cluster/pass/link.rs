//! A connection to the owner, for the requests of one client's connection.
//!
//! Owns: how it is opened, and for how long it is used. Promises: the owner knows whose it is before the first request
//! comes; each wait has a limit. Must not: know what is asked.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::{Request, Response, StatusCode, upgrade};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::TaskTracker;

use super::super::hail::Hail;
use super::super::nodes::{Nodes, Place};
use super::super::passed::{CHALLENGE, PATH, PROTOCOL};
use super::outgoing::Sent;
use tideline_base::metrics::Held;

/// See the file's opening.
pub(super) struct Link {
    pub(super) sender: SendRequest<Sent>,
    /// The owner's.
    pub(super) term: u64,
    /// When it was used last.
    pub(super) used: Instant,
    pub(super) counted: Held,
}

/// Bytes both ways, with TLS or without.
type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Link {
    /// Opens one to the owner of a term, for the client that the hail is of. `Err` = why there is none; nothing of a
    /// request was sent.
    pub(super) async fn open(
        (term, place): (u64, &Place),
        (hail, nodes): (&Hail, &Nodes),
        tasks: &TaskTracker,
        counted: Held,
    ) -> Result<Link, String> {
        let opening = async {
            let wire = connect(place, nodes).await.map_err(text)?;
            let (wire, challenge) = introduce(wire, place).await?;
            let said = hail.bytes(&challenge, &nodes.secret);
            let said = said.ok_or("its certificate has too many names")?;
            let mut socket = TokioIo::new(wire);
            let sent = async {
                socket.write_all(&said).await?;
                socket.flush().await
            };
            sent.await.map_err(text)?;
            let shaken = http1::handshake(socket.into_inner()).await;
            shaken.map_err(text)
        };
        let opened = timeout(OPEN_TIME_MAX, opening).await;
        let (sender, connection) = opened.map_err(|_| "it did not answer in time".to_owned())??;
        tasks.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the owner ended early");
            }
        });
        let used = Instant::now();
        Ok(Link {
            sender,
            term,
            used,
            counted,
        })
    }

    /// Whether another request may be sent by it to the owner of this term.
    pub(super) async fn is_fit(&mut self, term: u64) -> bool {
        self.term == term && self.used.elapsed() < IDLE_MAX && self.sender.ready().await.is_ok()
    }
}

/// What the owner's `/readyz` says. `Err` = it is not reached.
pub(super) async fn readiness(
    place: &Place,
    nodes: &Nodes,
) -> Result<(StatusCode, String), String> {
    let asking = async {
        let wire = connect(place, nodes).await.map_err(text)?;
        let asked = Request::get("/readyz").header(HOST, &place.authority);
        let asked = asked.body(Empty::<Bytes>::new());
        let asked = asked.map_err(text)?;
        let shaken = http1::handshake(wire).await;
        let (mut sender, connection) = shaken.map_err(text)?;
        let asking = async move {
            let answer = sender.send_request(asked).await;
            let (head, body) = answer.map_err(text)?.into_parts();
            let body = Limited::new(body, LINE_BYTES_MAX).collect().await;
            let line = body.map_err(text)?.to_bytes();
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            Ok((head.status, line))
        };
        join(asking, connection).await.0
    };
    let asked = timeout(OPEN_TIME_MAX, asking).await;
    asked.unwrap_or_else(|_| Err("it did not answer in time".to_owned()))
}

async fn connect(place: &Place, nodes: &Nodes) -> io::Result<Wire> {
    let address = (place.host.as_str(), place.port);
    let connecting = timeout(CONNECT_TIME_MAX, TcpStream::connect(address));
    let socket = connecting.await.map_err(|_| io::ErrorKind::TimedOut)??;
    socket.set_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(SILENCE_MAX);
    let alive = alive.with_interval(ASK_EVERY).with_retries(ASKS);
    SockRef::from(&socket).set_tcp_keepalive(&alive)?;
    #[cfg(target_os = "linux")]
    SockRef::from(&socket).set_tcp_user_timeout(Some(UNREAD_MAX))?;
    let socket = TokioIo::new(socket);
    if !place.is_secure {
        return Ok(Wire::Http(socket));
    }
    let name = ServerName::try_from(place.host.clone()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(&nodes.tls));
    let stream = connector.connect(name, TokioIo::new(socket)).await?;
    Ok(Wire::Https(TokioIo::new(stream)))
}

/// Asks for a challenge.
async fn introduce(wire: Wire, place: &Place) -> Result<(Wire, String), String> {
    let asked = Request::get(PATH).header(HOST, &place.authority);
    let asked = asked
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL);
    let asked = asked.body(Empty::<Bytes>::new());
    let asked = asked.map_err(text)?;
    let shaken = http1::handshake(wire).await;
    let (mut sender, connection) = shaken.map_err(text)?;
    let asking = async move {
        let answer = sender.send_request(asked).await;
        let answer = answer.map_err(text)?;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
            // Its body is dropped, by which the connection ends.
            status => Err(format!("it answered {status}")),
        }
    };
    let (answer, _) = join(asking, connection.with_upgrades()).await;
    let answer: Response<Incoming> = answer?;
    let challenge = answer.headers().get(CHALLENGE);
    let challenge = challenge.and_then(|challenge| challenge.to_str().ok());
    let challenge = challenge.ok_or("it gave no challenge")?.to_owned();
    let upgraded = upgrade::on(answer).await;
    let upgraded = upgraded.map_err(text)?;
    let parts = upgraded.downcast::<Wire>();
    match parts {
        Ok(parts) if parts.read_buf.is_empty() => Ok((parts.io, challenge)),
        Ok(_) | Err(_) => Err("it said more than the challenge".to_owned()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

const LINE_BYTES_MAX: usize = 4 << 10;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
/// A node that has just become the owner accepts connections a moment later.
const OPEN_TIME_MAX: Duration = Duration::from_secs(5);
/// The owner closes an idle connection after twice as long: a request must not cross with that.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// An owner whose machine says nothing is gone after so long, asked a few times …
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// … and one that takes nothing: it may hold back what comes for as long as a write waits.
const UNREAD_MAX: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_secs(3);
const ASKS: u32 = 3;
