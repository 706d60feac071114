//! Making a stream, and appending to it.
//!
//! Owns: PUT and POST. Promises: one POST is one commit, and so is a PUT with what it appends. Must not: know how a message is stored.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue, LOCATION};
use hyper::{Request as HttpRequest, StatusCode};

use super::super::dispatch::timelines::message::of_batch;
use super::super::http::body;
use super::super::http::body::Body;
use super::super::http::respond::{Answer, empty, not_read, say};
use super::{
    Asked, CONTENT, Known, Refused, headers, say_closed, say_next, say_number, say_type, text_of,
};
use tideline_model::Value;
use tideline_timelines::timeline::{Append, Create, SettingsPatch, StreamAppend, StreamRefused};
use tideline_wire::durable::{JSON, OCTETS, entry, kind, messages};
use tideline_wire::messages::message;
use tideline_wire::timelines::timeline;
use tideline_wire::{Entry, Method, Request};

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
        headers::served(request.headers())?;
        let closed = headers::closes(request.headers());
        let life = headers::life(request.headers())?;
        let content_type = headers::content_type(request.headers())?;
        let content_type = content_type.unwrap_or_else(|| OCTETS.to_owned());
        let location = location(request);
        let Body { bytes, share } = self.body(request).await?;
        let is_json = kind(&content_type) == JSON;
        let parts = taken_apart(bytes, is_json)?;
        let (first, bytes) = match parts.is_empty() {
            true => (None, 0),
            false => self
                .batch(parts, is_json)
                .map(|(all, bytes)| (Some(all), bytes))?,
        };
        let create = timeline::Create {
            timeline: self.name.clone(),
            meta: None,
            settings: None,
            members: Vec::new(),
            epoch: None,
        };
        let noted = self.noted(&Request::TimelineCreate(Box::new(create)));
        let create = Create {
            target: self.target(Method::TimelineCreate),
            meta: vec![(CONTENT.to_owned(), Value::String(content_type.clone()))],
            settings: SettingsPatch::default(),
            members: Vec::new(),
            implicit: false,
        };
        let first = first.map(|first| of_batch(&self.caller, first));
        let timelines = self.shared.timelines.clone();
        let creating = async move { timelines.create_stream(create, first, closed, life).await };
        let done = self.change(Method::TimelineCreate, bytes, noted, creating);
        let (info, lives, created) = done.await?;
        drop(share);
        let known = Known::from((info, lives));
        if !created {
            let differs = match known.closed == closed {
                _ if kind(&known.content_type) != kind(&content_type) => "has another content type",
                false if closed => "is open",
                false => "is closed",
                true if known.life != life => "lives by another time",
                true => "",
            };
            if !differs.is_empty() {
                let why = format!("the stream is there, and {differs}");
                return Err(Refused::Answer(Box::new(say(StatusCode::CONFLICT, &why))));
            }
        }
        let mut answer = empty(match created {
            true => StatusCode::CREATED,
            false => StatusCode::OK,
        });
        say_type(&mut answer, &content_type);
        say_next(&mut answer, known.head);
        say_closed(&mut answer, known.closed);
        if created && let Some(location) = location {
            answer.headers_mut().insert(LOCATION, location);
        }
        Ok(answer)
    }

    pub(super) async fn append(
        &mut self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Answer, Refused> {
        headers::served(request.headers())?;
        let asked = headers::append(request.headers())?;
        let said = text_of(request.headers(), "content-type").map(kind);
        let Body { bytes, share } = self.body(request).await?;
        let known = self.known(Method::MessageAppend).await?;
        let is_empty = bytes.is_empty();
        if is_empty && !asked.closes {
            return bad("there is nothing to append");
        }
        if known.closed && asked.producer.is_none() && !is_empty {
            return Err(refused(StreamRefused::Closed(known.head), &asked).into());
        }
        let (batch, bytes) = match is_empty {
            true => (self.nothing(), 0),
            false => {
                let Some(said) = said else {
                    return bad("say the Content-Type");
                };
                if said != kind(&known.content_type) {
                    let why = "the stream has another content type";
                    return Err(Refused::Says(StatusCode::CONFLICT, why));
                }
                let parts = taken_apart(bytes, known.is_json())?;
                if parts.is_empty() {
                    return bad("an empty array appends nothing");
                }
                self.batch(parts, known.is_json())?
            }
        };
        let append = of_batch(&self.caller, batch.clone());
        let noted = self.noted(&Request::MessageAppendBatch(batch));
        let append = Append {
            epoch: Some(known.epoch),
            ..append
        };
        let (timelines, trace) = (self.shared.timelines.clone(), self.caller.trace);
        let of_stream = asked.clone();
        let appending = async move { timelines.append_to_stream(append, trace, of_stream).await };
        let done = self.change(Method::MessageAppendBatch, bytes, noted, appending);
        let done = done.await?;
        drop(share);
        let done = done.map_err(|why| refused(why, &asked))?;
        let is_news = asked.producer.is_some() && !done.duplicate && !is_empty;
        let mut answer = empty(match is_news {
            true => StatusCode::OK,
            false => StatusCode::NO_CONTENT,
        });
        say_next(&mut answer, done.head);
        say_closed(&mut answer, done.closed);
        if let (Some(producer), Some(seq)) = (&asked.producer, done.seq) {
            say_number(&mut answer, "producer-epoch", producer.epoch);
            say_number(&mut answer, "producer-seq", seq);
        }
        Ok(answer)
    }

    /// Messages of one commit, and how many bytes they are.
    fn batch(
        &self,
        parts: Vec<Bytes>,
        is_json: bool,
    ) -> Result<(message::AppendBatch, usize), Refused> {
        let limits = &self.shared.options.limits;
        let bytes: usize = parts.iter().map(Bytes::len).sum();
        let mut batch = self.nothing();
        for data in parts {
            batch.messages.push(message::BatchMessage {
                entry: Entry::from(entry(&self.name, data, is_json, limits)?),
                message_id: None,
                expires_in_ms: None,
            });
        }
        Ok((tideline_wire::checked(batch, limits)?, bytes))
    }

    fn nothing(&self) -> message::AppendBatch {
        message::AppendBatch {
            timeline: self.name.clone(),
            messages: Vec::new(),
            expect_head: None,
            create: false,
            epoch: None,
        }
    }
}

