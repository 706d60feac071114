//! The response of a session whose pushes go out as server-sent events.
//!
//! Owns: its head, the IDs of events, and when it is over. Promises: the head says whether any of what was asked for is
//! followed; the ID in an event is of the place behind it, so that a client that comes back with it misses nothing and
//! gets nothing twice; what can't be followed again is not in an ID; what is to be subscribed again ends the stream.
//! Must not: decide what is pushed.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};

use super::Subscriptions;
use super::parts::Part;
use crate::Shared;
use crate::dispatch::audit::Noted;
use crate::entrance::door;
use crate::http::respond::head;
use crate::outbox::Outbox;
use tideline_base::faults;
use tideline_base::metrics::Held;
use tideline_wire::events::{Asked, ID_BYTES_MAX, id, retry};
use tideline_wire::jsonrpc::JSON;
use tideline_wire::timelines::sync::{Start, SubscribedOne};
use tideline_wire::{Dialect, Ended, Failure, Id, Method, Reason};

/// What the request of a stream leaves to the session.
pub(crate) struct Streaming {
    pub(crate) asked: Asked,
    /// The user that is believed, where nobody is asked for a credential.
    pub(crate) user: Option<String>,
    /// How the client calls itself.
    pub(crate) client: Option<String>,
    /// Headers of the answer that say nothing of its body.
    pub(crate) headers: HeaderMap,
    /// Counts it among the streams.
    pub(crate) counted: Held,
}

/// The response of a session.
pub(in super::super) struct EventStream {
    shared: Arc<Shared>,
    /// Until the head is in the outbox.
    headers: Option<Box<HeaderMap>>,
    /// Where a client that comes back goes on. Of all conversations only those of which something came, or
    /// that began on this stream.
    places: Vec<(Arc<str>, Start)>,
    /// It follows all conversations of its user.
    is_of_all: bool,
    /// Nothing more is said.
    pub(in super::super) is_over: bool,
    /// Bytes that the client has sent behind its request.
    pub(in super::super) wasted: usize,
    /// The line of its request in the audit log, until that is answered.
    noted: Option<Noted>,
    _counted: Held,
}

/// A client whose stream ends, but that can go on with its ID, comes back at once.
const AT_ONCE_MS: u64 = 10;
/// A client whose stream broke comes back after this at least ...
const RETRY_MIN_MS: u64 = 500;
/// ... and a random time up to so much more.
const RETRY_SPREAD_MS: u64 = 3_000;

impl EventStream {
    pub(in super::super) fn new(
        streaming: Streaming,
        shared: Arc<Shared>,
        noted: Option<Noted>,
    ) -> EventStream {
        let starts = streaming.asked.subscribe.timelines.into_iter().flatten();
        let starts = starts.chain(streaming.asked.places);
        EventStream {
            shared,
            headers: Some(Box::new(streaming.headers)),
            places: starts.map(|(name, start)| (name.into(), start)).collect(),
            is_of_all: streaming.asked.subscribe.conversations.is_some(),
            is_over: false,
            wasted: 0,
            noted,
            _counted: streaming.counted,
        }
    }

    /// The stream has begun: what can't be refused any more follows.
    pub(in super::super) fn begin(&mut self, outbox: &mut Outbox) {
        let Some(mut headers) = self.take_headers() else {
            return;
        };
        self.count(Ok(()));
        let set = [
            (CONTENT_TYPE, "text/event-stream"),
            (CACHE_CONTROL, "no-cache, no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Proxies pass on each event as it comes.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        for (name, value) in set {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let wait_ms = RETRY_MIN_MS + super::super::random() % RETRY_SPREAD_MS;
        // Together, as the outbox keeps room for as many frames as it ever had.
        let begin = [head(StatusCode::OK, &headers), retry(wait_ms)];
        outbox.push(begin.concat().into());
    }

    /// The answer to a request of which nothing is followed.
    pub(in super::super) fn refuse(&mut self, failure: &Failure, outbox: &mut Outbox) {
        self.is_over = true;
        let Some(mut headers) = self.take_headers() else {
            return;
        };
        self.count(Err(failure));
        let answer = door::refusal(failure);
        let body = (&JSON as &dyn Dialect).encode(&Id::Null, Err(failure));
        let own = answer.headers().iter();
        headers.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        outbox.push(head(answer.status(), &headers));
        outbox.push(body);
    }

    /// The headers of every answer, once.
    fn take_headers(&mut self) -> Option<Box<HeaderMap>> {
        let mut headers = self.headers.take()?;
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let now = UNIX_EPOCH + Duration::from_millis(self.shared.clock.now_ms());
        if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(now)) {
            headers.insert(DATE, date);
        }
        Some(headers)
    }

    fn count(&mut self, result: Result<(), &Failure>) {
        let counters = &self.shared.counters;
        counters.count(Some(Method::Subscribe), result, Duration::ZERO);
        if let Some(noted) = self.noted.take() {
            noted.said(result.err(), result.is_ok());
        }
    }

    /// Whether the head is in the outbox.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.headers.is_none()
    }

