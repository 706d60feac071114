//! `POST /api/METHOD`, and `POST /api`: the API that back ends of Centrifugo's users call.
//!
//! Owns: the way of a request from its head to its answer, and which callers may make it. Promises: nothing of a body
//! is read before a key was shown that counts; each command is judged where it begins; an error is in the answer's
//! body, or as an HTTP status for callers that ask for one. Must not: know how a channel is stored.

mod about;
mod connections;
mod perform;
mod several;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method as HttpMethod, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::super::Shared;
use super::super::dispatch::Caller;
use super::super::entrance::admitted::Admitted;
use super::super::entrance::door;
use super::super::entrance::door::Visitor;
use super::super::http::body;
use super::super::http::request_id::trace_of;
use super::super::http::respond::{Answer, busy, counted, full, not_allowed, not_read, say};
use super::{Ask, Options};
use crate::credentials::Shown;
use tideline_base::bounds::Holder;
use tideline_base::decode;
use tideline_model::access::{Asker, Right};
use tideline_wire::centrifuge::{
    ApiMethod, Code, Error, HistoryResult, PresenceResult, PresenceStatsResult, StreamPosition,
};
use tideline_wire::{Failure, Reason, Reply};

/// The caller, and what it calls.
#[derive(Clone)]
struct Backend {
    caller: Caller,
    admitted: Arc<Admitted>,
    /// It has shown the key of the configuration, which may do everything in every channel.
    is_own: bool,
    options: Arc<Options>,
    shared: Arc<Shared>,
}

/// What a call comes to.
type Outcome = Result<Found, Error>;

/// What was found, or done.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Done {},
    Published(StreamPosition),
    Broadcast { responses: Vec<Said> },
    History(HistoryResult),
    Presence(PresenceResult),
    PresenceStats(PresenceStatsResult),
    Rpc { data: Box<Reply> },
    About(Value),
}

/// The answer to one call.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Result(Found),
    Error(Error),
}

impl From<Outcome> for Said {
    fn from(outcome: Outcome) -> Said {
        outcome.map_or_else(|error| Said::Error(error.for_back_ends()), Said::Result)
    }
}

/// What a path asks for.
enum Asked {
    One(ApiMethod),
    Several(several::Shape),
}

impl Asked {
    fn of(path: &str) -> Option<Asked> {
        let several = match path.strip_prefix("/api")?.trim_start_matches('/') {
            "" => several::Shape::Lines,
            "batch" => several::Shape::Batch,
            method => return ApiMethod::of(method).map(Asked::One),
        };
        Some(Asked::Several(several))
    }
}

