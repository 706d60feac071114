//! Calls of back ends about channels: publications, history, who is there.
//!
//! Owns: the match over the API's methods. Promises: a call of an API key needs the rights that the native call of its
//! kind needs; one of the configuration's key may do everything in every namespace that there is. Must not: know HTTP.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;

use super::super::super::dispatch::{Work, call, refusal};
use super::super::calls::{self, Published};
use super::outcome::{done, read, result};
use super::{Backend, Outcome, Said, about, connections};
use crate::timeline::{Error, Target};
use crate::wire::centrifuge::{
    ApiChannel, ApiError, ApiMethod, ApiRpc, ClientInfo, Code, HistoryRequest, PresenceResult,
    PresenceStatsResult, Publish, rpc_error,
};
use crate::wire::jsonrpc::JSON;
use crate::wire::{Dialect, Failure, Incoming, Method, Needs, Reason};

/// Whether a call changes what is stored.
pub(super) fn writes(method: ApiMethod) -> bool {
    matches!(
        method,
        ApiMethod::Publish | ApiMethod::Broadcast | ApiMethod::HistoryRemove | ApiMethod::Rpc
    )
}

/// Does a call, and counts it as the native one of its kind.
pub(super) async fn perform(method: ApiMethod, text: &str, backend: &Backend<'_>) -> Outcome {
    let began = Instant::now();
    let outcome = match method {
        ApiMethod::Publish => publish(read(text)?, backend).await,
        ApiMethod::Broadcast => broadcast(read(text)?, backend).await,
        ApiMethod::History => history(read(text)?, backend).await,
        ApiMethod::HistoryRemove => remove(read(text)?, backend).await,
        ApiMethod::Presence => presence(&read(text)?, backend).await,
        ApiMethod::PresenceStats => presence_stats(&read(text)?, backend).await,
        ApiMethod::Subscribe => connections::subscribe(&read(text)?, backend),
        ApiMethod::Unsubscribe => connections::unsubscribe(read(text)?, backend),
        ApiMethod::Disconnect => connections::disconnect(&read(text)?, backend),
        ApiMethod::Refresh => connections::refresh(&read(text)?, backend),
        ApiMethod::Channels => about::channels(&read(text)?, backend),
        ApiMethod::Info => about::info(backend),
        // Counted as what it calls.
        ApiMethod::Rpc => return rpc(&read(text)?, backend).await,
    };
    let native = match method {
        ApiMethod::Publish | ApiMethod::Broadcast => Some(Method::MessageAppend),
        ApiMethod::History => Some(Method::MessageRange),
        ApiMethod::HistoryRemove => Some(Method::TimelineTrim),
        ApiMethod::Presence | ApiMethod::PresenceStats => Some(Method::PresenceGet),
        _ => None,
    };
    let failure = outcome.as_ref().err().map(|error| match error.code {
        100 => Failure::new(Reason::Unavailable),
        102 => Failure::new(Reason::TimelineNotFound),
        103 => Failure::new(Reason::Forbidden),
        _ => Failure::new(Reason::InvalidParams),
    });
    let counted = failure.as_ref().map_or(Ok(()), Err);
    backend
        .shared
        .counters
        .count(native, counted, began.elapsed());
    outcome
}

fn refused(failure: &Failure) -> ApiError {
    match failure.reason {
        Reason::MessageIdConflict => ApiError::conflict(),
        reason => Code::of(reason).into(),
    }
}

async fn publish(publish: Publish, backend: &Backend<'_>) -> Outcome {
    let data = publish.data()?;
    to_one(&publish.channel, &publish, &data, backend).await
}

/// The same to several channels, each by itself.
async fn broadcast(publish: Publish, backend: &Backend<'_>) -> Outcome {
    let data = publish.data()?;
    if publish.channels.is_empty() {
        return Err(Code::BadRequest.into());
    }
    if publish.channels.len() > CHANNELS_MAX {
        return Err(Code::LimitExceeded.into());
    }
    let all = publish.channels.iter();
    let all = all.map(|channel| to_one(channel, &publish, &data, backend));
    let responses: Vec<Said> = join_all(all).await.into_iter().map(Said::from).collect();
    result(&json!({ "responses": responses }))
}

async fn to_one(
    channel: &str,
    publish: &Publish,
    data: &bytes::Bytes,
    backend: &Backend<'_>,
) -> Outcome {
    backend.options_of(channel)?;
    // Which publication is the newest is what the channel's order says.
    if publish.version > 0 {
        return Err(Code::NotAvailable.into());
    }
    let key = &publish.idempotency_key;
    let published = Published {
        data: data.clone(),
        info: ClientInfo::default(),
        tags: publish.tags.clone(),
        message_id: Some(key.clone()).filter(|key| !key.is_empty()),
    };
    let position = calls::publish(backend.shared, backend.asker(), channel, published).await;
    let position = position.map_err(|failure| refused(&failure))?;
    result(&json!({ "offset": position.offset, "epoch": position.epoch }))
}

