//! `POST /v1/rpc`: the same requests over HTTP, for back ends, curl and polling.
//!
//! Owns: bodies in and out, the user of a request. Promises: a body above the limit is refused before it is read whole;
//! what needs a connection (`subscribe`) is refused as an unknown method. Must not: keep anything between two requests.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming as Streaming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};

use super::super::Shared;
use super::super::dispatch::Caller;
use super::super::entrance::admitted::{Admitted, Does};
use super::super::entrance::door;
use super::super::entrance::door::{USER, Visitor};
use super::super::session::batch;
use super::body;
use super::body::Body;
use super::request_id::trace_of;
use super::respond::{Answer, NotBegun, busy, counted, empty, full, not_read, say};
use tideline_model::access::Asker;
use tideline_wire::jsonrpc::JSON;
use tideline_wire::{Dialect, Id, check_user};

/// Answers one request.
pub(in super::super) async fn serve(
    request: &mut Request<Streaming>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Answer {
    let admitted = match admit(request.headers(), visitor, shared).await {
        Ok(admitted) => admitted,
        Err(answer) => return answer,
    };
    let mut caller = Caller::default();
    caller.asker = admitted.asker().clone();
    caller.shown = admitted.shown().cloned().map(Box::new);
    caller.trace = trace_of(request);
    caller.address = shared.door.as_ref().map(|_| visitor.address);
    if !is_json(request.headers()) {
        return say(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let limits = &shared.options.limits;
    let bytes_max = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
    let holder = shared.per_client.holder(&caller.asker);
    let body = body::read(request, bytes_max, holder, shared);
    let Body { bytes, share } = match body.await {
        Ok(body) => body,
        Err(why) => return not_read(&why),
    };
    let dialect: &'static dyn Dialect = &JSON;
    let decoded = dialect.decode(&bytes, limits);
    let length = bytes.len();
    drop(bytes);
    let mut does = Does::Reads;
    let mut is_undone = false;
    let reply = match decoded {
        Ok(mut incoming) => {
            admitted.bound(&mut incoming, length);
            does = Does::of(&incoming);
            let reply = batch::run(shared, &mut caller, incoming, &JSON);
            match admitted.perform(does, Box::pin(reply)).await {
                Ok((reply, undone)) => {
                    is_undone = undone;
                    reply
                }
                Err(failure) => return door::refusal(&failure),
            }
        }
        Err(failure) => {
            shared.counters.count(None, Err(&failure), Duration::ZERO);
            Some(dialect.encode(&Id::Null, Err(&failure)))
        }
    };
    drop(share);
    let Some(reply) = reply else {
        return empty(StatusCode::NO_CONTENT);
    };
    let mut unread = shared.answers.share(holder);
    if !unread.resize(reply.len()) {
        shared.answers.refuse();
        // The client must learn what a write has done.
        if !does.changes() {
            return busy();
        }
        unread.force(reply.len());
    }
    shared
        .metrics
        .gateway
        .sent_bytes
        .increment(reply.len() as u64);
    let mut answer = full(StatusCode::OK, "application/json", counted(reply, unread));
    if is_undone {
        answer.extensions_mut().insert(NotBegun);
    }
    answer
}

/// The caller of a request, by its headers.
pub(in super::super) async fn admit(
    headers: &HeaderMap,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Result<Admitted, Answer> {
    if let Some(door) = &shared.door {
        let credential = door.admit(headers, visitor).await;
        let credential = credential.map_err(|failure| door::refusal(&failure))?;
        return Ok(Admitted::by(shared, door, credential));
    }
    // No credential is asked for, so a request counts as if it had shown one.
    visitor.seat.is_of(None);
    let mut asker = Asker::default();
    if let Some(user) = headers.get(USER) {
        let user = door::user_of(user).filter(|user| check_user(user).is_ok());
        let user = user.ok_or_else(|| {
            say(
                StatusCode::BAD_REQUEST,
                "Tideline-User must be 1 to 128 bytes of text",
            )
        })?;
        asker = Asker::believed(user);
    }
    Ok(Admitted::believed(shared, asker, None))
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
