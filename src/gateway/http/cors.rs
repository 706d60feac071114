//! What browsers ask before a page's script may call another origin's server, and read what it answers.
//!
//! Owns: the `Access-Control-` headers. Promises: only a page that may call at all (see `origin.rs`) gets them, with
//! its exact origin; a refusal can be read by the script as any other answer. Must not: decide which pages may call, or
//! let credentials of the browser in: there are no cookies here.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Response, StatusCode};

use super::respond::{Answer, empty, set};

/// The answer to a browser that asks what it may send; `None` if this is none.
pub(in super::super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Answer> {
    let asks = headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if *method != Method::OPTIONS || !asks {
        return None;
    }
    let mut answer = empty(StatusCode::NO_CONTENT);
    let mut tell = |name, value| set(&mut answer, name, value);
    tell(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, DELETE");
    // Tablestore's are not among them: its secrets do not belong into a page.
    tell(
        ACCESS_CONTROL_ALLOW_HEADERS,
        "content-type, tideline-user, authorization, last-event-id, if-none-match, x-request-id, traceparent, stream-seq, \
         stream-ttl, stream-expires-at, stream-closed, producer-id, producer-epoch, producer-seq, stream-forked-from, \
         stream-fork-offset, stream-fork-sub-offset",
    );
    tell(ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
    if headers.contains_key(REQUEST_PRIVATE_NETWORK) {
        let allow = HeaderName::from_static("access-control-allow-private-network");
        tell(allow, "true");
    }
    Some(answer)
}

/// Lets a page read an answer.
pub(in super::super) fn open<B>(answer: &mut Response<B>, origin: HeaderValue) {
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    set(
        answer,
        ACCESS_CONTROL_EXPOSE_HEADERS,
        "retry-after, allow, x-request-id, location, etag, stream-next-offset, stream-up-to-date, stream-cursor, \
         stream-closed, stream-sse-data-encoding, stream-ttl, stream-expires-at, producer-epoch, producer-seq, \
         producer-expected-seq, producer-received-seq",
    );
    vary(answer);
}

/// The answer is another one for another page.
pub(in super::super) fn vary<B>(answer: &mut Response<B>) {
    set(answer, VARY, "origin");
}

/// As long as browsers remember at most, about.
const MAX_AGE_S: &str = "7200";
/// Asked when a page of the internet calls a server on this machine or network.
const REQUEST_PRIVATE_NETWORK: &str = "access-control-request-private-network";
