//! The answers of plain HTTP.
//!
//! Owns: their headers. Promises: every body says what it is and is not to be guessed at; a refusal is one line that
//! says why. Must not: decide which request gets which answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use super::super::limits::Reached;
use super::body::Unread;
use tideline_base::bounds::Share;
use tideline_wire::{Failure, Reason};

/// An answer.
pub(in super::super) type Answer = Response<Content>;

/// With an answer: nothing of what was asked was done, or will be.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct NotBegun;

impl NotBegun {
    /// Whether a refusal says so of something that another server could do.
    pub(in super::super) fn is(failure: &Failure) -> bool {
        matches!(failure.reason, Reason::Unavailable | Reason::ShuttingDown)
    }
}

/// What an answer holds.
pub(in super::super) enum Content {
    /// The whole.
    Whole(Full<Bytes>),
    /// What comes as time goes by.
    Stream(UnsyncBoxBody<Bytes, Infallible>),
}

impl Default for Content {
    fn default() -> Content {
        Content::Whole(Full::default())
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Stream(stream) => Pin::new(stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(whole) => whole.size_hint(),
            Content::Stream(stream) => stream.size_hint(),
        }
    }
}

/// Names the methods that the page has.
pub(in super::super) fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = say(StatusCode::METHOD_NOT_ALLOWED, "not with this method");
    set(&mut answer, ALLOW, allowed);
    answer
}

/// Nothing is served at that path.
pub(in super::super) fn no_page() -> Answer {
    say(StatusCode::NOT_FOUND, "no such page; see /")
}

/// A line of text.
pub(in super::super) fn say(status: StatusCode, text: &str) -> Answer {
    full(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// Everything is in use for now.
pub(in super::super) fn busy() -> Answer {
    let mut answer = say(StatusCode::SERVICE_UNAVAILABLE, "busy; try again");
    set(&mut answer, RETRY_AFTER, "1");
    answer
}

/// A body could not be read.
pub(in super::super) fn not_read(why: &Unread) -> Answer {
    match why {
        Unread::TooLarge => say(
            StatusCode::PAYLOAD_TOO_LARGE,
            "larger than inbound_frame_bytes_max",
        ),
        Unread::Encoded => {
            let why = "send the body as it is, without a content-encoding";
            let mut answer = say(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
            set(&mut answer, ACCEPT_ENCODING, "identity");
            answer
        }
        Unread::Broken => say(StatusCode::BAD_REQUEST, "the body ended early"),
        Unread::TooSlow => say(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        Unread::Busy => busy(),
    }
}

/// A limit was reached.
pub(in super::super) fn limited(reached: &Reached) -> Answer {
    let mut answer = say(StatusCode::TOO_MANY_REQUESTS, "too many connections");
    let seconds = HeaderValue::from(reached.retry_after_s());
    answer.headers_mut().insert(RETRY_AFTER, seconds);
    answer
}

/// Adds a page's headers for browsers: it loads nothing from elsewhere, runs no text as a script, is shown in no frame,
/// shares nothing with pages of others, and sends no referrer.
pub(in super::super) fn as_page(mut answer: Answer) -> Answer {
    let mut set = |name, value| set(&mut answer, name, value);
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(REFERRER_POLICY, "no-referrer");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    answer
}

/// What a page may load and do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// A body that counts in a bound until the client has taken it.
pub(in super::super) fn counted(body: Bytes, share: Share) -> Bytes {
    struct Counted(Bytes, #[allow(dead_code)] Share); // held, not read
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    if share.is_small() {
        return body;
    }
    Bytes::from_owner(Counted(body, share))
}

/// A body of any kind.
pub(in super::super) fn full(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    let mut answer = Response::new(Content::Whole(Full::new(body.into())));
    *answer.status_mut() = status;
    set(&mut answer, CONTENT_TYPE, kind);
    set(&mut answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

/// The head of a response whose body another one writes.
pub(in super::super) fn head(status: StatusCode, headers: &HeaderMap) -> Bytes {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    Bytes::from(head)
}

/// No body.
pub(in super::super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = status;
    answer
}

/// Sets a header of an answer.
pub(in super::super) fn set<B>(answer: &mut Response<B>, name: HeaderName, value: &'static str) {
    answer
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}

/// Each item of a header that is a list.
pub(in super::super) fn items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    let items = texts.flat_map(|text| text.split(',')).map(str::trim);
    items.filter(|item| !item.is_empty())
}
