//! JSON-RPC of the native protocol: requests as frames, answers, and a client that asks and waits.
//!
//! Owns: the JSON around requests and answers; one connection's request numbers. Promises: requests leave in the order
//! of the calls; answers come out in the order of arrival; what is neither a result nor a refusal is no answer, so that
//! the caller can read it as a push. Must not: know what is asked, or repeat on another connection what writes.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout_at};

use super::frame::{addresses, put_text, texts, upgrade};
use super::pipe::{Pipe, Way};
use crate::exit::Stop;
use crate::outcome::checks::Checks;

/// What was refused for now is asked again after this.
const AGAIN: Duration = Duration::from_millis(20);
/// It is not asked for longer than this: what follows from large changes may take so long.
const INSISTENCE: Duration = Duration::from_secs(900);
/// How long one reply that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How a push begins.
const PUSH: &[u8] = br#"{"jsonrpc":"2.0","method":"#;

/// A request; `id` may be the place of a number in a template.
pub(crate) fn request(id: impl Display, method: &str, params: &impl Serialize) -> String {
    let params = serde_json::to_string(params);
    let params = params.expect("params are numbers, texts and maps of them");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Appends a request to `out`, as a frame.
pub(crate) fn put_request(out: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    put_text(out, request(id, method, params).as_bytes());
}

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) id: u64,
    pub(crate) outcome: Outcome<'a>,
}

/// A result's JSON, or why there is none.
pub(crate) type Outcome<'a> = Result<&'a [u8], Refusal>;

impl<'a> Answer<'a> {
    /// Reads one; `None` if the text is something else. A result in the usual order of members costs a few
    /// comparisons, anything else a parser.
    pub(crate) fn read(text: &'a [u8]) -> Option<Answer<'a>> {
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

    /// The result as a type. The error is the refusal, or what does not fit the type, in words.
    pub(crate) fn result<R: DeserializeOwned>(&self) -> Result<R, String> {
        match &self.outcome {
            Ok(result) => read(result),
            Err(refusal) => Err(format!("refused: {refusal}")),
        }
    }
}

/// The number that the text begins with, and what follows.
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let (digits, rest) = text.split_at(digits.count());
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((value, rest))
}

/// A result's JSON as a type, or what does not fit.
pub(crate) fn read<'a, R: Deserialize<'a>>(result: &'a [u8]) -> Result<R, String> {
    serde_json::from_slice(result).map_err(|error| {
        let result = String::from_utf8_lossy(result);
        format!("unexpected result {result:.300}: {error}")
    })
}

/// An error reply.
#[derive(Clone, Debug, Deserialize, Error)]
#[error("{code} {} ({message})", .data.reason)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: RefusalData,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RefusalData {
    /// What to switch on.
    pub(crate) reason: String,
    /// Whether the same call can succeed later.
    pub(crate) retry: bool,
    /// When to try again, ms.
    pub(crate) retry_after_ms: Option<u64>,
}

impl Refusal {
    /// Whether the same call may be made again: an append has its message ID.
    pub(crate) fn may_repeat(&self) -> bool {
        self.data.retry || self.data.reason == "outcome_unknown"
    }
}

/// A message as the wire shows it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    /// Commit time, ms.
    pub(crate) timestamp: u64,
    pub(crate) message_id: String,
    pub(crate) sender: Option<String>,
    /// Absent on a tombstone.
    pub(crate) entry: Option<Box<RawValue>>,
}

/// The result of `message.append`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Appended {
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
    pub(crate) message_id: String,
    pub(crate) epoch: String,
    /// It was there already.
    pub(crate) duplicate: bool,
}

/// A call without result: refused, or nothing came.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// The server said no.
    #[error(transparent)]
    Refused(Refusal),
    /// The connection is gone, or said what the protocol does not allow.
    #[error("{0}")]
    Lost(String),
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Stop {
        Stop::Unreachable(error.to_string())
    }
}

