//! Calls of back ends about channels: publications, history, presence.
//!
//! Owns: the match over the API's methods. Promises: a call of an API key needs the rights that the native call of its
//! kind needs; one of the configuration's key may do everything in every namespace that there is. Must not: know HTTP.

use std::borrow::Cow;
use std::time::Instant;

use futures_util::future::ready;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::super::super::dispatch::shape::size;
use super::super::super::dispatch::{Work, call, refusal};
use super::super::{Ask, calls};
use super::{Backend, Found, Outcome, Said, about, connections, read, refused};
use crate::entrance::admitted::Does;
use tideline_model::access::{Right, Rights};
use tideline_timelines::timeline::{Error as TimelineError, Target};
use tideline_wire::centrifuge::{
    ApiMethod, ApiRpc, ChannelRequest, Code, Error, HistoryRequest, Publish, Published, rpc_error,
};
use tideline_wire::jsonrpc::by_name;
use tideline_wire::{Failure, Method, Needs, Reason};

/// Whether a call changes what is stored.
pub(super) fn writes(method: ApiMethod) -> bool {
    matches!(
        method,
        ApiMethod::Publish | ApiMethod::Broadcast | ApiMethod::HistoryRemove | ApiMethod::Rpc
    )
}

/// Does a call, and counts it as the native one of its kind.
pub(super) async fn perform(method: ApiMethod, text: &str, backend: &Backend) -> Outcome {
    if method == ApiMethod::Rpc {
        // Counted as what it calls.
        return rpc(&read(text)?, backend).await;
    }
    let began = Instant::now();
    let mut backend = Cow::Borrowed(backend);
    let mut trace = backend.caller.trace;
    let span = backend.shared.spans.begin(&mut trace);
    if span.is_some() {
        // What it causes is a part of the span.
        backend.to_mut().caller.trace = trace;
    }
    let backend = &*backend;
    let does = match writes(method) {
        true => Does::Changes,
        false => Does::Reads,
    };
    let work = Box::pin(one(method, text, backend));
    let done = backend.admitted.perform(does, work);
    let outcome = done.await.unwrap_or_else(|why| Err(refused(&why)));
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
    if let (Some(span), Some(native)) = (span, native) {
        let refused = failure.as_ref().map(|failure| failure.reason.name());
        span.end(native.name(), None, refused, began.elapsed());
    }
    outcome
}

async fn one(method: ApiMethod, text: &str, backend: &Backend) -> Outcome {
    match method {
        ApiMethod::Publish => publish(read(text)?, backend).await,
        ApiMethod::Broadcast => broadcast(read(text)?, backend).await,
        ApiMethod::History => history(read(text)?, backend).await,
        ApiMethod::HistoryRemove => remove(read(text)?, backend).await,
        ApiMethod::Presence => presence(&read(text)?, backend).await,
        ApiMethod::PresenceStats => presence_stats(&read(text)?, backend).await,
        ApiMethod::Subscribe => connections::subscribe(read(text)?, backend),
        ApiMethod::Unsubscribe => connections::unsubscribe(&read(text)?, backend),
        ApiMethod::Disconnect => connections::disconnect(&read(text)?, backend),
        ApiMethod::Refresh => connections::refresh(&read(text)?, backend),
        ApiMethod::Channels => about::channels(&read(text)?, backend),
        ApiMethod::Info => about::info(backend),
        // It has a way of its own.
        ApiMethod::Rpc => Err(Code::MethodNotFound.into()),
    }
}

async fn publish(publish: Publish, backend: &Backend) -> Outcome {
    let data = publish.data()?;
    to_one(&publish.channel, &publish, &data, backend).await
}

/// Publishes the same to several channels. Each is a request of its caller by itself. Only some are under way at a
/// time, since each takes memory until it is written.
async fn broadcast(publish: Publish, backend: &Backend) -> Outcome {
    let data = publish.data()?;
    if publish.channels.is_empty() {
        return Err(Code::BadRequest.into());
    }
    if publish.channels.len() > CHANNELS_MAX {
        return Err(Code::LimitExceeded.into());
    }
    let together = (TOGETHER_BYTES / data.len().max(1)).clamp(1, TOGETHER_MAX);
    let mut channels = publish.channels.iter();
    let mut responses: Vec<Said> = Vec::with_capacity(channels.len());
    let mut under_way = FuturesOrdered::new();
    loop {
        while under_way.len() < together
            && let Some(channel) = channels.next()
        {
            let begins = match responses.len() + under_way.len() {
                // The command itself has paid for its first channel.
                0 => Ok(()),
                _ => backend.begins(0),
            };
            let to_one = match begins {
                Ok(()) => to_one(channel, &publish, &data, backend).boxed(),
                Err(error) => ready(Err(error)).boxed(),
            };
            under_way.push_back(to_one);
        }
        match under_way.next().await {
            Some(outcome) => responses.push(outcome.into()),
            None => break,
        }
    }
    Ok(Found::Broadcast { responses })
}

