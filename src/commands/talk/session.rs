//! One WebSocket to the server: open it, ask, hear.
//!
//! Owns: the connection, the numbers of requests, and what its end means. Promises: a server that falls silent is
//! noticed; an end says whether to come back. Must not: come back by itself, or print.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::address::At;
use super::failure::{Failure, Refusal};
use crate::tls;

/// An open session.
pub(in super::super) struct Session {
    socket: WebSocketStream<Box<dyn Wire>>,
    next_id: u64,
    /// The server is gone if it says nothing for so long.
    silence_max: Duration,
    /// What the server asks its clients for before it stops.
    back_in: Option<Duration>,
    pub(super) limits: Limits,
}

/// What the socket runs on.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// What the server takes at most.
#[derive(Deserialize)]
pub(super) struct Limits {
    pub(super) batch_messages_max: usize,
    pub(super) batch_bytes_max: usize,
    pub(super) page_messages_max: u64,
}

/// What came.
pub(super) enum Heard {
    Reply(u64, Result<Box<RawValue>, Refusal>),
    Push(String, Box<RawValue>),
}

#[derive(Deserialize)]
struct Frame {
    id: Option<u64>,
    result: Option<Box<RawValue>>,
    error: Option<Refusal>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Opened {
    heartbeat_ms: u64,
    limits: Limits,
}

#[derive(Deserialize)]
struct Draining {
    reconnect_in_ms: u64,
}

#[derive(Serialize)]
struct Open<'a> {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

/// Until there is a connection, and until it has become a session.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);
/// Where the caller's credential is taken from.
const KEY: &str = "TIDELINE_KEY";
const CLIENT: &str = concat!("tideline ", env!("CARGO_PKG_VERSION"));

impl Session {
    /// Connects, shows the credential in the environment, if there is one, and names the user.
    pub(in super::super) async fn open(at: &At) -> Result<Session, Failure> {
        let opening = async {
            let socket = connect(at).await?;
            let mut session = Session {
                socket,
                next_id: 1,
                silence_max: CONNECT_TIME_MAX,
                back_in: None,
                limits: Limits {
                    batch_messages_max: 1,
                    batch_bytes_max: 0,
                    page_messages_max: 1,
                },
            };
            let open = Open {
                client: CLIENT,
                user: at.user.as_deref(),
            };
            let opened = session.call("session.open", &open).await?;
            let opened: Opened = parsed(&opened)?;
            // It pings once in a heartbeat.
            session.silence_max = Duration::from_millis(opened.heartbeat_ms.max(1_000)) * 2;
            session.limits = opened.limits;
            Ok(session)
        };
        let opened = timeout(CONNECT_TIME_MAX, opening).await;
        opened.unwrap_or_else(|_| Err(Failure::away(no_answer(at))))
    }

    /// Sends a request; its reply comes with this number.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<u64, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let request = Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let text =
            serde_json::to_string(&request).map_err(|error| Failure::Wrong(error.to_string()))?;
        match timeout(self.silence_max, self.socket.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(id),
            Ok(Err(error)) => Err(self.ended(&error)),
            Err(_) => Err(Failure::away("the server has stopped reading")),
        }
    }

