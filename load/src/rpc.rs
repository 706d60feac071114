//! A JSON-RPC client of the native protocol over one WebSocket: pipelined sends, replies and pushes as they come.
//!
//! Owns: one connection's socket and request numbers. Promises: requests leave in the order of the calls; what comes in
//! is handed out in the order of arrival. Must not: reconnect or repeat anything; writers and subscribers decide that.

use std::fmt;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

/// How long one connection attempt, and one reply that is waited for, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub struct Client {
    socket: WebSocketStream<TcpStream>,
    next_id: u64,
}

/// What the server sent.
#[derive(Debug)]
pub enum Incoming {
    /// The answer to the request with this number.
    Reply(u64, Result<Box<RawValue>, Refusal>),
    /// A notification.
    Push(String, Box<RawValue>),
}

/// An error reply.
#[derive(Clone, Debug, Deserialize)]
pub struct Refusal {
    /// The class.
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(default)]
    pub data: RefusalData,
}

/// The `data` of an error reply.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RefusalData {
    /// What to switch on.
    #[serde(default)]
    pub reason: String,
    /// Whether the same call can succeed later.
    #[serde(default)]
    pub retry: bool,
    /// When to try again, ms.
    pub retry_after_ms: Option<u64>,
}

/// A call without result: refused, or nothing came.
#[derive(Debug)]
pub enum CallError {
    /// The server said no.
    Refused(Refusal),
    /// The connection is gone, or said what the protocol does not allow.
    Lost(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Refused(refusal) => {
                let Refusal {
                    code,
                    message,
                    data,
                } = refusal;
                write!(out, "{code} {} ({message})", data.reason)
            }
            CallError::Lost(text) => out.write_str(text),
        }
    }
}

/// A message as the wire shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    /// Its number.
    pub sequence: u64,
    /// Commit time, ms.
    pub timestamp: u64,
    /// The client's or the server's.
    pub message_id: String,
    /// Who appended it.
    pub sender: Option<String>,
    /// Absent on a tombstone.
    pub entry: Option<Value>,
}

/// The result of `message.append`.
#[derive(Clone, Debug, Deserialize)]
pub struct Appended {
    /// The number given.
    pub sequence: u64,
    /// Commit time, ms.
    pub timestamp: u64,
    /// The ID kept.
    pub message_id: String,
    /// The timeline's history.
    pub epoch: String,
    /// It stood already.
    pub duplicate: bool,
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<u64>,
    result: Option<Box<RawValue>>,
    error: Option<Refusal>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

impl Client {
    /// Connects to `ws://host:port/path`.
    pub async fn open(url: &str) -> Result<Client, CallError> {
        let config = WebSocketConfig::default()
            .read_buffer_size(32 << 10)
            .write_buffer_size(32 << 10)
            .max_message_size(Some(8 << 20))
            .max_frame_size(Some(8 << 20));
        Client::open_with(url, config).await
    }

    /// As `open`, with buffers of 1 KiB: for thousands of connections that are idle.
    pub async fn open_small(url: &str) -> Result<Client, CallError> {
        let config = WebSocketConfig::default()
            .read_buffer_size(1 << 10)
            .write_buffer_size(0)
            .max_message_size(Some(1 << 20));
        Client::open_with(url, config).await
    }

    async fn open_with(url: &str, config: WebSocketConfig) -> Result<Client, CallError> {
        let lost = |error: &dyn fmt::Display| CallError::Lost(format!("{url}: {error}"));
        let uri: Uri = url.parse().map_err(|error| lost(&error))?;
        let address = address(&uri).ok_or_else(|| lost(&"not a ws:// address"))?;
        let opening = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let request = ClientRequestBuilder::new(uri).with_sub_protocol("tideline.v1.json");
            let config = Some(config);
            tokio_tungstenite::client_async_with_config(request, stream, config).await
        };
        let opened = tokio::time::timeout(PATIENCE, opening).await;
        let (socket, _) = opened
            .map_err(|_| lost(&"no handshake in time"))?
            .map_err(|error: tungstenite::Error| lost(&error))?;
        Ok(Client { socket, next_id: 1 })
    }