async fn to_one(
    channel: &str,
    publish: &Publish,
    data: &bytes::Bytes,
    backend: &Backend,
) -> Outcome {
    backend.has(Ask::Publish, channel)?;
    // Which publication is the newest is what the channel's order says.
    if publish.version > 0 {
        return Err(Code::NotAvailable.into());
    }
    let key = &publish.idempotency_key;
    let published = Published {
        data: data.clone(),
        is_json: publish.is_json(),
        tags: publish.tags.clone(),
        message_id: Some(key.clone()).filter(|key| !key.is_empty()),
        ..Published::default()
    };
    let position = calls::publish(&backend.shared, &backend.caller, channel, published).await;
    position.map(Found::Published).map_err(|why| refused(&why))
}

async fn history(asked: HistoryRequest, backend: &Backend) -> Outcome {
    backend.has(Ask::History, &asked.channel)?;
    let found = calls::history(&backend.shared, backend.asker(), asked).await?;
    Ok(Found::History(found))
}

/// Drops what there is; position and epoch stay.
async fn remove(asked: ChannelRequest, backend: &Backend) -> Outcome {
    backend.has(Ask::History, &asked.channel)?;
    let fail = |error| refused(&refusal(error));
    let head = backend
        .shared
        .timelines
        .head(&asked.channel)
        .await
        .map_err(fail)?;
    // A caller that may not read a timeline does not learn that it exists.
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
        Err(TimelineError::TimelineNotFound) if may_know => Ok(Found::Done {}),
        Err(error) => Err(fail(error)),
        Ok(_) => Ok(Found::Done {}),
    }
}

async fn presence(asked: &ChannelRequest, backend: &Backend) -> Outcome {
    backend.has(Ask::Presence, &asked.channel)?;
    let (shared, asker) = (&backend.shared, backend.asker());
    let bytes_max = size(shared.options.limits.outbound_frame_bytes_max);
    let found = calls::presence(shared, asker, &asked.channel, bytes_max).await?;
    Ok(Found::Presence(found))
}

async fn presence_stats(asked: &ChannelRequest, backend: &Backend) -> Outcome {
    backend.has(Ask::Presence, &asked.channel)?;
    let found = calls::presence_stats(&backend.shared, backend.asker(), &asked.channel).await?;
    Ok(Found::PresenceStats(found))
}

/// A call of the native protocol.
async fn rpc(asked: &ApiRpc, backend: &Backend) -> Outcome {
    let shared = &backend.shared;
    let params = asked.params.as_ref().map_or("{}", |params| params.get());
    let request = by_name(&asked.method, params.as_bytes(), &shared.options.limits);
    let request = request.map_err(|failure| rpc_refused(&failure))?;
    // With [auth], only API keys may call what is about no channel: they have rights of their own.
    if shared.door.is_some() && backend.is_own && !is_of_channels(request.method()) {
        return Err(Code::PermissionDenied.into());
    }
    let (method, began) = (request.method(), Instant::now());
    let mut caller = backend.caller.clone();
    let does = match method.has_effect() {
        true => Does::Changes,
        false => Does::Reads,
    };
    let work = async {
        match call(shared, &mut caller, request) {
            Work::Now(answered) => answered,
            Work::Write(work) | Work::Read(work) | Work::Wait(work) => work.await,
        }
    };
    let done = backend.admitted.perform(does, Box::pin(work)).await;
    let answered = done.map_err(|why| refused(&why))?;
    let counted = answered.as_ref().map(drop);
    shared
        .counters
        .count(Some(method), counted, began.elapsed());
    let answer = answered.map_err(|failure| rpc_refused(&failure))?;
    let data = Box::new(answer);
    Ok(Found::Rpc { data })
}

/// Whether a method is about a timeline that it names, and not about a table, a session or the server.
fn is_of_channels(method: Method) -> bool {
    const TABLES: Rights = Rights::NONE
        .with(Right::TablesRead)
        .with(Right::TablesWrite)
        .with(Right::TablesManage);
    match method.needs() {
        Needs::Nothing(_) => true,
        Needs::Any(rights) => !rights.has_any(TABLES),
        Needs::Session(_) | Needs::Server(_) => method == Method::Discover,
    }
}

fn rpc_refused(failure: &Failure) -> Error {
    match failure.reason {
        Reason::MethodNotFound => Code::MethodNotFound.into(),
        _ => rpc_error(failure),
    }
}

/// Channels of one broadcast.
const CHANNELS_MAX: usize = 10_000;
/// Channels of it that are under way at the same time, and bytes of what is published to them.
const TOGETHER_MAX: usize = 256;
const TOGETHER_BYTES: usize = 1 << 20;
