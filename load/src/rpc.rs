//! JSON-RPC of the native protocol: requests as frames, answers, and a client that asks and waits.
//!
//! Owns: the JSON around requests and answers; one connection's request numbers. Promises: requests leave in the order
//! of the calls; answers come out in the order of arrival; what is neither a result nor a refusal is no answer, so that
//! the caller can read it as a push. Must not: know what is asked, or reconnect and repeat anything. [`Client`] is for
//! preparing and reading back: it copies each answer.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::exit::Stop;
use crate::frame::{put_text, texts, upgrade};
use crate::pipe::Pipe;

/// How long one reply that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How a push begins.
const PUSH: &[u8] = br#"{"jsonrpc":"2.0","method":"#;

/// Appends a request to `out`, as a frame.
pub fn put_request(out: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    let request = Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    let text = serde_json::to_vec(&request).expect("params are numbers, texts and maps of them");
    put_text(out, &text);
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The request's number.
    pub id: u64,
    /// The result's JSON, or why there is none.
    pub outcome: Result<&'a [u8], Refusal>,
}

impl<'a> Answer<'a> {
    /// Reads one; `None` if the text is something else. A result in the usual order of members costs a few
    /// comparisons, anything else a parser.
    #[must_use]
    pub fn read(text: &'a [u8]) -> Option<Answer<'a>> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            id: u64,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Refusal>,
        }
        // Pushes are many, too.
        if text.starts_with(PUSH) {
            return None;
        }
        if let Some(answer) = Answer::usual(text) {
            return Some(answer);
        }
        let Envelope { id, result, error } = serde_json::from_slice(text).ok()?;
        let outcome = match (result, error) {
            (Some(result), None) => Ok(result.get().as_bytes()),
            (None, Some(refusal)) => Err(refusal),
            _ => return None,
        };
        Some(Answer { id, outcome })
    }

    fn usual(text: &'a [u8]) -> Option<Answer<'a>> {
        let (id, rest) = number(text.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?)?;
        let result = rest.strip_prefix(br#","result":"#)?.strip_suffix(b"}")?;
        let outcome = Ok(result);
        Some(Answer { id, outcome })
    }

    /// The result as a type.
    ///
    /// # Errors
    ///
    /// The refusal, or what does not fit the type, in words.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, String> {
        match &self.outcome {
            Ok(result) => read(result),
            Err(refusal) => Err(format!("refused: {refusal}")),
        }
    }
}

/// The number that the text begins with, and what follows.
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    // More digits than this might not fit.
    for (at, byte) in text.iter().enumerate().take(20) {
        if !byte.is_ascii_digit() {
            return (at > 0).then_some((value, &text[at..]));
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    None
}

/// A result's JSON as a type, or what does not fit.
pub fn read<R: DeserializeOwned>(result: &[u8]) -> Result<R, String> {
    serde_json::from_slice(result).map_err(|error| {
        let result = String::from_utf8_lossy(result);
        format!("unexpected result {result:.300}: {error}")
    })
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
#[serde(default)]
pub struct RefusalData {
    /// What to switch on.
    pub reason: String,
    /// Whether the same call can succeed later.
    pub retry: bool,
    /// When to try again, ms.
    pub retry_after_ms: Option<u64>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({})", self.code, self.data.reason, self.message)
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
    /// The user that appended it.
    pub sender: Option<String>,
    /// Absent on a tombstone.
    pub entry: Option<Box<RawValue>>,
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
    /// It was there already.
    pub duplicate: bool,
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
            CallError::Refused(refusal) => refusal.fmt(out),
            CallError::Lost(text) => out.write_str(text),
        }
    }
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Stop {
        Stop::Unreachable(error.to_string())
    }
}

/// One connection.
pub struct Client {
    pipe: Pipe,
    parts: Vec<u8>,
    /// Requests on their way out.
    out: Vec<u8>,
    arrived: VecDeque<Vec<u8>>,
    next_id: u64,
}

/// An answer to keep: the request's number, and the result's JSON or why there is none.
pub type Reply = (u64, Result<Vec<u8>, Refusal>);