/// Answers one request.
pub(in super::super) async fn serve(
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
    let query = request.uri().query().filter(|_| options.api_key_in_url);
    let key = key_of(request.headers(), query.unwrap_or_default());
    let mut backend = match enter(key.as_deref(), options, visitor, shared) {
        Ok(backend) => backend,
        Err(answer) => return answer,
    };
    backend.caller.trace = trace_of(request);
    let Some(asked) = Asked::of(request.uri().path()) else {
        return say(StatusCode::NOT_FOUND, "no such method of this API");
    };
    let holder = backend.holder();
    visitor.seat.is_of(holder);
    let mode = request.headers().get("x-centrifugo-error-mode");
    let by_status = mode.is_some_and(|mode| mode == "transport");
    let bytes_max = shared.options.limits.inbound_frame_bytes_max;
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let body = match body::read(request, bytes_max, holder, shared).await {
        Ok(body) => body,
        Err(why) => return not_read(&why),
    };
    if backend.admitted.check().is_err() {
        return unauthorized();
    }
    let Ok(text) = std::str::from_utf8(&body.bytes) else {
        return say(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    match asked {
        Asked::One(method) => one(method, text, &backend, by_status).await,
        Asked::Several(shape) => {
            let Some(commands) = shape.commands(text) else {
                return say(StatusCode::BAD_REQUEST, "the body has no commands");
            };
            let owed = request.extensions().get().cloned();
            several::answer(shape, commands, (body, owed), backend)
        }
    }
}

async fn one(method: ApiMethod, text: &str, backend: &Backend, by_status: bool) -> Answer {
    if let Err(failure) = backend.admitted.begins(text.len()) {
        return match failure.retry_after_ms {
            Some(_) => door::refusal(&failure),
            None => unauthorized(),
        };
    }
    match perform::perform(method, text, backend).await {
        Err(error) if by_status => transported(&error.for_back_ends()),
        outcome => encode(&outcome.into(), perform::writes(method), backend),
    }
}

impl Backend {
    /// A command of so many bytes may begin.
    fn begins(&self, bytes: usize) -> Result<(), Error> {
        self.admitted.begins(bytes).map_err(|why| refused(&why))
    }

    /// Whether a right about the server as a whole is given.
    fn check(&self, right: Right) -> Result<(), Error> {
        match self.caller.may(right) {
            true => Ok(()),
            false => Err(Code::PermissionDenied.into()),
        }
    }

    fn asker(&self) -> &Asker {
        &self.caller.asker
    }

    /// In whose shares its calls count.
    fn holder(&self) -> Option<Holder> {
        self.shared.per_client.holder(self.asker())
    }

    /// Refuses what the options of a channel do not have.
    fn has(&self, what: Ask, channel: &str) -> Result<(), Error> {
        self.options.channels.having(what, channel)?;
        Ok(())
    }
}

/// The answer to a command that must not begin or go on, or that can't be done.
fn refused(failure: &Failure) -> Error {
    match failure.reason {
        Reason::MessageIdConflict => Error::conflict(),
        reason => Code::of(reason).into(),
    }
}

/// From the text of a call to its request.
fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, Error> {
    decode::from_str(text).map_err(|_| Code::BadRequest.into())
}

/// The caller, by the key that it shows.
#[allow(clippy::result_large_err)] // an answer, once for a request
fn enter(
    key: Option<&str>,
    options: &Arc<Options>,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Result<Backend, Answer> {
    let Some(key) = key else {
        return Err(unauthorized());
    };
    let is_own = |own: &String| bool::from(own.as_bytes().ct_eq(key.as_bytes()));
    let is_own = options.api_key.as_ref().is_some_and(is_own);
    let admitted = match is_own {
        true => Admitted::believed(shared, Asker::default(), Some(OWN_KEY)),
        false => admit(key, visitor, shared)?,
    };
    let mut caller = Caller::default();
    caller.address = Some(visitor.address);
    caller.asker = admitted.asker().clone();
    Ok(Backend {
        caller,
        admitted: Arc::new(admitted),
        is_own,
        options: Arc::clone(options),
        shared: Arc::clone(shared),
    })
}

/// Admits a caller that has shown an API key.
#[allow(clippy::result_large_err)] // as above
fn admit(key: &str, visitor: Visitor<'_>, shared: &Arc<Shared>) -> Result<Admitted, Answer> {
    let Some(door) = &shared.door else {
        return Err(match shared.per_client.fail(visitor.address) {
            Ok(()) => unauthorized(),
            Err(reached) => door::refusal(&reached.into()),
        });
    };
    let shown = Shown {
        bearer: Some(key),
        user: None,
        certificates: visitor.certificates,
    };
    let credential = door.judge(shown, visitor.address);
    let credential = credential.map_err(|failure| door::refusal(&failure))?;
    match credential.identity.key() {
        Some(_) => Ok(Admitted::by(shared, door, credential)),
        None => Err(unauthorized()),
    }
}

/// The key of a request: `X-API-Key`, `Authorization: apikey` (or `bearer`), or, where that is on, `api_key` in the
/// query.
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
    tideline_base::decode::query::value(query, "api_key")
}

fn unauthorized() -> Answer {
    say(
        StatusCode::UNAUTHORIZED,
        "show the key of centrifuge.http_api.key, or an API key, as X-API-Key",
    )
}

/// An error as an HTTP status, for callers that ask for one.
fn transported(error: &Error) -> Answer {
    let status = StatusCode::from_u16(error.status());
    let body = serde_json::to_vec(error).unwrap_or_default();
    full(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        JSON,
        body,
    )
}

fn encode(said: &Said, writes: bool, backend: &Backend) -> Answer {
    let shared = &backend.shared;
    let Ok(body) = serde_json::to_vec(said) else {
        return say(StatusCode::INTERNAL_SERVER_ERROR, "the answer is no JSON");
    };
    let mut unread = shared.answers.share(backend.holder());
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

/// What the limits of the configuration's key count by. No API key has such an ID.
const OWN_KEY: &str = "http_api.key";
const JSON: &str = "application/json";
