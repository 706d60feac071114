//! `POST /api/METHOD`: the API that back ends of Centrifugo's users call.
//!
//! Owns: the way of a request from its head to its answer, and who may make it. Promises: nothing of a body is read
//! before a key was shown that counts; an error is in the answer's body, or as a status of HTTP for those who ask for
//! it. Must not: know how a channel is stored.

mod about;
mod connections;
mod outcome;
mod perform;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method as HttpMethod, Request, StatusCode};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use subtle::ConstantTimeEq as _;

use super::super::Shared;
use super::super::body::{self, Body};
use super::super::dispatch::Caller;
use super::super::door::{self, Visitor};
use super::super::respond::{Answer, busy, counted, full, not_allowed, not_read, say};
use super::{ChannelOptions, Options};
use crate::access::{Asker, Right};
use crate::credentials::{Credential, Shown};
use crate::wire::centrifuge::{ApiBatch, ApiError, ApiMethod, Code};

/// Who calls, and what is called.
struct Backend<'s> {
    caller: Caller,
    /// With the key of the configuration there is none.
    credential: Option<Credential>,
    options: &'s Options,
    shared: &'s Arc<Shared>,
}

/// What a call comes to.
type Outcome = Result<Box<RawValue>, ApiError>;

/// The answer to one call.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Result(Box<RawValue>),
    Error(ApiError),
}

impl From<Outcome> for Said {
    fn from(outcome: Outcome) -> Said {
        outcome.map_or_else(Said::Error, Said::Result)
    }
}

/// Answers one request to `/api/METHOD`.
pub(in crate::gateway) async fn serve(
    request: &mut Request<Incoming>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Answer {
    if *request.method() != HttpMethod::POST {
        return not_allowed("POST");
    }
    let Some(options) = &shared.options.centrifuge else {
        return say(StatusCode::NOT_FOUND, "no [centrifuge] here");
    };
    let key = key_of(request.headers(), request.uri().query().unwrap_or_default());
    let backend = match enter(key.as_deref(), options, visitor, shared) {
        Ok(backend) => backend,
        Err(answer) => return answer,
    };
    visitor
        .seat
        .is_of(shared.per_client.holder(backend.asker()));
    let method = request.uri().path().rsplit('/').next().unwrap_or_default();
    let (called, is_batch) = (ApiMethod::of(method), method == BATCH);
    let mode = request.headers().get("x-centrifugo-error-mode");
    let by_status = mode.is_some_and(|mode| mode == "transport");
    if called.is_none() && !is_batch {
        return say(StatusCode::NOT_FOUND, "no such method of this API");
    }
    let bytes_max = shared.options.limits.inbound_frame_bytes_max;
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let holder = shared.per_client.holder(backend.asker());
    let body = body::read(request.body_mut(), bytes_max, holder, shared);
    let Body { bytes, share } = match body.await {
        Ok(body) => body,
        Err(why) => return not_read(&why),
    };
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return say(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    if let Err(answer) = backend.may_go_on(text.len()) {
        return answer;
    }
    let inside = shared.gate.clone().pass().await;
    let answer = match called {
        Some(method) => {
            let writes = perform::writes(method);
            let _inside = writes.then_some(inside);
            let outcome = perform::perform(method, text, &backend).await;
            match outcome {
                Err(error) if by_status => return transported(&error),
                outcome => encode(&Said::from(outcome), writes, shared),
            }
        }
        None => {
            let Ok(batch) = serde_json::from_str(text) else {
                return say(StatusCode::BAD_REQUEST, "the body is no batch");
            };
            let _inside = inside;
            let replies = run_batch(batch, &backend).await;
            encode(&replies, true, shared)
        }
    };
    drop((bytes, share));
    answer
}

/// The answers to a batch.
#[derive(Serialize)]
struct Replies {
    replies: Vec<Box<RawValue>>,
}

/// Does one call after the other, which is as good as at once to who asks for that.
async fn run_batch(batch: ApiBatch, backend: &Backend<'_>) -> Replies {
    let mut replies = Vec::new();
    for command in batch.commands {
        let mut members = command.iter();
        let outcome = match (members.next(), members.next()) {
            (Some((name, params)), None) => match ApiMethod::of(name) {
                Some(method) => {
                    let outcome = perform::perform(method, params.get(), backend).await;
                    outcome.map(|result| (method, result))
                }
                None => Err(Code::MethodNotFound.into()),
            },
            _ => Err(Code::BadRequest.into()),
        };
        let reply = match outcome {
            Ok((method, result)) => {
                to_raw_value(&std::collections::BTreeMap::from([(method.name(), result)]))
            }
            Err(error) => to_raw_value(&Said::Error(error)),
        };
        replies.extend(reply.ok());
    }
    Replies { replies }
}

impl Backend<'_> {
    /// Refuses what the limits of its key do not allow, and whose key was taken back while its body came in.
    fn may_go_on(&self, bytes: usize) -> Result<(), Answer> {
        let (Some(door), Some(credential)) = (&self.shared.door, &self.credential) else {
            return Ok(());
        };
        if !door.still_counts(credential, &self.shared.clock) {
            return Err(unauthorized());
        }
        door.bound_signed(credential, bytes).map_err(|reached| {
            let failure: crate::wire::Failure = reached.into();
            door::refusal(&failure)
        })
    }

    /// Whether a right about the server as a whole is given.
    fn check(&self, right: Right) -> Result<(), ApiError> {
        match self.caller.may(right) {
            true => Ok(()),
            false => Err(Code::PermissionDenied.into()),
        }
    }

    fn asker(&self) -> &Asker {
        &self.caller.asker
    }

    /// The options of a channel that is named and whose namespace there is.
    fn options_of(&self, channel: &str) -> Result<&ChannelOptions, ApiError> {
        if channel.is_empty() {
            return Err(Code::BadRequest.into());
        }
        let found = self.options.channels.of(channel);
        found.ok_or_else(|| Code::UnknownChannel.into())
    }
}

/// Who calls, by the key that they show.
fn enter<'s>(
    key: Option<&str>,
    options: &'s Options,
    visitor: Visitor<'_>,
    shared: &'s Arc<Shared>,
) -> Result<Backend<'s>, Answer> {
    let Some(key) = key else {
        return Err(unauthorized());
    };
    let is_own = |own: &String| bool::from(own.as_bytes().ct_eq(key.as_bytes()));
    let mut caller = Caller::default();
    caller.address = Some(visitor.address);
    if options.api_key.as_ref().is_some_and(is_own) {
        return Ok(Backend {
            caller,
            credential: None,
            options,
            shared,
        });
    }
    let Some(door) = &shared.door else {
        return match shared.per_client.fail(visitor.address) {
            Ok(()) => Err(unauthorized()),
            Err(reached) => Err(door::refusal(&reached.into())),
        };
    };
    let shown = Shown {
        bearer: Some(key),
        user: None,
        certificates: visitor.certificates,
    };
    let credential = door.judge(shown, visitor.address);
    let credential = credential.map_err(|failure| door::refusal(&failure))?;
    if credential.identity.key().is_none() {
        return Err(unauthorized());
    }
    caller.claimed(door.claim(&credential));
    Ok(Backend {
        caller,
        credential: Some(credential),
        options,
        shared,
    })
}

