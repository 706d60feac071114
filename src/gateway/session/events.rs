//! A session whose pushes go down one response of HTTP as server-sent events, and whose client says nothing more.
//!
//! Owns: the head of the response, the IDs of events, and when the stream is over. Promises: the head says whether what
//! was asked for is followed at all; the ID in an event is of the place behind it, so that a client that comes back with
//! it misses nothing and gets nothing twice; what can't be followed again is not in an ID. Must not: decide what is
//! pushed; the subscriptions do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use tokio::io::{AsyncRead as _, ReadBuf};

use super::super::entrance::door;
use super::super::http::respond::head;
use super::super::outbox::Outbox;
use super::inbound::Reader;
use super::subscriptions::parts::Part;
use super::subscriptions::{conversations, opening};
use super::{End, RECONNECT_MIN_MS, Session, random};
use tideline_base::faults;
use tideline_base::metrics::Held;
use tideline_model::access::Asker;
use tideline_wire::events::{Asked, COMMENT, ID_BYTES_MAX, id, retry};
use tideline_wire::jsonrpc::JSON;
use tideline_wire::timelines::sync::{Start, SubscribedOne};
use tideline_wire::{Dialect, Ended, Failure, Id, Reason};

/// What the request of a stream leaves to the session.
pub(in super::super) struct Streaming {
    pub(in super::super) asked: Asked,
    /// The user that is believed, where nobody is asked for a credential.
    pub(in super::super) user: Option<String>,
    /// How the client calls itself.
    pub(in super::super) client: Option<String>,
    /// Those of the answer that say nothing of what is in it.
    pub(in super::super) headers: HeaderMap,
    /// Counts it among the streams.
    pub(in super::super) counted: Held,
}

/// The response of a session.
pub(super) struct EventStream {
    /// Until the head is in the outbox.
    headers: Option<Box<HeaderMap>>,
    /// Where a client that comes back goes on. Of all conversations only those that it was sent something of.
    places: Vec<(Arc<str>, Start)>,
    /// It follows all conversations of its user.
    is_of_all: bool,
    /// Nothing more is said.
    is_over: bool,
    _counted: Held,
}

/// A client of a stream that ends because its IDs are full comes back at once.
const AT_ONCE_MS: u64 = 10;
/// A client whose stream broke comes back after a random time up to so much more than the least.
const RETRY_SPREAD_MS: u64 = 3_000;

impl EventStream {
    fn new(streaming: Streaming) -> EventStream {
        let starts = streaming.asked.subscribe.timelines.into_iter().flatten();
        EventStream {
            headers: Some(Box::new(streaming.headers)),
            places: starts.map(|(name, start)| (name.into(), start)).collect(),
            is_of_all: streaming.asked.subscribe.conversations.is_some(),
            is_over: false,
            _counted: streaming.counted,
        }
    }

    /// The stream has begun: what can't be refused any more follows.
    fn begin(&mut self, outbox: &mut Outbox) {
        let Some(mut headers) = self.headers.take() else {
            return;
        };
        let set = [
            (CONTENT_TYPE, "text/event-stream"),
            (CACHE_CONTROL, "no-cache, no-store"),
            // Proxies pass on each event as it comes.
            (HeaderName::from_static("x-accel-buffering"), "no"),
            (CONNECTION, "close"),
        ];
        for (name, value) in set {
            headers.insert(name, HeaderValue::from_static(value));
        }
        outbox.push(head(StatusCode::OK, &headers));
        outbox.push(retry(RECONNECT_MIN_MS + random() % RETRY_SPREAD_MS));
    }

    /// The answer to a request of which nothing is followed.
    fn refuse(&mut self, failure: &Failure, outbox: &mut Outbox) {
        self.is_over = true;
        let Some(mut headers) = self.headers.take() else {
            return;
        };
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let answer = door::refusal(failure);
        let body = (&JSON as &dyn Dialect).encode(&Id::Null, Err(failure));
        let own = answer.headers().iter();
        headers.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        outbox.push(head(answer.status(), &headers));
        outbox.push(body);
    }

    /// Timelines were read: `false` = all are refused, and so is the request.
    pub(super) fn began(&mut self, parts: &[Part], is_all: bool, outbox: &mut Outbox) -> bool {
        let refused = parts.iter().map(|part| match part.shown {
            Some(SubscribedOne::Refused { reason }) => Some(reason),
            _ => None,
        });
        if self.headers.is_some()
            && is_all
            && let Some(Some(reason)) = refused.clone().next()
            && refused.clone().all(|reason| reason.is_some())
        {
            self.refuse(&reason.into(), outbox);
            return false;
        }
        self.begin(outbox);
        for part in parts {
            let is_gone = |reason: &Reason| !reason.retry();
            match (&part.shown, &part.subscription) {
                (Some(SubscribedOne::Refused { reason }), _) if is_gone(reason) => {
                    self.drop_place(&part.timeline);
                }
                (Some(SubscribedOne::Subscribed(shown)), None) => match &*shown.epoch {
                    // There is nothing now, and coming back must not make it.
                    "" => self.drop_place(&part.timeline),
                    // It starts over with the history that there is now.
                    epoch => self.place(&part.timeline, epoch, 0, 0),
                },
                (Some(SubscribedOne::Subscribed(_)), Some(subscription)) => {
                    let at = subscription.cursor();
                    self.place(&part.timeline, &at.epoch, at.sequence, at.change);
                }
                _ => {}
            }
        }
        if parts.iter().any(|part| part.shown.is_some()) {
            self.say_place(outbox);
        }
        true
    }

