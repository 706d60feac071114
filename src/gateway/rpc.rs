//! `POST /v1/rpc`: the same requests over HTTP, for back ends, curl and polling.
//!
//! Owns: bodies in and out, the user of a request. Promises: a body above the limit is refused before it is read whole;
//! what needs a connection (`subscribe`) is refused as an unknown method. Must not: keep anything between two requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};

use super::Shared;
use super::dispatch::Caller;
use super::respond::{Answer, full, say};
use super::session::batch;
use crate::metrics;
use crate::wire::check_user;
use crate::wire::jsonrpc::{self, Dialect, Id};

/// Answers one request.
pub(super) async fn serve(request: Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    if !is_json(request.headers()) {
        return say(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let mut caller = Caller::default();
    if let Some(user) = request.headers().get(USER) {
        let Some(user) = user.to_str().ok().filter(|user| check_user(user).is_ok()) else {
            return say(
                StatusCode::BAD_REQUEST,
                "Tideline-User must be 1 to 255 bytes of text",
            );
        };
        caller.user = user.to_owned();
    }
    let body = match body(request, shared).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    metrics::gateway()
        .received_bytes
        .increment(body.len() as u64);
    let limits = &shared.options.limits;
    let reply = match jsonrpc::decode(Dialect::Json, &body, limits) {
        Ok(incoming) => {
            drop(body);
            batch::run(shared, &mut caller, incoming, Dialect::Json).await
        }
        Err(failure) => {
            shared.counters.count("?", Err(&failure), Duration::ZERO);
            Some(jsonrpc::failure(&Id::Null, &failure, Dialect::Json))
        }
    };
    match reply {
        Some(reply) => {
            metrics::gateway().sent_bytes.increment(reply.len() as u64);
            full(StatusCode::OK, "application/json", reply)
        }
        None => {
            let mut answer = Answer::default();
            *answer.status_mut() = StatusCode::NO_CONTENT;
            answer
        }
    }
}

async fn body(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Bytes, Answer> {
    let limit =
        usize::try_from(shared.options.limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
    let too_large = || {
        say(
            StatusCode::PAYLOAD_TOO_LARGE,
            "larger than inbound_frame_bytes_max",
        )
    };
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: u64| length > limit as u64)
    {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), limit).collect();
    match tokio::time::timeout(shared.options.http_body_time_max, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(say(StatusCode::BAD_REQUEST, "the body ended early")),
        Err(_) => Err(say(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
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