    /// Puts a request into the outgoing buffer and returns its number.
    pub async fn send(&mut self, method: &str, params: impl Serialize) -> Result<u64, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        self.send_as(id, method, params).await?;
        Ok(id)
    }

    /// As `send`, with the caller's own number; do not mix with `send`.
    pub async fn send_as(
        &mut self,
        id: u64,
        method: &str,
        params: impl Serialize,
    ) -> Result<(), CallError> {
        let text = request(id, method, params)?;
        self.socket.feed(Frame::text(text)).await.map_err(gone)
    }

    /// Hands the outgoing buffer to the socket.
    pub async fn flush(&mut self) -> Result<(), CallError> {
        self.socket.flush().await.map_err(gone)
    }

    /// The next reply or push. Cancel-safe.
    pub async fn receive(&mut self) -> Result<Incoming, CallError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Frame::Text(text))) => return decode(&text),
                Some(Ok(Frame::Close(frame))) => {
                    let why = frame.map_or_else(String::new, |frame| frame.to_string());
                    return Err(CallError::Lost(format!("closed by the server {why}")));
                }
                Some(Ok(Frame::Binary(_))) => {
                    return Err(CallError::Lost(
                        "a binary frame on a JSON connection".into(),
                    ));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(gone(error)),
                None => return Err(CallError::Lost("connection ended".into())),
            }
        }
    }

    /// What has already arrived, if anything.
    pub fn receive_now(&mut self) -> Option<Result<Incoming, CallError>> {
        self.receive().now_or_never()
    }

    /// Sends one request and waits for its reply; pushes that come before are dropped.
    pub async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let id = self.send(method, params).await?;
        self.flush().await?;
        let answered = async {
            loop {
                match self.receive().await? {
                    Incoming::Reply(of, outcome) if of == id => return Ok(outcome),
                    _ => {}
                }
            }
        };
        let late = |_| CallError::Lost(format!("no answer to {method} in time"));
        let outcome = tokio::time::timeout(PATIENCE, answered)
            .await
            .map_err(late)??;
        read(&outcome.map_err(CallError::Refused)?)
    }

    /// Says who the session's user is.
    pub async fn introduce(&mut self, user: &str) -> Result<(), CallError> {
        let _: Value = self.call("session.open", json!({ "user": user })).await?;
        Ok(())
    }
}

/// A result as a type; a member that is missing is a fault of the server.
pub fn read<R: DeserializeOwned>(result: &RawValue) -> Result<R, CallError> {
    serde_json::from_str(result.get())
        .map_err(|error| CallError::Lost(format!("unexpected result {result}: {error}")))
}

/// `host:port` of a `ws://` address.
#[must_use]
pub fn address(uri: &Uri) -> Option<String> {
    (uri.scheme_str() == Some("ws")).then_some(())?;
    Some(format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(80)))
}

/// A request's text, for connections whose frames are made ahead.
///
/// # Errors
///
/// The params have no JSON form.
pub(crate) fn request(id: u64, method: &str, params: impl Serialize) -> Result<String, CallError> {
    let request = Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    serde_json::to_string(&request)
        .map_err(|error| CallError::Lost(format!("cannot encode: {error}")))
}

/// Reads what the server sent.
///
/// # Errors
///
/// It is neither a reply nor a push.
pub(crate) fn decode(text: &str) -> Result<Incoming, CallError> {
    let odd = |what: &dyn fmt::Display| {
        CallError::Lost(format!("not a reply or push ({what}): {text:.300}"))
    };
    let envelope: Envelope = serde_json::from_str(text).map_err(|error| odd(&error))?;
    match envelope {
        Envelope {
            id: Some(id),
            result: Some(result),
            error: None,
            ..
        } => Ok(Incoming::Reply(id, Ok(result))),
        Envelope {
            id: Some(id),
            result: None,
            error: Some(refusal),
            ..
        } => Ok(Incoming::Reply(id, Err(refusal))),
        Envelope {
            id: None,
            method: Some(method),
            params: Some(params),
            ..
        } => Ok(Incoming::Push(method, params)),
        _ => Err(odd(&"members")),
    }
}

fn gone(error: tungstenite::Error) -> CallError {
    CallError::Lost(format!("connection lost: {error}"))
}
