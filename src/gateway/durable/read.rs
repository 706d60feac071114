//! Reading a stream: a page behind an offset, and waiting for the next one.
//!
//! Owns: GET without events. Promises: a page is of one moment; a wait watches first and reads then, so nothing slips
//! between; a wait ends in time. Must not: know how long a reader has been there.

use std::sync::{Arc, OnceLock};

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderMap, IF_NONE_MATCH};
use hyper::{Request as HttpRequest, StatusCode};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::super::dispatch::refusal;
use super::super::dispatch::shape::page_bytes;
use super::super::dispatch::wait::Wait;
use super::super::entrance::admitted::Does;
use super::super::entrance::door::other_rules;
use super::super::http::respond::{Answer, empty, full, items, set};
use super::{Asked, Known, Refused, bad, live, say_closed, say_header, say_next, say_type};
use bytes::Bytes;
use tideline_base::decode::query;
use tideline_timelines::feed::Mailbox;
use tideline_timelines::timeline::{self, Error, Range};
use tideline_wire::durable::{OCTETS, Offset, body, cursor};
use tideline_wire::{Failure, Method, Reason};

/// How a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// What there is.
    Once,
    /// If there is nothing, it waits.
    Waits,
    /// Everything that comes, as events.
    Events,
}

/// Messages behind an offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) body: Bytes,
    /// How many they are.
    pub(super) messages: usize,
    /// There is none in it.
    pub(super) is_empty: bool,
    /// The sequence before the first.
    pub(super) after: u64,
    /// The sequence of the last one.
    pub(super) next: u64,
    /// Of a text: the last end of a message that cuts no character, as bytes of the body and as a sequence.
    pub(super) whole: (usize, u64),
    /// What was changed before, and what was trimmed.
    pub(super) change_head: u64,
    pub(super) floor: u64,
    /// There is no more now.
    pub(super) is_up_to_date: bool,
    /// There is no more, and will be none.
    pub(super) is_closed: bool,
    /// The events that say so, made by the first reader that shares it, with the cursor that is in them.
    pub(super) events: Arc<OnceLock<(Option<String>, Bytes)>>,
}

/// What a query says.
struct Query {
    from: Option<Offset>,
    way: Way,
    cursor: Option<String>,
}

impl Query {
    fn read(text: &str) -> Result<Query, Refused> {
        let mut read = Query {
            from: None,
            way: Way::Once,
            cursor: None,
        };
        for (name, value) in query::pairs(text) {
            match (name, value.as_deref()) {
                ("offset", _) if read.from.is_some() => return bad("the offset is there twice"),
                ("offset", value) => match value.and_then(Offset::read) {
                    None => return bad("no stream has given this offset"),
                    from => read.from = from,
                },
                ("live", Some("long-poll")) => read.way = Way::Waits,
                ("live", Some("sse")) => read.way = Way::Events,
                ("live", _) => return bad("live is long-poll or sse"),
                ("cursor", _) => read.cursor = value,
                _ => {}
            }
        }
        match (read.from, read.way) {
            (None, Way::Waits | Way::Events) => bad("say the offset to go on from"),
            _ => Ok(read),
        }
    }
}

impl Asked {
    pub(super) async fn read(self, request: &HttpRequest<Incoming>) -> Result<Answer, Refused> {
        let asked = Query::read(request.uri().query().unwrap_or_default())?;
        let known = Arc::new(self.known(Method::MessageRange).await?);
        if known.renew {
            let target = self.target(Method::MessageRange);
            let using = self.shared.timelines.use_stream(target);
            let used = self.admitted.perform(Does::Changes, using).await?;
            used.map_err(refusal)?;
        }
        let after = match asked.from {
            None => 0,
            Some(Offset::After(sequence, tag)) => {
                known.check_of(sequence, tag)?;
                sequence
            }
            Some(Offset::Now) => known.end,
        };
        check_kept(after, known.floor)?;
        let is_now = asked.from == Some(Offset::Now);
        match asked.way {
            Way::Events => Ok(live::events(self, known, after, asked.cursor)),
            Way::Once => self.once(&known, after, is_now, request.headers()).await,
            Way::Waits => self.wait(&known, after, asked.cursor.as_deref()).await,
        }
    }

    async fn once(
        &self,
        known: &Arc<Known>,
        after: u64,
        is_now: bool,
        headers: &HeaderMap,
    ) -> Result<Answer, Refused> {
        let page = self.page(known, after).await?;
        let mut answer = self.shown(known, &page);
        if is_now {
            return Ok(answer);
        }
        let end = match (page.is_closed, page.is_up_to_date) {
            (true, _) => "-closed",
            (false, true) => "",
            (false, false) => "-more",
        };
        let (epoch, version) = (&known.epoch, known.version);
        let Page { after, next, .. } = page;
        let (changes, floor) = (page.change_head, page.floor);
        // What a reader hides from itself changes none of the numbers.
        let hash = xxh3_64(&page.body);
        let tag = format!("\"{epoch}-{after}-{next}-{changes}-{floor}-{version}-{hash:x}{end}\"");
        let is_same = |one: &str| one.trim_start_matches("W/") == tag || one == "*";
        let knows = items(headers, IF_NONE_MATCH).any(is_same);
        if knows {
            answer = empty(StatusCode::NOT_MODIFIED);
        }
        set(&mut answer, CACHE_CONTROL, "private, no-cache");
        say_header(&mut answer, "etag", &tag);
        Ok(answer)
    }

