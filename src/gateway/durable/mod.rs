//! Durable Streams' protocol at `/v1/stream/NAME`: one more dialect of the timelines.
//!
//! Owns: which request does what, the caller, and the headers of answers. Promises: a stream is a timeline, with its
//! rights, limits and order; what is stored is done by the same calls as the native protocol's; what this server does
//! not do of the protocol is refused by name before anything is done. Must not: keep anything between two requests.

mod content;
mod fork;
mod headers;
mod joined;
mod live;
mod read;
mod write;

use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method as HttpMethod, Request as HttpRequest, StatusCode};

pub(super) use self::joined::Joined;
use super::Shared;
use super::dispatch::audit::Noted;
use super::dispatch::{self, Caller};
use super::entrance::admitted::{Admitted, Does};
use super::entrance::door;
use super::entrance::door::Visitor;
use super::http::request_id::trace_of;
use super::http::respond::{Answer, empty, not_allowed, say, set};
use super::http::rpc;
use tideline_base::decode::query;
use tideline_model::Value;
use tideline_timelines::timeline::{Error, Fork, Life, Meta, Stream, Target};
use tideline_wire::durable::{JSON, kind, offset, tag, time_text};
use tideline_wire::timelines::timeline;
use tideline_wire::{Failure, Method, Reason, Request};

/// Where streams are.
pub(super) const STREAMS: &str = "/v1/stream/";

/// A request about one stream.
#[derive(Clone)]
struct Asked {
    shared: Arc<Shared>,
    admitted: Arc<Admitted>,
    caller: Caller,
    /// How the caller has reached the server.
    scheme: &'static str,
    name: String,
}

/// What is known of a stream.
struct Known {
    epoch: String,
    /// In its offsets; 0 in a fork, whose offsets are those of its source.
    tag: u64,
    head: u64,
    /// The sequence before the first message that still grows, which readers wait for; else the head.
    end: u64,
    floor: u64,
    /// As it was given when the stream was made.
    content_type: String,
    /// Of the meta, which holds the content type.
    version: u64,
    closed: bool,
    life: Life,
    fork: Fork,
    /// This use of it is to be written.
    renew: bool,
}

impl From<Stream> for Known {
    fn from(stream: Stream) -> Known {
        let Stream {
            info,
            end,
            life,
            fork,
            renew,
        } = stream;
        Known {
            content_type: content_type(&info.meta).to_owned(),
            version: info.version,
            tag: tag_of(&info.epoch, !fork.source.is_empty()),
            epoch: info.epoch,
            head: info.head,
            end,
            floor: info.floor,
            closed: info.closed,
            life,
            fork,
            renew,
        }
    }
}

impl Known {
    fn is_json(&self) -> bool {
        kind(&self.content_type) == JSON
    }

    /// Refuses an offset that an earlier stream of the name has given, or none. The tag 0 does not say of which stream
    /// it is.
    fn check_of(&self, after: u64, tag: u64) -> Result<(), Refused> {
        let is_other = after > 0 && ![tag, self.tag].contains(&0) && self.tag != tag;
        if after > self.head || is_other {
            let why = "this offset is of another stream, which had this name";
            return Err(Refused::Says(StatusCode::GONE, why));
        }
        Ok(())
    }
}

/// The content type of a stream, as it was given when it was made.
fn content_type(meta: &Meta) -> &str {
    match meta.iter().find(|(name, _)| name == CONTENT) {
        Some((_, Value::String(said))) => said,
        _ => JSON,
    }
}

/// What stands for its history in the offsets of a stream.
fn tag_of(epoch: &str, is_fork: bool) -> u64 {
    match is_fork {
        true => 0,
        false => tag(epoch),
    }
}

/// The column of a timeline's meta that says what its messages are.
const CONTENT: &str = "content_type";

/// Why nothing was done.
enum Refused {
    /// As the native protocol says it.
    Failure(Failure),
    /// As this one does.
    Says(StatusCode, &'static str),
    /// A whole answer.
    Answer(Box<Answer>),
}

fn bad<T>(why: &'static str) -> Result<T, Refused> {
    Err(Refused::Says(StatusCode::BAD_REQUEST, why))
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failure(failure)
    }
}

