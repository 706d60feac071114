//! Making a stream, and appending to it.
//!
//! Owns: PUT and POST. Promises: one POST is one commit, and so is a PUT with what it appends. Must not: know
//! how a message is stored.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue, LOCATION};
use hyper::{Request as HttpRequest, StatusCode};

use super::super::dispatch::refusal;
use super::super::dispatch::timelines::message::of_batch;
use super::super::entrance::admitted::Does;
use super::super::http::body;
use super::super::http::body::Body;
use super::super::http::respond::{Answer, empty, not_read, say};
use super::fork::Source;
use super::{
    Asked, CONTENT, Known, Refused, bad, content_type, headers, say_closed, say_next, say_number,
    say_type, tag_of, text_of,
};
use tideline_model::Value;
use tideline_model::access::{Decision, Membership};
use tideline_timelines::timeline::{
    Append, AppendOne, Content, Create, Fork, Life, NewStream, SettingsPatch, StreamAppend,
    StreamRefused,
};
use tideline_wire::durable::{JSON, OCTETS, kind};
use tideline_wire::messages::message;
use tideline_wire::timelines::timeline;
use tideline_wire::{Failure, Method, Reason, Request};

/// What a PUT asks for.
struct Config {
    content_type: Option<String>,
    closed: bool,
    life: Life,
    fork: Option<Fork>,
    /// Of the fork's offset.
    tag: u64,
}

impl Config {
    fn read(headers: &HeaderMap) -> Result<Config, Refused> {
        let (fork, tag) = headers::fork(headers)?.unzip();
        Ok(Config {
            content_type: headers::content_type(headers)?,
            closed: headers::closes(headers),
            life: headers::life(headers)?,
            fork,
            tag: tag.unwrap_or(0),
        })
    }

    /// The answer if the stream is there. A fork that names no content type or no end fits any.
    fn found(&self, known: &Known) -> Result<Answer, Refused> {
        let said = self.content_type.as_deref();
        let said = said.or_else(|| Some(OCTETS).filter(|_| self.fork.is_none()));
        let is_other = |said: &str| kind(said) != kind(&known.content_type);
        let says_life = self.fork.is_none() || self.life != Life::default();
        let differs = if said.is_some_and(is_other) {
            "has another content type"
        } else if self.fork.clone().unwrap_or_default() != known.fork {
            "is a fork of another place, or none"
        } else if known.closed != self.closed {
            match known.closed {
                true => "is closed",
                false => "is open",
            }
        } else if says_life && self.life != known.life {
            "lives by another time"
        } else {
            return Ok(made(StatusCode::OK, known));
        };
        let why = format!("the stream is there, and {differs}");
        Err(say(StatusCode::CONFLICT, &why).into())
    }
}

