//! A snapshot on its way from one node to another.
//!
//! Owns: what a request for one shows, and the form of the answer. Promises: only a piece of it is in memory. Must not:
//! make a snapshot, or know what is in it.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::super::http::respond::{Answer, Content, set};

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotGiven {
    /// What the asker shows is not what a node shows.
    Stranger,
    /// Not now, or not here.
    Refused(String),
}

/// What a request shows.
pub(super) fn shown(headers: &HeaderMap) -> &str {
    let shown = headers.get(AUTHORIZATION);
    shown.and_then(|shown| shown.to_str().ok()).unwrap_or("")
}

/// The answer whose body comes piece by piece.
pub(super) fn answer(pieces: mpsc::Receiver<Bytes>) -> Answer {
    let frames = unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(piece)), pieces))
    });
    let mut answer = Response::new(Content::Stream(StreamBody::new(frames).boxed_unsync()));
    *answer.status_mut() = StatusCode::OK;
    let octets = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, octets);
    set(&mut answer, hyper::header::CACHE_CONTROL, "no-store");
    answer
}