impl From<Answer> for Refused {
    fn from(answer: Answer) -> Refused {
        Refused::Answer(Box::new(answer))
    }
}

/// Answers one request.
pub(super) async fn serve(
    request: &mut HttpRequest<Incoming>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Answer {
    let answered = answer(request, visitor, shared).await;
    let mut answer = answered.unwrap_or_else(|refused| match refused {
        Refused::Failure(failure) if failure.reason == Reason::TimelineNotFound => {
            say(StatusCode::NOT_FOUND, "no such stream")
        }
        Refused::Failure(failure) => door::refusal(&failure),
        Refused::Says(status, why) => say(status, why),
        Refused::Answer(answer) => *answer,
    });
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    set(&mut answer, policy, "cross-origin");
    // What a stream holds is its writers': shown by a browser it must not run as the server's own.
    let sandbox = "sandbox; default-src 'none'";
    set(&mut answer, CONTENT_SECURITY_POLICY, sandbox);
    set(&mut answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    if !answer.headers().contains_key(CACHE_CONTROL) {
        set(&mut answer, CACHE_CONTROL, "no-store");
    }
    answer
}

async fn answer(
    request: &mut HttpRequest<Incoming>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Result<Answer, Refused> {
    let method = request.method().clone();
    if method == HttpMethod::OPTIONS {
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    let name = name(request.uri().path()).ok_or(Refused::Says(
        StatusCode::NOT_FOUND,
        "no stream can have this name",
    ))?;
    let admitted = rpc::admit(request.headers(), visitor, shared).await?;
    let mut caller = Caller::default();
    caller.asker = admitted.asker().clone();
    caller.trace = trace_of(request);
    caller.address = shared.door.as_ref().map(|_| visitor.address);
    let asked = Asked {
        shared: Arc::clone(shared),
        admitted: Arc::new(admitted),
        caller,
        scheme: if visitor.is_secure { "https" } else { "http" },
        name,
    };
    // What has a body counts with the bytes of it.
    if matches!(
        method,
        HttpMethod::GET | HttpMethod::HEAD | HttpMethod::DELETE
    ) {
        asked.admitted.begins(0)?;
    }
    let again = asked.clone();
    let answered = match method {
        HttpMethod::GET => {
            let counted = asked.counted(Method::MessageRange);
            counted(asked.read(request).await)
        }
        HttpMethod::HEAD => {
            let counted = asked.counted(Method::TimelineGet);
            counted(asked.head().await)
        }
        HttpMethod::PUT => asked.create(request).await,
        HttpMethod::POST => asked.append(request).await,
        HttpMethod::DELETE => asked.delete().await,
        _ => Ok(not_allowed("GET, HEAD, PUT, POST, DELETE, OPTIONS")),
    };
    match answered {
        Err(Refused::Failure(failure)) if failure.reason == Reason::TimelineNotFound => {
            let gone = "the stream is deleted, and its name is kept for its forks only";
            Err(match again.is_held().await? {
                true => Refused::Says(StatusCode::GONE, gone),
                false => failure.into(),
            })
        }
        answered => answered,
    }
}

/// The stream that a path names: what is behind the prefix, decoded once.
fn name(path: &str) -> Option<String> {
    let name = path.strip_prefix(STREAMS)?;
    let is_step = |part: &str| matches!(part, "" | "." | ".." | "__ds");
    let name = query::of_path(name)?;
    let is_own = name.starts_with('$') || name.split('/').any(is_step);
    (!is_own && tideline_wire::check_timeline(&name).is_ok()).then_some(name)
}

impl Asked {
    /// Another stream, for the same caller.
    fn about(&self, name: String) -> Asked {
        Asked {
            name,
            ..self.clone()
        }
    }

    /// Counts the outcome of a request as one of this native method.
    fn counted(
        &self,
        method: Method,
    ) -> impl FnOnce(Result<Answer, Refused>) -> Result<Answer, Refused> + use<> {
        let (shared, began) = (Arc::clone(&self.shared), Instant::now());
        move |answered| {
            let failure = match &answered {
                Err(Refused::Failure(failure)) => Some(failure.clone()),
                Err(_) => Some(Reason::InvalidParams.into()),
                Ok(_) => None,
            };
            let counted = failure.as_ref().map_or(Ok(()), Err);
            shared
                .counters
                .count(Some(method), counted, began.elapsed());
            answered
        }
    }

    /// What is known of the stream, for a caller who may do this with it.
    async fn known(&self, method: Method) -> Result<Known, Failure> {
        let get = self.shared.timelines.stream(self.target(method));
        let info = self.admitted.perform(Does::Reads, get).await?;
        Ok(info.map_err(dispatch::refusal)?.into())
    }

    /// The stream, for a caller that wants to do this.
    fn target(&self, method: Method) -> Target {
        Target {
            timeline: self.name.clone(),
            epoch: None,
            asker: self.caller.asking(method),
        }
    }

    /// The line of the audit for a change, if there is one.
    fn noted(&self, request: &Request) -> Option<Noted> {
        Noted::of(&self.shared, &self.caller, request)
    }

    /// Does a change, counted and noted as a call of this native method. Its request was counted by the limits before.
    async fn change<T>(
        &self,
        method: Method,
        noted: Option<Noted>,
        change: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        let done = self.admitted.perform(Does::Changes, change).await;
        let done = done.and_then(|done| done.map_err(dispatch::refusal));
        let failure = done.as_ref().err();
        if let Some(noted) = noted {
            noted.said(failure, failure.is_none());
        }
        let counted = failure.map_or(Ok(()), Err);
        let counters = &self.shared.counters;
        counters.count(Some(method), counted, began.elapsed());
        done
    }

    async fn head(&self) -> Result<Answer, Refused> {
        let known = self.known(Method::TimelineGet).await?;
        let mut answer = empty(StatusCode::OK);
        say_type(&mut answer, &known.content_type);
        say_next(&mut answer, known.tag, known.end);
        say_closed(&mut answer, known.closed && known.end == known.head);
        if let Some(ttl_s) = known.life.ttl_s {
            say_number(&mut answer, "stream-ttl", ttl_s);
        }
        if let Some(at_ms) = known.life.expires_at {
            say_header(&mut answer, "stream-expires-at", &time_text(at_ms));
        }
        Ok(answer)
    }

    async fn delete(&self) -> Result<Answer, Refused> {
        let known = self.known(Method::TimelineDelete).await?;
        let mut target = self.target(Method::TimelineDelete);
        target.epoch = Some(known.epoch);
        let noted = self.noted(&Request::TimelineDelete(timeline::Delete {
            timeline: self.name.clone(),
            epoch: None,
        }));
        let deleting = async { self.shared.timelines.delete(target).await };
        let deleted = self.change(Method::TimelineDelete, noted, deleting);
        match deleted.await? {
            true => Ok(empty(StatusCode::NO_CONTENT)),
            false => Err(Refused::Says(StatusCode::NOT_FOUND, "no such stream")),
        }
    }
}

fn say_next(answer: &mut Answer, tag: u64, sequence: u64) {
    say_header(answer, "stream-next-offset", &offset(sequence, tag));
}

/// Says that the stream is closed, if it is and the answer reaches its end.
fn say_closed(answer: &mut Answer, closed: bool) {
    if closed {
        say_header(answer, "stream-closed", "true");
    }
}

fn say_number(answer: &mut Answer, name: &'static str, number: u64) {
    say_header(answer, name, &number.to_string());
}

fn say_type(answer: &mut Answer, content_type: &str) {
    if let Ok(value) = HeaderValue::from_str(content_type) {
        answer.headers_mut().insert(CONTENT_TYPE, value);
    }
}

fn say_header(answer: &mut Answer, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        let name = HeaderName::from_static(name);
        answer.headers_mut().insert(name, value);
    }
}

/// A header that says something, as text.
fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