async fn history(asked: HistoryRequest, backend: &Backend<'_>) -> Outcome {
    backend.options_of(&asked.channel)?;
    let read = calls::history(backend.shared, backend.asker(), asked).await?;
    result(&read)
}

/// Drops what there is; position and epoch stay.
async fn remove(asked: ApiChannel, backend: &Backend<'_>) -> Outcome {
    backend.options_of(&asked.channel)?;
    let fail = |error| refused(&refusal(error));
    let head = backend
        .shared
        .timelines
        .head(&asked.channel)
        .await
        .map_err(fail)?;
    // Who may not read a timeline does not learn that it is there.
    let manage = Method::TimelineTrim.needs().rights();
    let (asker, name) = (backend.asker().needing(manage), asked.channel.as_bytes());
    let may_know = asker.reads_by_name(name) && asker.is_allowed_by_name(name);
    let target = Target {
        timeline: asked.channel,
        epoch: None,
        asker,
    };
    let before = head.map_or(1, |head| head.head + 1);
    match backend.shared.timelines.trim(target, before).await {
        Err(Error::TimelineNotFound) if may_know => done(),
        Err(error) => Err(fail(error)),
        Ok(_) => done(),
    }
}

/// Whether who is there is kept of a channel, and may be seen.
async fn shows_presence(channel: &str, backend: &Backend<'_>) -> Result<bool, ApiError> {
    if !backend.options_of(channel)?.presence {
        return Err(Code::NotAvailable.into());
    }
    let shows = calls::shows_presence(backend.shared, backend.asker(), channel);
    Ok(shows.await?)
}

async fn presence(asked: &ApiChannel, backend: &Backend<'_>) -> Outcome {
    let mut shown = PresenceResult::default();
    if shows_presence(&asked.channel, backend).await? {
        let bytes = backend.shared.options.limits.outbound_frame_bytes_max;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        shown.presence = backend.shared.hub.presence(&asked.channel, bytes);
    }
    result(&shown)
}

async fn presence_stats(asked: &ApiChannel, backend: &Backend<'_>) -> Outcome {
    let (clients, users) = match shows_presence(&asked.channel, backend).await? {
        true => backend.shared.hub.presence_stats(&asked.channel),
        false => (0, 0),
    };
    let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
    result(&PresenceStatsResult {
        num_clients: count(clients),
        num_users: count(users),
    })
}

/// A call of the native protocol.
async fn rpc(asked: &ApiRpc, backend: &Backend<'_>) -> Outcome {
    let shared = backend.shared;
    let params = asked.params.as_ref().map_or("{}", |params| params.get());
    let text = json!({
        "jsonrpc": "2.0", "id": 1, "method": asked.method, "params": read::<Box<RawValue>>(params)?,
    });
    let dialect: &dyn Dialect = &JSON;
    let decoded = dialect.decode(text.to_string().as_bytes(), &shared.options.limits);
    let request = match decoded {
        Ok(Incoming::One(call)) => call.request,
        Ok(_) => return Err(Code::BadRequest.into()),
        Err(failure) => Err(failure),
    };
    let request = request.map_err(|failure| rpc_refused(&failure))?;
    // What is about the server is for API keys, which are made for it and can be taken back.
    let is_of_server = matches!(request.method().needs(), Needs::Server(_));
    if is_of_server && shared.door.is_some() && backend.credential.is_none() {
        return Err(Code::PermissionDenied.into());
    }
    let (method, began) = (request.method(), Instant::now());
    let mut caller = backend.caller.clone();
    let answered = match call(shared, &mut caller, request) {
        Work::Now(answered) => answered,
        Work::Write(work) | Work::Read(work) | Work::Wait(work) => work.await,
    };
    let counted = answered.as_ref().map(drop);
    shared
        .counters
        .count(Some(method), counted, began.elapsed());
    let answer = answered.map_err(|failure| rpc_refused(&failure))?;
    result(&json!({ "data": answer }))
}

fn rpc_refused(failure: &Failure) -> ApiError {
    if failure.reason == Reason::MethodNotFound {
        return Code::MethodNotFound.into();
    }
    let error = rpc_error(failure);
    ApiError {
        code: error.code,
        message: error.message,
    }
}

/// Of one broadcast.
const CHANNELS_MAX: usize = 10_000;