/// Connects as [`upgrade`] does; with a user, as that user.
pub(crate) async fn open(url: &str, way: Way, user: Option<&str>) -> io::Result<Pipe> {
    let mut client = Client::on(url, way, upgrade(url, way).await?);
    if let Some(user) = user {
        let opened = client.call::<IgnoredAny>("session.open", json!({ "user": user }));
        let failed = |why| io::Error::other(format!("no session for {user}: {why}"));
        opened.await.map_err(failed)?;
    }
    Ok(client.pipe)
}

/// A connection that asks one thing at a time.
pub(crate) struct Client {
    url: String,
    way: Way,
    /// The `session.open` that says as whom it asks.
    session: Option<Value>,
    pipe: Pipe,
    parts: Vec<u8>,
    /// What is to go out.
    out: Vec<u8>,
    next_id: u64,
}

impl Client {
    /// Connects to `ws://host:port/path`.
    pub(crate) async fn open(url: &str) -> Result<Client, CallError> {
        Client::open_as(url, Way::Plain, None).await
    }

    /// As `open`, in this way; with a user, as that user.
    pub(crate) async fn open_as(
        url: &str,
        way: Way,
        user: Option<&str>,
    ) -> Result<Client, CallError> {
        let lost = |error| CallError::Lost(format!("{url}: {error}"));
        let pipe = open(url, way, user).await.map_err(lost)?;
        let mut client = Client::on(url, way, pipe);
        client.session = user.map(|user| json!({ "user": user }));
        Ok(client)
    }

    fn on(url: &str, way: Way, pipe: Pipe) -> Client {
        Client {
            url: url.to_owned(),
            way,
            session: None,
            pipe,
            parts: Vec::new(),
            out: Vec::new(),
            next_id: 1,
        }
    }

    /// Asks to be this user. It goes out with the next call: one round trip for both.
    pub(crate) fn become_user(&mut self, params: Value) {
        put_request(&mut self.out, self.next_id, "session.open", &params);
        self.next_id += 1;
        self.session = Some(params);
    }

