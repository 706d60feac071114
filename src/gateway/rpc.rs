//! `POST /v1/rpc`: the same requests over HTTP, for back ends, curl and polling.
//!
//! Owns: bodies in and out, the user of a request. Promises: a body above the limit is refused before it is read whole;
//! what needs a connection (`subscribe`) is refused as an unknown method. Must not: keep anything between two requests.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};

use super::Shared;
use super::body::{self, Body, Unread};
use super::dispatch::Caller;
use super::respond::{Answer, busy, counted, full, say};
use super::session::batch;
use crate::wire::jsonrpc::JSON;
use crate::wire::{Dialect, Id, check_user};

/// Answers one request.
pub(super) async fn serve(request: &mut Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    if !is_json(request.headers()) {
        return say(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let mut caller = Caller::default();
    if let Some(user) = request.headers().get(USER) {
        let Some(user) = user.to_str().ok().filter(|user| check_user(user).is_ok()) else {
            return say(
                StatusCode::BAD_REQUEST,
                "Tideline-User must be 1 to 128 bytes of text",
            );
        };
        caller.user = user.to_owned();
    }
    let limits = &shared.options.limits;
    let bytes_max = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
    let Body { bytes, share } = match body::read(request.body_mut(), bytes_max, shared).await {
        Ok(body) => body,
        Err(why) => return refuse(&why),
    };
    let dialect: &'static dyn Dialect = &JSON;
    let decoded = dialect.decode(&bytes, limits);
    let length = bytes.len();
    drop(bytes);
    let mut writes = false;
    let reply = match decoded {
        Ok(mut incoming) => {
            shared.per_client.bound(&caller.user, &mut incoming, length);
            let mut requests = incoming.calls().iter().flat_map(|call| &call.request);
            writes = requests.any(|request| request.method().has_effect());
            let inside = shared.gate.clone().pass().await;
            // What may write is waited for before partitions become others; who only waits for news is not.
            let _inside = writes.then_some(inside);
            batch::run(shared, &mut caller, incoming, dialect).await
        }
        Err(failure) => {
            shared.counters.count(None, Err(&failure), Duration::ZERO);
            Some(dialect.encode(&Id::Null, Err(&failure)))
        }
    };
    drop(share);
    let Some(reply) = reply else {
        let mut answer = Answer::default();
        *answer.status_mut() = StatusCode::NO_CONTENT;
        return answer;
    };
    let mut unread = shared.answers.share();
    if !unread.resize(reply.len()) {
        shared.answers.refuse();
        // The client must learn what a write has done.
        if !writes {
            return busy();
        }
        unread.force(reply.len());
    }
    shared
        .metrics
        .gateway
        .sent_bytes
        .increment(reply.len() as u64);
    full(StatusCode::OK, "application/json", counted(reply, unread))
}

fn refuse(why: &Unread) -> Answer {
    match why {
        Unread::TooLarge => say(
            StatusCode::PAYLOAD_TOO_LARGE,
            "larger than inbound_frame_bytes_max",
        ),
        Unread::Broken => say(StatusCode::BAD_REQUEST, "the body ended early"),
        Unread::TooSlow => say(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        Unread::Busy => busy(),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        })
}

/// Names the sender while no authentication is configured.
const USER: &str = "tideline-user";