/// The answer to a PUT.
fn made(status: StatusCode, known: &Known) -> Answer {
    let mut answer = empty(status);
    say_type(&mut answer, &known.content_type);
    let end = if known.closed { known.head } else { known.end };
    say_next(&mut answer, known.tag, end);
    say_closed(&mut answer, known.closed);
    answer
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
        &self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Answer, Refused> {
        let mut config = Config::read(request.headers())?;
        let location = location(request, self.scheme);
        let Body { bytes, share } = self.body(request).await?;
        self.admitted.begins(bytes.len())?;
        let source = self.source(&mut config).await?;
        let content_type = config.content_type.clone();
        let content_type = content_type.unwrap_or_else(|| OCTETS.to_owned());
        let is_json = kind(&content_type) == JSON;
        let parts = self.taken_apart(bytes, is_json)?;
        let (inherited, messages) = match source {
            Some(source) => (Some(source.inherited), source.messages),
            None => (None, Vec::new()),
        };
        let forked = inherited.as_ref().map(|it| it.fork.source.clone());
        let first = self.first(messages, parts, is_json)?;
        let create = timeline::Create {
            timeline: self.name.clone(),
            meta: None,
            settings: None,
            members: Vec::new(),
            epoch: None,
        };
        let noted = self.noted(&Request::TimelineCreate(Box::new(create)));
        let new = NewStream {
            create: Create {
                target: self.target(Method::TimelineCreate),
                meta: vec![(CONTENT.to_owned(), Value::String(content_type))],
                settings: SettingsPatch::default(),
                members: Vec::new(),
                implicit: false,
            },
            first,
            closed: config.closed,
            life: config.life,
            inherited,
        };
        let creating = self.shared.timelines.create_stream(new);
        let done = self.change(Method::TimelineCreate, noted, creating);
        let (stream, created) = done.await?;
        drop(share);
        let known = Known::from(stream);
        if !created {
            return config.found(&known);
        }
        if let Some(source) = forked {
            // Its note was forgotten, if the source ended before there was a fork.
            let keeping = self.shared.timelines.keep_fork(source, self.name.clone());
            let kept = self.admitted.perform(Does::Changes, keeping).await?;
            kept.map_err(refusal)?;
        }
        let mut answer = made(StatusCode::CREATED, &known);
        if let Some(location) = location {
            answer.headers_mut().insert(LOCATION, location);
        }
        Ok(answer)
    }

    /// The source of a fork that is to be made. What the request does not say of the fork is as in the source. A caller
    /// that may make no stream is refused here, before the body is looked at.
    async fn source(&self, config: &mut Config) -> Result<Option<Source>, Refused> {
        let may_make = self.may_make();
        if may_make.is_ok() && self.has_forks().await? {
            let why = "the stream is deleted, and its name is kept for its forks";
            return Err(Refused::Says(StatusCode::CONFLICT, why));
        }
        if config.fork.is_some() || may_make.is_err() {
            match self.known(Method::TimelineCreate).await {
                // One that is there is compared, whatever has become of its source.
                Ok(known) => return Err(config.found(&known)?.into()),
                Err(failure) if failure.reason == Reason::TimelineNotFound => may_make?,
                Err(failure) => return Err(failure.into()),
            }
        }
        let Some(fork) = config.fork.clone() else {
            return Ok(None);
        };
        let source = self.inherit(fork, config.tag).await?;
        let content_type = &source.known.content_type;
        let said = config
            .content_type
            .get_or_insert_with(|| content_type.clone());
        if kind(said) != kind(content_type) {
            let why = "the source has another content type";
            return Err(Refused::Says(StatusCode::CONFLICT, why));
        }
        if config.life == Life::default() {
            config.life = source.known.life;
        }
        let of = self.about(source.inherited.fork.source.clone());
        let of = of.target(Method::MessageRange);
        let noting = self.shared.timelines.note_fork(of, self.name.clone());
        let noted = self.admitted.perform(Does::Changes, noting).await?;
        noted.map_err(refusal)?;
        Ok(Some(source))
    }

    /// Whether the caller's rights on this name let it make a stream.
    fn may_make(&self) -> Result<(), Failure> {
        let asker = self.caller.asking(Method::TimelineCreate);
        match asker.decide(asker.rights(self.name.as_bytes(), Membership::default())) {
            Decision::Allowed => Ok(()),
            Decision::Forbidden => Err(Reason::Forbidden.into()),
            Decision::Hidden => Err(Reason::TimelineNotFound.into()),
        }
    }

    /// The first messages of a stream: those of its source and its own.
    fn first(
        &self,
        messages: Vec<AppendOne>,
        parts: Vec<Bytes>,
        is_json: bool,
    ) -> Result<Option<Append>, Refused> {
        let own = match parts.is_empty() {
            true => self.nothing(),
            false => self.batch(parts, is_json)?,
        };
        let needs = match own.messages.is_empty() {
            true => Method::TimelineCreate,
            false => Method::MessageAppendBatch,
        };
        let mut first = of_batch(&self.caller, own);
        first.asker = self.caller.asking(needs);
        first.messages.splice(0..0, messages);
        Ok(Some(first).filter(|first| !first.messages.is_empty()))
    }

    pub(super) async fn append(
        &self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Answer, Refused> {
        let mut asked = headers::append(request.headers())?;
        let said = text_of(request.headers(), "content-type").map(kind);
        let Body { bytes, share } = self.body(request).await?;
        self.admitted.begins(bytes.len())?;
        if !bytes.is_empty() {
            asked.content = Some(Content {
                kind: said.clone().unwrap_or_default(),
                of: |meta| kind(content_type(meta)),
            });
        }
        // By what the request says of it: the commit sees whether the stream is of that type.
        let taken = self.content(bytes, said.as_deref() == Some(JSON), asked.closes);
        let batch = match taken {
            Ok(batch) => batch,
            Err(why) => self.not_taken(&asked, why).await?,
        };
        let append = of_batch(&self.caller, batch);
        let noted = self.noted(&Request::MessageAppendBatch(self.nothing()));
        let (timelines, trace) = (&self.shared.timelines, self.caller.trace);
        let appending = timelines.append_to_stream(append, trace, asked.clone());
        let done = self.change(Method::MessageAppendBatch, noted, appending);
        let (place, done) = done.await?;
        drop(share);
        let tag = tag_of(&place.epoch, place.is_fork);
        let done = match done {
            Err(StreamRefused::OtherType) if said.is_none() => return bad("say the Content-Type"),
            done => done.map_err(|why| refused(why, &asked, tag))?,
        };
        let is_news = asked.producer.is_some() && !done.duplicate && asked.content.is_some();
        let mut answer = empty(match is_news {
            true => StatusCode::OK,
            false => StatusCode::NO_CONTENT,
        });
        say_next(&mut answer, tag, done.end);
        say_closed(&mut answer, done.closed);
        if let (Some(producer), Some(seq)) = (&asked.producer, done.seq) {
            say_number(&mut answer, "producer-epoch", producer.epoch);
            say_number(&mut answer, "producer-seq", seq);
        }
        Ok(answer)
    }

    pub(super) fn nothing(&self) -> message::AppendBatch {
        message::AppendBatch {
            timeline: self.name.clone(),
            messages: Vec::new(),
            expect_head: None,
            create: false,
            epoch: None,
        }
    }
}

/// Why a stream took nothing, as the protocol says it.
fn refused(why: StreamRefused, asked: &StreamAppend, tag: u64) -> Answer {
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
        StreamRefused::OtherType => (StatusCode::CONFLICT, "the stream has another content type"),
        StreamRefused::SeqNotAbove => (
            StatusCode::CONFLICT,
            "Stream-Seq is not above that of the last append",
        ),
    };
    let mut answer = say(status, text);
    match why {
        StreamRefused::Closed(head) => {
            say_next(&mut answer, tag, head);
            say_closed(&mut answer, true);
        }
        StreamRefused::StaleEpoch(epoch) => say_number(&mut answer, "producer-epoch", epoch),
        StreamRefused::Gap(expected) => {
            say_number(&mut answer, "producer-expected-seq", expected);
            let received = asked.producer.as_ref().map_or(0, |producer| producer.seq);
            say_number(&mut answer, "producer-received-seq", received);
        }
        StreamRefused::NotFirst | StreamRefused::OtherType | StreamRefused::SeqNotAbove => {}
    }
    answer
}

/// The stream's URL, by the host that the request names.
fn location(request: &HttpRequest<Incoming>, scheme: &str) -> Option<HeaderValue> {
    let host = text_of(request.headers(), HOST.as_str())?;
    HeaderValue::from_str(&format!("{scheme}://{host}{}", request.uri().path())).ok()
}