    /// As `insist`, of what changes nothing: at a cluster's nodes it is asked again over another connection where one
    /// is lost.
    pub(crate) async fn read<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let late = Instant::now() + INSISTENCE;
        loop {
            match self.insist(method, &params).await {
                Err(CallError::Lost(_)) if self.has_others() && Instant::now() < late => {
                    let mut other = Client::open_as(&self.url, self.way, None).await?;
                    if let Some(session) = self.session.take() {
                        other.become_user(session);
                    }
                    *self = other;
                }
                done => return done,
            }
        }
    }

    /// Whether it can connect elsewhere, too.
    fn has_others(&self) -> bool {
        addresses(&self.url).len() > 1
    }

    /// As `call`, again and again while it is refused for now, but not forever.
    pub(crate) async fn insist<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let late = Instant::now() + INSISTENCE;
        loop {
            match self.call(method, &params).await {
                Err(CallError::Refused(refusal)) if refusal.data.retry && Instant::now() < late => {
                    sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    /// Sends one request and waits for its answer, but not forever; pushes that come before are dropped.
    pub(crate) async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        self.call_hearing(method, params, |_| {}).await
    }

    /// As `call`, and hands the pushes that come meanwhile to `hear`.
    pub(crate) async fn call_hearing<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<R, CallError> {
        let (id, mut found) = (self.next_id, None);
        self.next_id += 1;
        put_request(&mut self.out, id, method, &params);
        let late = Instant::now() + PATIENCE;
        loop {
            let each = |text: &[u8]| match Answer::read(text) {
                // Or `session.open`, which goes ahead, is refused: then the call is of another user.
                Some(answer) if answer.id == id || answer.outcome.is_err() => {
                    let result = answer.outcome.map_err(CallError::Refused);
                    let result = result.and_then(|result| read(result).map_err(CallError::Lost));
                    found.get_or_insert(result);
                }
                Some(_) => {}
                None if text.starts_with(PUSH) => hear(text),
                None => {
                    let text = String::from_utf8_lossy(text);
                    let what = format!("neither an answer nor a push: {text:.300}");
                    found = Some(Err(CallError::Lost(what)));
                }
            };
            let exchanged = timeout_at(late, self.hear_some(each)).await;
            if let Some(found) = found {
                return found;
            }
            let lost = |error| CallError::Lost(format!("no answer to {method}: {error}"));
            exchanged.map_err(io::Error::from).flatten().map_err(lost)?;
        }
    }

    /// Hands on what is pushed, until the connection ends. Cancel-safe.
    pub(crate) async fn hear(&mut self, mut hear: impl FnMut(&[u8])) -> io::Error {
        loop {
            if let Err(error) = self.hear_some(&mut hear).await {
                return error;
            }
        }
    }

    /// Answers the server's pings until the connection ends; what comes and is no push is a fault.
    pub(crate) async fn idle(mut self, checks: &Checks) {
        let hear = |text: &[u8]| {
            if !text.starts_with(PUSH) {
                let text = String::from_utf8_lossy(text);
                checks.fault(format_args!(
                    "not a push on an idle connection: {text:.300}"
                ));
            }
        };
        self.hear(hear).await;
    }

    /// Hands on what has come, as soon as there is something. Cancel-safe.
    pub(crate) async fn hear_some(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let parts = &mut self.parts;
        // Pongs stay in `out` until the next call takes them along.
        let texts = |bytes: &[u8], out: &mut Vec<u8>| texts(bytes, out, parts, &mut each);
        self.pipe.exchange(&mut self.out, texts).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::tests::{came, frame, say};
    use super::*;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

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

    /// A client of a server that says this, all at once, and is gone.
    async fn told(texts: &[&str]) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let pipe = Pipe::connect(&address, Way::Plain).await;
        let (mut server, _) = listener.accept().await.expect("a connection");
        let frame = |text: &&str| [&[0x81, text.len() as u8], text.as_bytes()].concat();
        let frames: Vec<_> = texts.iter().flat_map(frame).collect();
        server.write_all(&frames).await.expect("written");
        Client::on(&address, Way::Plain, pipe.expect("connected"))
    }

    #[tokio::test]
    async fn a_call_is_refused_with_the_session_that_goes_ahead_of_it() {
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":403,"message":"no"}}"#;
        let answered = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        let mut client = told(&[refused, answered]).await;
        client.become_user(json!({ "user": "u" }));
        let called = client.call::<IgnoredAny>("ping", json!({})).await;
        assert!(matches!(called, Err(CallError::Refused(no)) if no.code == 403));
    }

    #[tokio::test]
    async fn a_read_that_is_lost_is_asked_again_at_a_clusters_nodes_as_the_same_user() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = async {
            for asked in ["ping", "ping", "session.open"] {
                let mut stream = came(&listener).await;
                let text = frame(&mut stream).await;
                let text = String::from_utf8_lossy(&text);
                assert!(text.contains(asked), "{text}");
                let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                if asked == "session.open" {
                    say(&mut stream, &answer(2)).await;
                }
            }
        };
        let asking = async {
            let one = format!("ws://{address}/");
            let mut client = Client::open(&one).await.expect("connected");
            let lost = client.read::<IgnoredAny>("ping", json!({})).await;
            assert!(matches!(lost, Err(CallError::Lost(_))));
            let mut client = Client::open(&format!("{one},{one}"))
                .await
                .expect("connected");
            client.session = Some(json!({ "user": "u" }));
            client
                .read::<IgnoredAny>("ping", json!({}))
                .await
                .expect("answered");
        };
        tokio::join!(serving, asking);
    }

    #[tokio::test]
    async fn what_an_idle_connection_hears_and_is_no_push_is_a_fault() {
        let client = told(&[
            r#"{"jsonrpc":"2.0","method":"message","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            "{}",
        ])
        .await;
        let checks = Checks::default();
        client.idle(&checks).await;
        assert_eq!(checks.faults(), 2);
    }

    #[test]
    fn a_request_is_one_frame() {
        let mut out = Vec::new();
        put_request(&mut out, 7, "ping", &json!({}));
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(r#""id":7"#) && text.ends_with('}'), "{text}");
    }
}
