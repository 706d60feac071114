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
use tideline_wire::{Entry, Failure, Method, Reason, Reply, Request};

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
    well_formed(headers)?;
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

/// Refuses what is wrong with times to live and forks, whether they are served or not.
fn well_formed(headers: &HeaderMap) -> Result<(), Refused> {
    let bad = |why| Err(Refused::Says(StatusCode::BAD_REQUEST, why));
    let (ttl, expires) = (headers.get("stream-ttl"), headers.get("stream-expires-at"));
    if ttl.is_some() && expires.is_some() {
        return bad("either Stream-TTL or Stream-Expires-At");
    }
    if let Some(ttl) = ttl {
        let digits = ttl.as_bytes();
        let is_number = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        if !is_number || digits.len() > 1 && digits[0] == b'0' {
            return bad("Stream-TTL is a number of seconds in plain digits");
        }
    }
    if expires.is_some_and(|at| !at.to_str().is_ok_and(is_time)) {
        return bad("Stream-Expires-At is a time as in RFC 3339");
    }
    let of_fork = ["stream-fork-offset", "stream-fork-sub-offset"];
    let has_source = headers.contains_key("stream-forked-from");
    if !has_source && of_fork.iter().any(|name| headers.contains_key(*name)) {
        return bad("an offset of a fork comes with Stream-Forked-From");
    }
    Ok(())
}

/// Whether a text has the form of RFC 3339.
fn is_time(text: &str) -> bool {
    let shape = |text: &str, form: &str| {
        let is_fit = |(byte, form): (u8, u8)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte.eq_ignore_ascii_case(&other),
        };
        text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_fit)
    };
    let Some((time, zone)) = text.split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    let zone = match zone.strip_prefix('.') {
        Some(rest) => rest.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => zone,
    };
    let is_zone = shape(zone, "Z") || shape(zone, "+00:00") || shape(zone, "-00:00");
    shape(time, "0000-00-00T00:00:00") && is_zone
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
            let known = self.known(Method::TimelineCreate).await?;
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
        let known = self.known(Method::MessageAppend).await?;
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