fn bad<T>(why: &'static str) -> Result<T, Refused> {
    Err(Refused::Says(StatusCode::BAD_REQUEST, why))
}

/// Why a stream took nothing, as the protocol says it.
fn refused(why: StreamRefused, asked: &StreamAppend) -> Answer {
    let (status, text) = match why {
        StreamRefused::Closed(_) => (StatusCode::CONFLICT, "the stream is closed"),
        StreamRefused::StaleEpoch(_) => (
            StatusCode::FORBIDDEN,
            "a producer of this ID has come with a higher epoch",
        ),
        StreamRefused::Gap(_) => (
            StatusCode::CONFLICT,
            "appends of this producer before this one are missing",
        ),
        StreamRefused::NotFirst => (
            StatusCode::BAD_REQUEST,
            "a producer begins each epoch with Producer-Seq 0",
        ),
        StreamRefused::SeqNotAbove => (
            StatusCode::CONFLICT,
            "Stream-Seq is not above that of the last append",
        ),
    };
    let mut answer = say(status, text);
    match why {
        StreamRefused::Closed(head) => {
            say_next(&mut answer, head);
            say_closed(&mut answer, true);
        }
        StreamRefused::StaleEpoch(epoch) => say_number(&mut answer, "producer-epoch", epoch),
        StreamRefused::Gap(expected) => {
            say_number(&mut answer, "producer-expected-seq", expected);
            let received = asked.producer.as_ref().map_or(0, |producer| producer.seq);
            say_number(&mut answer, "producer-received-seq", received);
        }
        StreamRefused::NotFirst | StreamRefused::SeqNotAbove => {}
    }
    answer
}

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