    /// Timelines were read: `false` = all are refused, and so is the request.
    pub(in super::super) fn began(
        &mut self,
        parts: &[Part],
        is_all: bool,
        outbox: &mut Outbox,
    ) -> bool {
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
            match (&part.shown, &part.subscription) {
                (Some(SubscribedOne::Refused { reason }), _) => match reason {
                    Reason::TimelineNotFound | Reason::Forbidden | Reason::NotAMember => {
                        self.drop_place(&part.timeline);
                    }
                    reason if reason.retry() => self.finish(None, outbox),
                    // A limit, mostly: it may be another one when the client comes back.
                    _ => {}
                },
                (Some(SubscribedOne::Subscribed(shown)), None) => match &*shown.epoch {
                    // There is nothing now, and coming back must not make it.
                    "" => self.drop_place(&part.timeline),
                    // It starts over with the history that there is now.
                    epoch => {
                        self.place(&part.timeline, epoch, 0, 0);
                        self.finish(Some(AT_ONCE_MS), outbox);
                    }
                },
                (_, Some(subscription)) if part.says_place() => {
                    let at = subscription.cursor();
                    self.place(&part.timeline, &at.epoch, at.sequence, at.change);
                }
                _ => {}
            }
        }
        self.say_place(outbox);
        true
    }

    /// Where the client said that it is in one of its conversations.
    pub(super) fn start(&self, timeline: &str) -> Option<Start> {
        let mut places = self.places.iter();
        let found = places.find(|(name, _)| **name == *timeline);
        found.map(|(_, start)| start.clone())
    }

    /// What comes next in the outbox brings a timeline to this place.
    pub(in super::super) fn moved(
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
    pub(in super::super) fn ended(&mut self, timeline: &str, why: Ended, outbox: &mut Outbox) {
        self.begin(outbox);
        match why {
            Ended::Unavailable => self.finish(None, outbox),
            why if why.resubscribe() => self.finish(Some(AT_ONCE_MS), outbox),
            _ => self.drop_place(timeline),
        }
        self.say_place(outbox);
    }

    /// The stream ends behind the next event: only a client that comes back gets all that it follows. Without a time
    /// the client waits as long as the head said.
    fn finish(&mut self, retry_ms: Option<u64>, outbox: &mut Outbox) {
        let is_first = !std::mem::replace(&mut self.is_over, true);
        if let Some(wait_ms) = retry_ms.filter(|_| is_first) {
            outbox.push(retry(wait_ms));
        }
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

    /// Of all conversations an ID grows. The client brings back one that is full, and the device has it stored.
    fn say_place(&mut self, outbox: &mut Outbox) {
        if self.is_of_all && self.places.is_empty() {
            return;
        }
        let id = id(self.places.iter().map(|(name, start)| (name, start)));
        if self.is_of_all && id.len() > ID_BYTES_MAX {
            self.finish(Some(AT_ONCE_MS), outbox);
        }
        outbox.push(Bytes::from(format!("id: {id}\n")));
    }
}

impl Subscriptions {
    /// Whether nothing more goes out.
    pub(in super::super) fn is_over(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.is_over)
    }
}
