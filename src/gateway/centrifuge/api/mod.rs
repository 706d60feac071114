//! `POST /api/METHOD`, and `POST /api`: the API that back ends of Centrifugo's users call.
//!
//! Owns: the way of a request from its head to its answer, and which callers may make it. Promises: nothing of a body
//! is read before a key was shown that counts; each command is judged where it begins; an error is in the answer's
//! body, or as an HTTP status for callers that ask for one. Must not: know how a channel is stored.

mod about;
mod connections;
mod outcome;
mod perform;
mod several;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method as HttpMethod, Request, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq as _;

use super::super::Shared;
use super::super::dispatch::Caller;
use super::super::entrance::admitted::Admitted;
use super::super::entrance::door;
use super::super::entrance::door::Visitor;
use super::super::http::body;
use super::super::http::respond::{Answer, busy, counted, full, not_allowed, not_read, say};
use super::{ChannelOptions, Options};
use crate::access::{Asker, Right};
use crate::bounds::Holder;
use crate::credentials::Shown;
use crate::wire::Failure;
use crate::wire::centrifuge::{ApiError, ApiMethod, Code};

/// The caller, and what it calls.
struct Backend {
    caller: Caller,
    admitted: Admitted,
    /// It has shown the key of the configuration, which may do everything in every channel.
    is_own: bool,
    options: Arc<Options>,
    shared: Arc<Shared>,
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
    let backend = match enter(key.as_deref(), options, visitor, shared) {
        Ok(backend) => backend,
        Err(answer) => return answer,
    };
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
        Err(error) if by_status => transported(&error),
        outcome => encode(&Said::from(outcome), perform::writes(method), backend),
    }
}

impl Backend {
    /// A command of so many bytes may begin.
    fn begins(&self, bytes: usize) -> Result<(), ApiError> {
        self.admitted.begins(bytes).map_err(|why| ended(&why))
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

    /// In whose shares its calls count.
    fn holder(&self) -> Option<Holder> {
        self.shared.per_client.holder(self.asker())
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

/// The answer to a command that must not begin, or not go on.
fn ended(why: &Failure) -> ApiError {
    Code::of(why.reason).into()
}

/// The caller, by the key that it shows.
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
        admitted,
        is_own,
        options: Arc::clone(options),
        shared: Arc::clone(shared),
    })
}

/// Admits a caller that has shown an API key.
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
    super::query::value(query, "api_key")
}

fn unauthorized() -> Answer {
    say(
        StatusCode::UNAUTHORIZED,
        "show the key of centrifuge.http_api.key, or an API key, as X-API-Key",
    )
}

/// An error as an HTTP status, for callers that ask for one.
fn transported(error: &ApiError) -> Answer {
    let status = StatusCode::from_u16(error.status());
    let body = serde_json::to_vec(error).unwrap_or_default();
    full(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        JSON,
        body,
    )
}

fn encode(said: &impl Serialize, writes: bool, backend: &Backend) -> Answer {
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
