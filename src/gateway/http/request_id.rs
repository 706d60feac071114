//! The ID of a request, by which its lines are found in the log.
//!
//! Owns: a request's ID and its trace: from the headers, into the log and the answer. Promises: every answer to a
//! request whose head could be read has an ID, and every line of the log that is written while it is made has the same
//! one; a caller's is taken if it is well formed, and is no longer than [`BYTES_MAX`]. Must not: decide anything by
//! them: callers choose them.

use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderValue};

use tideline_base::request::Request;
use tideline_base::trace::TraceParent;

/// What its headers say of a request: the caller's ID or a new one, and its trace.
pub(crate) fn request_of(headers: &HeaderMap) -> Request {
    let given = only(headers, X_REQUEST_ID).filter(|text| is_id(text));
    let made = || uuid::Uuid::new_v4().hyphenated().to_string().into();
    let trace = only(headers, TRACEPARENT).and_then(|text| text.parse().ok());
    Request {
        id: given.map_or_else(made, Arc::from),
        trace,
    }
}

/// The place in a trace that the head of a request says.
pub(crate) fn trace_of<B>(request: &hyper::Request<B>) -> Option<TraceParent> {
    request.extensions().get::<Request>()?.trace
}

/// Puts a request's ID into its answer, unless another node has.
pub(crate) fn mark<B>(id: &str, answer: &mut hyper::Response<B>) {
    if let Ok(id) = HeaderValue::from_str(id) {
        answer.headers_mut().entry(X_REQUEST_ID).or_insert(id);
    }
}

/// The text of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    all.next().is_none().then(|| first.to_str().ok()).flatten()
}

/// Nothing in it ends a line or a text of a log, whichever way that is written.
fn is_id(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/+=@".contains(&byte);
    (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(is_fit)
}

/// Of a caller's ID: two UUIDs with a word between them fit.
const BYTES_MAX: usize = 128;
const X_REQUEST_ID: &str = "x-request-id";
const TRACEPARENT: &str = "traceparent";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&'static str]) -> Arc<str> {
        let mut headers = HeaderMap::new();
        for id in given {
            headers.append(X_REQUEST_ID, HeaderValue::from_static(id));
        }
        request_of(&headers).id
    }

    #[test]
    fn a_well_formed_id_is_taken_and_any_other_is_made() {
        let long: &'static str = "x".repeat(BYTES_MAX).leak();
        let longer: &'static str = "x".repeat(BYTES_MAX + 1).leak();
        for id in ["7", "a/b:c_d.e~f+g=h@i-J", long] {
            assert_eq!(&*of(&[id]), id);
        }
        for id in ["", longer, "a b", "a\"b", "a{b}", "a\tb"] {
            assert_eq!(of(&[id]).len(), 36, "{id:?}");
        }
        assert_eq!(of(&["one", "two"]).len(), 36);
        assert_ne!(of(&[]), of(&[]));
    }
}
