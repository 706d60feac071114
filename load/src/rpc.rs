//! A JSON-RPC client of the native protocol over one WebSocket: pipelined sends, replies and pushes as they come.
//!
//! Owns: one connection's request numbers, and what arrived and was not asked for yet. Promises: requests leave in the
//! order of the calls; replies and pushes are handed out in the order of arrival. Must not: reconnect or repeat
//! anything (writers and subscribers decide that), or be used where every microsecond of the generator counts.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::frame::{Lean, put_text};

/// How long one connection attempt, and one reply that is waited for, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub struct Client {
    socket: Lean,
    /// Requests on their way out.
    out: Vec<u8>,
    arrived: VecDeque<Result<Incoming, CallError>>,
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
    ///
    /// # Errors
    ///
    /// There is no server, or it is no Tideline.
    pub async fn open(url: &str) -> Result<Client, CallError> {
        let lost = |error: io::Error| CallError::Lost(format!("{url}: {error}"));
        let opened = timeout(PATIENCE, Lean::open(url)).await;
        let socket = opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        Ok(Client {
            socket: socket.map_err(lost)?,
            out: Vec::new(),
            arrived: VecDeque::new(),
            next_id: 1,
        })
    }

    /// Queues a request, which leaves with the next `receive`. Returns its number.
    ///
    /// # Errors
    ///
    /// The params have no JSON form.
    pub fn send(&mut self, method: &str, params: impl Serialize) -> Result<u64, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        self.send_as(id, method, params)?;
        Ok(id)
    }

    /// As `send`, with the caller's own number; do not mix with `send`.
    ///
    /// # Errors
    ///
    /// As `send`.
    pub fn send_as(
        &mut self,
        id: u64,
        method: &str,
        params: impl Serialize,
    ) -> Result<(), CallError> {
        put_text(&mut self.out, request(id, method, params)?.as_bytes());
        Ok(())
    }

    /// The next reply or push; what was queued leaves meanwhile. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection is gone, or the server sent what it may not.
    pub async fn receive(&mut self) -> Result<Incoming, CallError> {
        loop {
            if let Some(incoming) = self.arrived.pop_front() {
                return incoming;
            }
            let Client {
                socket,
                out,
                arrived,
                ..
            } = self;
            let lost = |error| CallError::Lost(format!("connection lost: {error}"));
            let each = |text: &[u8]| arrived.push_back(decode(text));
            socket.exchange(out, each).await.map_err(lost)?;
        }
    }

    /// What has already arrived, if anything.
    pub fn receive_now(&mut self) -> Option<Result<Incoming, CallError>> {
        self.receive().now_or_never()
    }

    /// Sends one request and waits for its reply; pushes that come before are dropped.
    ///
    /// # Errors
    ///
    /// A refusal, no answer in time, or as `receive`.
    pub async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let id = self.send(method, params)?;
        let answered = async {
            loop {
                match self.receive().await? {
                    Incoming::Reply(of, outcome) if of == id => return Ok(outcome),
                    _ => {}
                }
            }
        };
        let late = |_| CallError::Lost(format!("no answer to {method} in time"));
        let outcome = timeout(PATIENCE, answered).await.map_err(late)??;
        read(&outcome.map_err(CallError::Refused)?)
    }

    /// Says who the session's user is.
    ///
    /// # Errors
    ///
    /// As `call`.
    pub async fn introduce(&mut self, user: &str) -> Result<(), CallError> {
        let _: Value = self.call("session.open", json!({ "user": user })).await?;
        Ok(())
    }
}

/// A result as a type.
///
/// # Errors
///
/// A member is missing or does not fit: a fault of the server.
pub fn read<R: DeserializeOwned>(result: &RawValue) -> Result<R, CallError> {
    serde_json::from_str(result.get())
        .map_err(|error| CallError::Lost(format!("unexpected result {result}: {error}")))
}

/// A request's text, for connections whose frames are made ahead.
///
/// # Errors
///
/// The params have no JSON form.
pub fn request(id: u64, method: &str, params: impl Serialize) -> Result<String, CallError> {
    let request = Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    serde_json::to_string(&request)
        .map_err(|error| CallError::Lost(format!("cannot encode: {error}")))
}

/// A text of the server, if it is a reply or a push.
pub(crate) fn decode(text: &[u8]) -> Result<Incoming, CallError> {
    let odd = |what: &dyn fmt::Display| {
        let text = String::from_utf8_lossy(text);
        CallError::Lost(format!("not a reply or push ({what}): {text:.300}"))
    };
    let envelope: Envelope = serde_json::from_slice(text).map_err(|error| odd(&error))?;
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
