//! Making a stream, and appending to it.
//!
//! Owns: PUT and POST. Promises: one POST is one commit; a PUT that is repeated after a lost answer finishes what the
//! first one began. Must not: know how a message is stored.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION};
use hyper::{Request as HttpRequest, StatusCode};

use super::super::http::body;
use super::super::http::body::Body;
use super::super::http::respond::{Answer, empty, not_read};
use super::{Asked, CONTENT, Refused, say_next, say_type, text_of};
use tideline_model::Value;
use tideline_wire::durable::{JSON, OCTETS, entry, kind, messages};
use tideline_wire::messages::message;
use tideline_wire::timelines::timeline;
use tideline_wire::{Entry, Failure, Reason, Reply, Request};

/// What is not done yet of the protocol, by the header that asks for it.
const NOT_SERVED: [(&str, &str); 8] = [
    (
        "producer-id",
        "producers are not served yet: leave the Producer- headers out",
    ),
    (
        "producer-epoch",
        "producers are not served yet: leave the Producer- headers out",
    ),
    (
        "producer-seq",
        "producers are not served yet: leave the Producer- headers out",
    ),
    ("stream-seq", "Stream-Seq is not served yet: leave it out"),
    (
        "stream-ttl",
        "times to live are not served yet: leave Stream-TTL out",
    ),
    (
        "stream-expires-at",
        "times to live are not served yet: leave Stream-Expires-At out",
    ),
    ("stream-forked-from", "forks are not served yet"),
    ("stream-closed", "streams can't be closed yet"),
];

fn served(headers: &HeaderMap) -> Result<(), Refused> {
    for (name, why) in NOT_SERVED {
        let said = text_of(headers, name);
        let counts =
            name != "stream-closed" || said.is_some_and(|one| one.eq_ignore_ascii_case("true"));
        if headers.contains_key(name) && counts {
            return Err(Refused::Says(StatusCode::NOT_IMPLEMENTED, why));
        }
    }
    Ok(())
}

impl Asked {
    async fn body(&self, request: &mut HttpRequest<Incoming>) -> Result<Body, Refused> {
        let limits = &self.shared.options.limits;
        let bytes_max = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
        let holder = self.shared.per_client.holder(&self.caller.asker);
        let read = body::read(request, bytes_max, holder, &self.shared).await;
        read.map_err(|why| not_read(&why).into())
    }

    pub(super) async fn create(
        &mut self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Answer, Refused> {
        served(request.headers())?;
        let content_type = match request.headers().get(CONTENT_TYPE) {
            None => OCTETS.to_owned(),
            Some(said) => said
                .to_str()
                .ok()
                .filter(|said| kind(said).contains('/'))
                .ok_or(Refused::Says(
                    StatusCode::BAD_REQUEST,
                    "Content-Type is no type",
                ))?
                .to_owned(),
        };
        let location = location(request);
        let Body { bytes, share } = self.body(request).await?;
        let parts = taken_apart(bytes, kind(&content_type) == JSON)?;
        let meta = vec![(CONTENT.to_owned(), Value::String(content_type.clone()))];
        let create = timeline::Create {
            timeline: self.name.clone(),
            meta: Some(Entry::from(meta)),
            settings: None,
            members: Vec::new(),
            epoch: None,
        };
        let made = self
            .call(Request::TimelineCreate(Box::new(create)), 0)
            .await?;
        let Reply::TimelineCreate(made) = made else {
            return Err(Failure::from(Reason::InternalError).into());
        };
        let mut head = 0;
        if !made.created {
            let known = self.known().await?;
            if kind(&known.content_type) != kind(&content_type) {
                let why = "the stream is there, with another content type";
                return Err(Refused::Says(StatusCode::CONFLICT, why));
            }
            head = known.head;
        }
        if head == 0 && !parts.is_empty() {
            // Of the same name each time: what was appended before an answer was lost is not appended again.
            head = self
                .store(parts, kind(&content_type) == JSON, Some(FIRST))
                .await?;
        }
        drop(share);
        let status = match made.created {
            true => StatusCode::CREATED,
            false => StatusCode::OK,
        };
        let mut answer = empty(status);
        say_type(&mut answer, &content_type);
        say_next(&mut answer, head);
        if made.created
            && let Some(location) = location
        {
            answer.headers_mut().insert(LOCATION, location);
        }
        Ok(answer)
    }

    pub(super) async fn append(
        &mut self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Answer, Refused> {
        served(request.headers())?;
        let said = text_of(request.headers(), "content-type").map(kind);
        let Body { bytes, share } = self.body(request).await?;
        let known = self.known().await?;
        if bytes.is_empty() {
            return Err(Refused::Says(
                StatusCode::BAD_REQUEST,
                "there is nothing to append",
            ));
        }
        let said = said.ok_or(Refused::Says(
            StatusCode::BAD_REQUEST,
            "say the Content-Type",
        ))?;
        if said != kind(&known.content_type) {
            let why = "the stream has another content type";
            return Err(Refused::Says(StatusCode::CONFLICT, why));
        }
        let parts = taken_apart(bytes, known.is_json())?;
        if parts.is_empty() {
            return Err(Refused::Says(
                StatusCode::BAD_REQUEST,
                "an empty array appends nothing",
            ));
        }
        let head = self.store(parts, known.is_json(), None).await?;
        drop(share);
        let mut answer = empty(StatusCode::NO_CONTENT);
        say_next(&mut answer, head);
        Ok(answer)
    }

    /// Appends messages in one commit; the sequence of the last one.
    async fn store(
        &mut self,
        parts: Vec<Bytes>,
        is_json: bool,
        id: Option<&str>,
    ) -> Result<u64, Refused> {
        let limits = self.shared.options.limits.clone();
        let bytes: usize = parts.iter().map(Bytes::len).sum();
        let mut all = Vec::with_capacity(parts.len());
        for (number, data) in (0u32..).zip(parts) {
            all.push(message::BatchMessage {
                entry: Entry::from(entry(&self.name, data, is_json, &limits)?),
                message_id: id.map(|id| format!("{id}-{number}")),
                expires_in_ms: None,
            });
        }
        let batch = message::AppendBatch {
            timeline: self.name.clone(),
            messages: all,
            expect_head: None,
            create: false,
            epoch: None,
        };
        let checked = tideline_wire::checked(batch, &limits)?;
        let reply = self
            .call(Request::MessageAppendBatch(checked), bytes)
            .await?;
        match reply {
            Reply::MessageAppendBatch(done) => {
                Ok(done.messages.last().map_or(0, |one| one.sequence))
            }
            _ => Err(Failure::from(Reason::InternalError).into()),
        }
    }
}

/// What the messages of a PUT are called.
const FIRST: &str = "put";

fn taken_apart(body: Vec<u8>, is_json: bool) -> Result<Vec<Bytes>, Refused> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    if !is_json {
        return Ok(vec![Bytes::from(body)]);
    }
    messages(&body).ok_or(Refused::Says(
        StatusCode::BAD_REQUEST,
        "the body is not JSON",
    ))
}

/// Where the stream is, as its maker called it.
fn location(request: &HttpRequest<Incoming>) -> Option<HeaderValue> {
    let host = text_of(request.headers(), HOST.as_str())?;
    HeaderValue::from_str(&format!("http://{host}{}", request.uri().path())).ok()
}