    /// What comes next in the outbox brings a timeline to this place.
    pub(super) fn moved(
        &mut self,
        timeline: &str,
        (epoch, sequence, change): (&str, u64, u64),
        outbox: &mut Outbox,
    ) {
        self.begin(outbox);
        self.place(timeline, epoch, sequence, change);
        self.say_place(outbox);
    }

    /// What comes next in the outbox ends a timeline.
    pub(super) fn ended(&mut self, timeline: &str, why: Ended, outbox: &mut Outbox) {
        self.begin(outbox);
        if !why.resubscribe() {
            self.drop_place(timeline);
        }
        self.say_place(outbox);
    }

    fn place(&mut self, timeline: &str, epoch: &str, sequence: u64, change: u64) {
        let at = self.places.iter().position(|(name, _)| **name == *timeline);
        let at = at.unwrap_or_else(|| {
            self.places.push((timeline.into(), Start::default()));
            self.places.len() - 1
        });
        let start = &mut self.places[at].1;
        if start.epoch.as_deref() != Some(epoch) {
            start.epoch = Some(epoch.to_owned());
        }
        // Breaks the promise, so that tests can show that they notice.
        let ahead = u64::from(faults::is_named("event_id_ahead"));
        (start.after, start.rewind) = (Some(sequence + ahead), None);
        start.changes_after = Some(change);
    }

    fn drop_place(&mut self, timeline: &str) {
        self.places.retain(|(name, _)| **name != *timeline);
    }

    /// Of all conversations an ID grows; the client then brings it back, and the device has stored what it says.
    fn say_place(&mut self, outbox: &mut Outbox) {
        if self.is_of_all && self.places.is_empty() {
            return;
        }
        let id = id(self.places.iter().map(|(name, start)| (name, start)));
        if self.is_of_all && id.len() > ID_BYTES_MAX && !self.is_over {
            self.is_over = true;
            outbox.push(retry(AT_ONCE_MS));
        }
        outbox.push(Bytes::from(format!("id: {id}\n")));
    }
}

impl Session {
    /// Begins to follow what the request asked for.
    pub(super) fn stream(&mut self, streaming: Streaming) {
        let Session {
            shared,
            caller,
            reader,
            subscriptions,
            outbox,
            ..
        } = self;
        *outbox = Outbox::response();
        *reader = Reader::deaf(shared.inbound.share(None));
        if let Some(user) = &streaming.user {
            caller.asker = Asker::believed(user.as_str());
        }
        caller.integers = streaming.asked.integers;
        caller.device.clone_from(&streaming.asked.subscribe.device);
        if let Some(live) = &caller.live {
            live.name(caller.device.clone(), streaming.client.clone());
            live.believe(caller.user().ok());
        }
        subscriptions.name(caller.who());
        let subscribe = streaming.asked.subscribe.clone();
        let mut stream = EventStream::new(streaming);
        match subscribe.conversations {
            Some(_) => match conversations::begin(shared, caller, subscriptions, &subscribe) {
                Ok(_) => stream.begin(outbox),
                Err(failure) => stream.refuse(&failure, outbox),
            },
            None => opening::follow(shared, caller, subscriptions, subscribe),
        }
        subscriptions.events = Some(Box::new(stream));
    }

    /// Whether its client is one that only listens.
    pub(super) fn is_stream(&self) -> bool {
        self.subscriptions.events.is_some()
    }

    /// Says something that is not of a subscription.
    pub(super) fn tell(&mut self, push: Bytes) {
        if let Some(events) = &mut self.subscriptions.events {
            events.begin(&mut self.outbox);
        }
        self.outbox.push(push);
    }

    /// A sign of life. It keeps the ways of proxies open, and finds out whether the client is still there.
    pub(super) fn comment(&mut self) {
        let is_begun = |events: &EventStream| events.headers.is_none();
        if self.subscriptions.events.as_deref().is_some_and(is_begun) {
            self.outbox.push(Bytes::from_static(COMMENT));
        }
    }

    /// Reads and forgets what the client still sends, until it is gone.
    pub(super) fn poll_listen(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut waste = [0; WASTE_BYTES];
        for _ in 0..READS_MAX {
            let mut buffer = ReadBuf::new(&mut waste);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Err(End::Gone),
            }
        }
        Ok(true)
    }

    /// Whether nothing follows what was written.
    pub(super) fn has_streamed(&self) -> bool {
        let Some(events) = &self.subscriptions.events else {
            return false;
        };
        let waits = self.subscriptions.len() > 0
            || !self.subscriptions.rests.is_empty()
            || self.jobs.fetches > 0;
        events.is_over || !waits
    }
}

impl super::subscriptions::Subscriptions {
    /// Whether nothing more goes out.
    pub(super) fn is_over(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.is_over)
    }
}

/// Read at a time of what nobody wants.
const WASTE_BYTES: usize = 512;
/// Of those in one turn.
const READS_MAX: usize = 8;