impl Client {
    /// Connects to `ws://host:port/path`.
    ///
    /// # Errors
    ///
    /// There is no server, or it is no Tideline.
    pub async fn open(url: &str) -> Result<Client, CallError> {
        let pipe = upgrade(url, None).await;
        Ok(Client {
            pipe: pipe.map_err(|error| CallError::Lost(format!("{url}: {error}")))?,
            parts: Vec::new(),
            out: Vec::new(),
            arrived: VecDeque::new(),
            next_id: 1,
        })
    }

    /// Queues a request, which leaves with the next `receive`. Returns its number.
    pub fn send(&mut self, method: &str, params: &impl Serialize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        put_request(&mut self.out, id, method, params);
        id
    }

    /// The next answer, or `None` for a push; what was queued leaves meanwhile. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection is gone, or the server sent what it may not.
    pub async fn receive(&mut self) -> Result<Option<Reply>, CallError> {
        loop {
            if let Some(text) = self.arrived.pop_front() {
                return match Answer::read(&text) {
                    Some(Answer { id, outcome }) => Ok(Some((id, outcome.map(<[u8]>::to_vec)))),
                    None if text.starts_with(PUSH) => Ok(None),
                    None => {
                        let text = String::from_utf8_lossy(&text);
                        let what = format!("neither an answer nor a push: {text:.300}");
                        Err(CallError::Lost(what))
                    }
                };
            }
            let (parts, arrived) = (&mut self.parts, &mut self.arrived);
            let read = self.pipe.exchange(&mut self.out, |bytes, out| {
                texts(bytes, out, parts, |text| arrived.push_back(text.to_vec()))
            });
            let lost = |error| CallError::Lost(format!("connection lost: {error}"));
            read.await.map_err(lost)?;
        }
    }

    /// Sends one request and waits for its answer; pushes that come before are dropped.
    ///
    /// # Errors
    ///
    /// A refusal, no answer in time, or as `receive`.
    pub async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let id = self.send(method, &params);
        let answered = async {
            loop {
                match self.receive().await? {
                    Some((of, outcome)) if of == id => return outcome.map_err(CallError::Refused),
                    _ => {}
                }
            }
        };
        let late = |_| CallError::Lost(format!("no answer to {method} in time"));
        let result = timeout(PATIENCE, answered).await.map_err(late)??;
        read(&result).map_err(CallError::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_refusals_and_pushes_differ() {
        let text = br#"{"jsonrpc":"2.0","id":7,"result":{"epoch":"e","sequence":3,"timestamp":1,"message_id":"m","duplicate":false}}"#;
        let answer = Answer::read(text).expect("an answer");
        let answered: Appended = answer.result().expect("fits");
        assert_eq!((answer.id, answered.sequence), (7, 3));
        let text = br#"{"jsonrpc":"2.0","id":8,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
        let answer = Answer::read(text).expect("an answer");
        assert_eq!(
            answer.result::<Appended>().expect_err("refused"),
            "refused: 503 busy (m)"
        );
        for other in [
            &br#"{"jsonrpc":"2.0","method":"message","params":{}}"#[..],
            b"{}",
            b"",
        ] {
            assert!(Answer::read(other).is_none());
        }
    }

    #[test]
    fn results_are_found_in_any_order_of_members() {
        let quick = br#"{"jsonrpc":"2.0","id":1007,"result":{"sequence":1}}"#;
        let other = br#"{"result":{"sequence":1},"id":1007,"jsonrpc":"2.0"}"#;
        for text in [&quick[..], other] {
            let answer = Answer::read(text).expect("an answer");
            assert_eq!(answer.id, 1_007);
            assert_eq!(answer.outcome.expect("granted"), br#"{"sequence":1}"#);
        }
    }

    #[test]
    fn a_request_is_one_frame() {
        let mut out = Vec::new();
        put_request(&mut out, 7, "ping", &json!({}));
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(r#""id":7"#) && text.ends_with('}'), "{text}");
    }
}
