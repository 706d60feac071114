//! `POST /v1/rpc`: the same requests over HTTP, for back ends, curl and polling.
//!
//! Owns: bodies in and out, the user of a request. Promises: a body above the limit is refused before it is read whole;
//! what needs a connection (`subscribe`) is refused as an unknown method. Must not: keep anything between two requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming as Streaming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};

use super::Shared;
use super::body::{self, Body};
use super::dispatch::{Caller, conversation};
use super::door::{self, USER, Visitor};
use super::respond::{Answer, busy, counted, full, not_read, say};
use super::session::batch;
use crate::access::Asker;
use crate::credentials::Credential;
use crate::wire::jsonrpc::JSON;
use crate::wire::{Dialect, Failure, Id, Incoming, Reason, check_user};

/// Answers one request.
pub(super) async fn serve(
    request: &mut Request<Streaming>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Answer {
    let (mut caller, credential) = match caller(request.headers(), visitor, shared).await {
        Ok(known) => known,
        Err(answer) => return answer,
    };
    if !is_json(request.headers()) {
        return say(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let limits = &shared.options.limits;
    let bytes_max = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
    let holder = shared.per_client.holder(&caller.asker);
    let body = body::read(request.body_mut(), bytes_max, holder, shared);
    let Body { bytes, share } = match body.await {
        Ok(body) => body,
        Err(why) => return not_read(&why),
    };
    let dialect: &'static dyn Dialect = &JSON;
    let decoded = dialect.decode(&bytes, limits);
    let length = bytes.len();
    drop(bytes);
    let mut writes = false;
    let reply = match decoded {
        Ok(mut incoming) => {
            shared
                .per_client
                .bound(&caller.asker, &mut incoming, length);
            let mut requests = incoming.calls().iter().flat_map(|call| &call.request);
            writes = requests.any(|request| request.method().has_effect());
            let inside = shared.gate.clone().pass().await;
            // A split or merge waits for calls that may write, and not for those that wait for news.
            let _inside = writes.then_some(inside);
            let reply = perform(incoming, shared, &mut caller, credential.as_ref());
            match reply.await {
                Ok(reply) => reply,
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
        let mut answer = Answer::default();
        *answer.status_mut() = StatusCode::NO_CONTENT;
        return answer;
    };
    let mut unread = shared.answers.share(holder);
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

/// Who sends a request, by its headers.
async fn caller(
    headers: &HeaderMap,
    visitor: Visitor<'_>,
    shared: &Shared,
) -> Result<(Caller, Option<Credential>), Answer> {
    let mut caller = Caller::default();
    if let Some(door) = &shared.door {
        let credential = door.admit(headers, visitor).await;
        let credential = credential.map_err(|failure| door::refusal(&failure))?;
        caller.claimed(door.claim(&credential));
        caller.address = Some(visitor.address);
        return Ok((caller, Some(credential)));
    }
    // Nobody is asked who they are, so this is as good as a credential.
    visitor.seat.is_of(None);
    if let Some(user) = headers.get(USER) {
        let user = user.to_str().ok().filter(|user| check_user(user).is_ok());
        let user = user.ok_or_else(|| {
            say(
                StatusCode::BAD_REQUEST,
                "Tideline-User must be 1 to 128 bytes of text",
            )
        })?;
        caller.asker = Asker::believed(user);
    }
    Ok((caller, None))
}

/// Does what was asked for. `Err` = the credential has ended since the head was read.
async fn perform(
    incoming: Incoming,
    shared: &Arc<Shared>,
    caller: &mut Caller,
    credential: Option<&Credential>,
) -> Result<Option<Bytes>, Failure> {
    if let (Some(door), Some(credential)) = (&shared.door, credential)
        && !door.still_counts(credential, &shared.clock)
    {
        return Err(Reason::Unauthenticated.into());
    }
    let waits = incoming.calls().iter().any(|call| {
        let request = call.request.as_ref();
        request.is_ok_and(conversation::waits)
    });
    let claim = caller.asker.claim().cloned();
    let reply = batch::run(shared, caller, incoming, &JSON);
    match (&shared.door, credential, claim) {
        (Some(door), Some(credential), Some(claim)) if waits => tokio::select! {
            reply = reply => Ok(reply),
            failure = door.until_over(credential, &claim, &shared.clock) => Err(failure),
        },
        _ => Ok(reply.await),
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