    /// The next reply or push. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Heard, Failure> {
        loop {
            let next = timeout(self.silence_max, self.socket.next()).await;
            let message = match next {
                Err(_) => return Err(Failure::away("the server has fallen silent")),
                Ok(None) => return Err(self.away("the connection has ended".into())),
                Ok(Some(Err(error))) => return Err(self.ended(&error)),
                Ok(Some(Ok(message))) => message,
            };
            let text = match message {
                Message::Text(text) => text,
                Message::Close(frame) => return Err(self.closed(frame.as_ref())),
                _ => continue,
            };
            let Frame {
                id,
                result,
                error,
                method,
                params,
            } = serde_json::from_str(&text).map_err(|_| not_ours())?;
            match (id, result, error) {
                (Some(id), _, Some(error)) => return Ok(Heard::Reply(id, Err(error))),
                (None, _, Some(error)) => return Err(Failure::Refused(error)),
                (Some(id), Some(result), None) => return Ok(Heard::Reply(id, Ok(result))),
                _ => {}
            }
            let (method, params) = method.zip(params).ok_or_else(not_ours)?;
            if method != "draining" {
                return Ok(Heard::Push(method, params));
            }
            let draining: Draining = parsed(&params)?;
            self.back_in = Some(Duration::from_millis(draining.reconnect_in_ms));
        }
    }

    /// The result of a call, when nothing else is asked for.
    pub(in super::super) async fn call(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<Box<RawValue>, Failure> {
        let asked = self.ask(method, params).await?;
        loop {
            if let Heard::Reply(id, result) = self.next().await?
                && id == asked
            {
                return result.map_err(Failure::Refused);
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        let _ = timeout(Duration::from_secs(1), self.socket.close(None)).await;
    }

    fn away(&self, why: String) -> Failure {
        Failure::Away {
            why,
            back_in: self.back_in,
        }
    }

    fn ended(&self, error: &SocketError) -> Failure {
        match error {
            SocketError::Io(error) => self.away(format!("the connection has ended: {error}")),
            // Mostly it was reset.
            SocketError::ConnectionClosed
            | SocketError::AlreadyClosed
            | SocketError::Protocol(_) => self.away("the connection has ended".into()),
            error => Failure::Wrong(error.to_string()),
        }
    }

    /// What the code of a close frame means; the table is in docs/PROTOCOL.md.
    fn closed(&self, frame: Option<&CloseFrame>) -> Failure {
        let Some(frame) = frame else {
            return self.away("the server has closed the connection".into());
        };
        let code = u16::from(frame.code);
        let why = format!(
            "the server has closed the connection: {} ({code})",
            frame.reason
        );
        match code {
            1001 | 1005 | 1006 | 1011..=1013 | 4000..=4499 => self.away(why),
            _ => Failure::Wrong(why),
        }
    }
}

/// A reply or a push as what it has to be.
pub(super) fn parsed<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Failure> {
    serde_json::from_str(raw.get())
        .map_err(|error| Failure::Wrong(format!("the server's answer is not understood: {error}")))
}

pub(super) fn not_ours() -> Failure {
    Failure::Wrong("what answers there is no Tideline server".into())
}

pub(super) fn no_answer(at: &At) -> String {
    format!("{}: no answer", at.url.url)
}

async fn connect(at: &At) -> Result<WebSocketStream<Box<dyn Wire>>, Failure> {
    let place = &at.url;
    let wrong = |why: &dyn std::fmt::Display| Failure::Wrong(format!("{}: {why}", place.url));
    let mut request = place
        .url
        .as_str()
        .into_client_request()
        .map_err(|error| wrong(&error))?;
    let headers = request.headers_mut();
    headers.insert(
        SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static("tideline.v1.json"),
    );
    if let Ok(key) = std::env::var(KEY) {
        let key = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut key = key.map_err(|_| Failure::Wrong(format!("what {KEY} holds is no key")))?;
        key.set_sensitive(true);
        headers.insert(AUTHORIZATION, key);
    }
    match client_async(request, wire(at).await?).await {
        Ok((socket, _)) => Ok(socket),
        Err(SocketError::Http(answer)) => {
            let (head, body) = answer.into_parts();
            Err(refused(head.status, &body.unwrap_or_default()).about(&place.url))
        }
        Err(SocketError::Io(error)) => Err(Failure::away(format!("{}: {error}", place.url))),
        Err(error) => Err(wrong(&error)),
    }
}

/// A connection to the server, encrypted if its URL says so.
pub(super) async fn wire(at: &At) -> Result<Box<dyn Wire>, Failure> {
    let place = &at.url;
    let wrong = |why: &dyn std::fmt::Display| Failure::Wrong(format!("{}: {why}", place.url));
    let away = |error: &dyn std::fmt::Display| Failure::away(format!("{}: {error}", place.url));
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await;
    let stream = stream.map_err(|error| away(&error))?;
    let _ = stream.set_nodelay(true);
    if !place.secure {
        return Ok(Box::new(stream));
    }
    let trust = tls::client(at.ca_file.as_deref()).map_err(|error| wrong(&error))?;
    let name = ServerName::try_from(place.host.clone()).map_err(|error| wrong(&error))?;
    let secured = TlsConnector::from(std::sync::Arc::new(trust))
        .connect(name, stream)
        .await;
    Ok(Box::new(secured.map_err(
        |error| match error.get_ref() {
            // A certificate that is not trusted, or a server without TLS.
            Some(cause) if cause.is::<rustls::Error>() => wrong(&error),
            _ => away(&error),
        },
    )?))
}

/// An answer of HTTP that is not the one that was asked for.
pub(super) fn refused(status: hyper::StatusCode, body: &[u8]) -> Failure {
    #[derive(Deserialize)]
    struct Answer {
        error: Refusal,
    }
    if let Ok(Answer { error }) = serde_json::from_slice(body) {
        return Failure::Refused(error);
    }
    let text = String::from_utf8_lossy(body);
    let first = text.lines().next().unwrap_or_default();
    let why = format!("{status}: {first}");
    match status.is_server_error() || status == hyper::StatusCode::TOO_MANY_REQUESTS {
        true => Failure::away(why),
        false => Failure::Wrong(why),
    }
}