/// The key of a request: `X-API-Key`, `Authorization: apikey` (or `bearer`), or `api_key` in the query.
fn key_of(headers: &HeaderMap, query: &str) -> Option<String> {
    if let Some(key) = headers.get("x-api-key") {
        return key.to_str().ok().map(str::to_owned);
    }
    if let Some(value) = headers.get(AUTHORIZATION) {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        let is_known = ["apikey", "bearer"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
        return is_known.then(|| key.trim().to_owned());
    }
    super::query::value(query, "api_key")
}

fn unauthorized() -> Answer {
    say(
        StatusCode::UNAUTHORIZED,
        "show the key of centrifuge.http_api.key, or an API key, as X-API-Key",
    )
}

/// An error as a status, for those who want it so.
fn transported(error: &ApiError) -> Answer {
    let status = StatusCode::from_u16(error.status());
    let body = serde_json::to_vec(error).unwrap_or_default();
    full(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        JSON,
        body,
    )
}

fn encode(said: &impl Serialize, writes: bool, shared: &Shared) -> Answer {
    let Ok(body) = serde_json::to_vec(said) else {
        return say(StatusCode::INTERNAL_SERVER_ERROR, "the answer is no JSON");
    };
    let mut unread = shared.answers.share(None);
    if !unread.resize(body.len()) {
        shared.answers.refuse();
        // The back end must learn what a write has done.
        if !writes {
            return busy();
        }
        unread.force(body.len());
    }
    let sent = &shared.metrics.gateway.sent_bytes;
    sent.increment(body.len() as u64);
    full(StatusCode::OK, JSON, counted(body.into(), unread))
}

const BATCH: &str = "batch";
const JSON: &str = "application/json";
