//! A stream as server-sent events: one response that goes on for a while.
//!
//! Owns: which events follow one another. Promises: behind each event of data there is one that says where the reader
//! is; nothing is read while the reader takes nothing; rights are looked at with each page; it ends with a
//! closed stream, and when the server drains. Must not: know how a page is read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::CACHE_CONTROL;
use tokio::time::Instant;

use super::super::http::respond::{Answer, Content, set};
use super::{Asked, Known, say_header, say_type};
use tideline_wire::durable::{Control, events as encoded, is_text, kind, whole_text};

/// A response that is under way.
struct Live {
    asked: Asked,
    known: Arc<Known>,
    after: u64,
    cursor: Option<String>,
    until: Instant,
    is_first: bool,
    is_text: bool,
    /// Of a text: the begin of a character whose end has not come.
    rest: Vec<u8>,
}

/// How long a response lives: a client comes back then.
const EVENTS_TIME: Duration = Duration::from_secs(60);

/// The events behind a sequence.
pub(super) fn events(
    asked: Asked,
    known: Arc<Known>,
    after: u64,
    cursor: Option<String>,
) -> Answer {
    let is_text = is_text(&kind(&known.content_type));
    let live = Live {
        asked,
        known,
        after,
        cursor,
        until: Instant::now() + EVENTS_TIME,
        is_first: true,
        is_text,
        rest: Vec::new(),
    };
    let frames = unfold(Some(live), |live| async move {
        let (bytes, live) = live?.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), live))
    });
    let mut answer = Response::new(Content::Stream(StreamBody::new(frames).boxed_unsync()));
    say_type(&mut answer, "text/event-stream");
    set(&mut answer, CACHE_CONTROL, "no-cache, no-store");
    say_header(&mut answer, "x-accel-buffering", "no");
    if !is_text {
        say_header(&mut answer, "stream-sse-data-encoding", "base64");
    }
    answer
}

impl Live {
    /// The next events, and whether more may follow.
    async fn next(mut self) -> Option<(Bytes, Option<Live>)> {
        let page = match std::mem::take(&mut self.is_first) {
            true => self.asked.page(&self.known, self.after).await,
            false => self.asked.news(&self.known, self.after, self.until).await,
        };
        let page = page.ok()?;
        let is_over = page.is_closed
            || Instant::now() >= self.until
            || self.asked.shared.waits_over.is_cancelled();
        let cursor = || self.asked.cursor(self.cursor.as_deref());
        let control = Control {
            next: page.next,
            tag: self.known.tag,
            cursor: (!page.is_closed).then(cursor),
            is_up_to_date: page.is_up_to_date,
            is_closed: page.is_closed,
        };
        self.after = page.next;
        let body = if page.is_empty { &[][..] } else { &page.body };
        let is_cut = self.is_text && whole_text(body) < body.len();
        if self.rest.is_empty() && !is_cut {
            let made = || {
                (
                    control.cursor.clone(),
                    encoded(body, self.is_text, &control),
                )
            };
            let (cursor, bytes) = page.events.get_or_init(made);
            if *cursor == control.cursor {
                return Some((bytes.clone(), (!is_over).then_some(self)));
            }
        }
        let mut data = std::mem::take(&mut self.rest);
        data.extend_from_slice(body);
        if self.is_text && !is_over {
            self.rest = data.split_off(whole_text(&data));
        }
        let bytes = encoded(&data, self.is_text, &control);
        Some((bytes, (!is_over).then_some(self)))
    }
}
