//! A stream as server-sent events: one response that goes on for a while.
//!
//! Owns: which events follow one another. Promises: behind each event of data there is one that says where the reader
//! is, and what was sent reaches exactly to there; nothing is read while the reader takes nothing; rights are looked at
//! with each page; it ends with a closed stream, and when the server drains. Must not: know how a page is read.
//!
//! Events of a text hold whole characters. So a message that ends within one is sent with the next message: an offset
//! is behind whole messages, and a reader that comes back at it must get each byte once.

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

use super::super::dispatch::shape::page_bytes;
use super::super::http::respond::{Answer, Content, set};
use super::{Asked, Known, say_header, say_type};
use tideline_timelines::timeline::Message;
use tideline_wire::durable::{Control, bytes_of, events as encoded, is_text, kind, whole_text};

/// A response that is under way.
struct Live {
    asked: Asked,
    known: Arc<Known>,
    /// Up to here it was read.
    after: u64,
    /// Up to here it was sent.
    sent: u64,
    /// What is between the two: of a text, messages up to one that ends within a character.
    rest: Bytes,
    cursor: Option<String>,
    until: Instant,
    is_first: bool,
    is_text: bool,
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
        sent: after,
        rest: Bytes::new(),
        cursor,
        until: Instant::now() + EVENTS_TIME,
        is_first: true,
        is_text,
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
        // Readers that have sent the same share the events of a page, too.
        let is_shared = self.rest.is_empty();
        let body = match page.is_empty {
            true => Bytes::new(),
            false => page.body.clone(),
        };
        let data = self.take(body, page.whole, (page.next, page.is_closed));
        let cursor = || self.asked.cursor(self.cursor.as_deref());
        let control = Control {
            next: self.sent,
            tag: self.known.tag,
            cursor: (!page.is_closed).then(cursor),
            is_up_to_date: page.is_up_to_date && self.sent == page.next,
            is_closed: page.is_closed,
        };
        let is_text = self.is_text;
        let made = || (control.cursor.clone(), encoded(&data, is_text, &control));
        let bytes = match is_shared {
            true => {
                let (cursor, bytes) = page.events.get_or_init(made);
                (*cursor == control.cursor).then(|| bytes.clone())
            }
            false => None,
        };
        let bytes = bytes.unwrap_or_else(|| encoded(&data, is_text, &control));
        Some((bytes, (!is_over).then_some(self)))
    }

    /// Takes a page that was read, with its last end that cuts no character and its own, and gives what is to be sent
    /// now. At the end of a stream that is all.
    fn take(&mut self, body: Bytes, whole: (usize, u64), (next, is_closed): (u64, bool)) -> Bytes {
        let mut data = match self.rest.is_empty() {
            true => body,
            false => Bytes::from([&self.rest[..], &body[..]].concat()),
        };
        let (end, sequence) = whole;
        let end = data.len().min(self.rest.len() + end);
        let held_max = page_bytes(&self.asked.shared.options.limits);
        self.after = next;
        let is_sent_whole = !self.is_text || is_closed;
        let (end, sent) = match is_cut(&data[..end]) {
            _ if is_sent_whole => (data.len(), next),
            false => (end, sequence),
            // Each message since then ends within a character.
            true => (0, self.sent),
        };
        // So much that is cut at each end is no text. It is sent as it is.
        let (end, sent) = match data.len() - end > held_max {
            true => (data.len(), next),
            false => (end, sent),
        };
        self.sent = sent;
        self.rest = data.split_off(end);
        data
    }
}

/// Whether a text ends within a character.
fn is_cut(text: &[u8]) -> bool {
    let last = &text[text.len().saturating_sub(CUT_BYTES_MAX)..];
    whole_text(last) < last.len()
}

/// Bytes of a character that is cut, at most.
const CUT_BYTES_MAX: usize = 3;

/// The last end of a message of a page that cuts no character, as bytes of its body and as a sequence. `next`: that of
/// the page's end.
pub(super) fn whole_end(body: &[u8], messages: &[Message], next: u64) -> (usize, u64) {
    let mut end = (body.len(), next);
    for message in messages.iter().rev() {
        if !is_cut(&body[..end.0]) {
            break;
        }
        let bytes = bytes_of(message).map_or(0, |data| data.len());
        end = (end.0.saturating_sub(bytes), message.sequence - 1);
    }
    end
}