    fn shown(&self, known: &Known, page: &Page) -> Answer {
        let mut answer = full(StatusCode::OK, OCTETS, page.body.clone());
        say_type(&mut answer, &known.content_type);
        say_next(&mut answer, known.tag, page.next);
        if page.is_up_to_date {
            say_header(&mut answer, "stream-up-to-date", "true");
        }
        say_closed(&mut answer, page.is_closed);
        answer
    }

    async fn wait(
        &self,
        known: &Arc<Known>,
        after: u64,
        clients: Option<&str>,
    ) -> Result<Answer, Refused> {
        let until = Instant::now() + self.shared.options.stream_wait;
        let page = self.news(known, after, until).await?;
        let mut answer = match page.is_empty {
            true => {
                let mut answer = empty(StatusCode::NO_CONTENT);
                say_next(&mut answer, known.tag, page.next);
                say_header(&mut answer, "stream-up-to-date", "true");
                say_closed(&mut answer, page.is_closed);
                answer
            }
            false => self.shown(known, &page),
        };
        say_header(&mut answer, "stream-cursor", &self.cursor(clients));
        Ok(answer)
    }

    /// The cursor of a live answer.
    pub(super) fn cursor(&self, clients: Option<&str>) -> String {
        let random = clients.map_or(0, |_| uuid::Uuid::new_v4().as_u128() as u32);
        let jitter = u64::from(random) % JITTER_S_MAX;
        cursor(self.shared.clock.now_ms(), clients, 1 + jitter)
    }

    /// The next page behind a sequence, as soon as there is one; an empty one when the time is over.
    pub(super) async fn news(
        &self,
        known: &Arc<Known>,
        after: u64,
        until: Instant,
    ) -> Result<Page, Refused> {
        let mut wait = Wait::begin(&self.shared, &self.caller.asker, 1)?;
        let mailbox = Arc::new(Mailbox::default());
        let watch = self.shared.feed.watch(&self.name, &mailbox, 0);
        loop {
            let page = self.page(known, after).await?;
            if !page.is_empty || page.is_closed || Instant::now() >= until {
                drop(watch);
                return Ok(page);
            }
            tokio::select! {
                _ = mailbox.take() => {}
                () = tokio::time::sleep_until(until) => return Ok(wait.ends(&self.shared, page).await?),
                () = self.shared.waits_over.cancelled() => return Ok(wait.ends(&self.shared, page).await?),
                () = other_rules(&mut wait.turns) => {}
            }
        }
    }

    /// What there is behind a sequence, up to a page. The limits count a live read once, when it begins. Readers that
    /// come together share one read.
    pub(super) async fn page(&self, known: &Arc<Known>, after: u64) -> Result<Page, Refused> {
        let place = (self.name.clone(), known.epoch.clone(), after);
        let (asked, known_there) = (self.clone(), Arc::clone(known));
        let read = async move { asked.page_alone(&known_there, after).await.ok() };
        let read = self.shared.joined.read(place, &self.caller.asker, read);
        let page = match read.await {
            Some(page) => page,
            None => self.page_alone(known, after).await?,
        };
        self.shared.metrics.pages.range.count(page.messages);
        Ok(page)
    }

    async fn page_alone(&self, known: &Known, after: u64) -> Result<Page, Refused> {
        let read = self.range(known, after + 1, None).await?;
        let mut page = read.map_err(|error| match error {
            // The stream was made anew.
            Error::EpochChanged { .. } => Reason::TimelineNotFound.into(),
            error => refusal(error),
        })?;
        check_kept(after, page.head.floor)?;
        // What is at an offset never changes: a message that still grows is the end, until it is whole.
        let whole = page.messages.iter().take_while(|one| one.open.is_none());
        let whole = whole.count();
        let grows = whole < page.messages.len();
        page.messages.truncate(whole);
        let next = page.messages.last().map_or(after, |last| last.sequence);
        let body = body(&page.messages, known.is_json());
        Ok(Page {
            whole: live::whole_end(&body, &page.messages, next),
            body,
            messages: page.messages.len(),
            events: Arc::default(),
            is_empty: next == after,
            after,
            next,
            change_head: page.head.change_head,
            floor: page.head.floor,
            is_up_to_date: page.next.is_none() || grows,
            is_closed: page.closed && page.next.is_none() && !grows,
        })
    }

    /// Messages from a sequence on, up to a page or to before `to`.
    pub(super) async fn range(
        &self,
        known: &Known,
        from: u64,
        to: Option<u64>,
    ) -> Result<Result<timeline::Page, Error>, Failure> {
        let range = Range {
            asker: self.caller.asking(Method::MessageRange),
            timeline: self.name.clone(),
            from: Some(from),
            to,
            limit: PAGE_MESSAGES,
            bytes_max: page_bytes(&self.shared.options.limits),
            backward: false,
            columns: None,
            epoch: Some(known.epoch.clone()),
        };
        let reading = self.shared.timelines.range(range);
        self.admitted.perform(Does::Reads, reading).await
    }
}

/// What was trimmed is gone, but for a reader that begins and so has missed nothing.
fn check_kept(after: u64, floor: u64) -> Result<(), Refused> {
    if after > 0 && floor > after + 1 {
        let why = "what follows this offset is not kept any more";
        return Err(Refused::Says(StatusCode::GONE, why));
    }
    Ok(())
}

/// Messages of a page at most.
const PAGE_MESSAGES: usize = 1_000;
/// A cursor goes so far ahead of a client's own, at most.
const JITTER_S_MAX: u64 = 3_600;
