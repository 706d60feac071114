//! The webhook family: list, dead, replay.
//!
//! Owns: the calls behind these methods. Promises: they are a back end's. Must not: post; the webhooks' own tasks do.

use std::sync::Arc;

use super::super::shape::size;
use super::super::tables::stream::{back_end, refusal as follow_refusal, source};
use super::super::{Caller, Shared, Started, Work};
use crate::webhook::{Replay, Status, WebhookError};
use tideline_wire::server::webhook;
use tideline_wire::{Failure, Reason, Reply};

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller) -> Started {
    back_end(caller)?;
    let shared = Arc::clone(shared);
    Ok(Work::Read(Box::pin(async move {
        let all = shared.webhooks.list().await.map_err(refusal)?;
        let now_ms = shared.clock.now_ms();
        let webhooks = all.into_iter().map(|one| told(one, now_ms)).collect();
        Ok(Reply::WebhookList(webhook::Listed { webhooks }))
    })))
}

pub(in super::super) fn dead(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: webhook::Dead,
) -> Started {
    back_end(caller)?;
    let shared = Arc::clone(shared);
    Ok(Work::Read(Box::pin(async move {
        let webhook::Dead { name, after, limit } = request;
        let (above, limit) = (after.unwrap_or(0), size(limit));
        let found = shared.webhooks.dead(&name, above, limit + 1).await;
        let mut dead = found.map_err(refusal)?;
        let is_more = dead.len() > limit;
        dead.truncate(limit);
        let next = dead.last().map(|letter| letter.number).filter(|_| is_more);
        Ok(Reply::WebhookDead(webhook::DeadPage { dead, next }))
    })))
}

pub(in super::super) fn replay(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: webhook::Replay,
) -> Started {
    back_end(caller)?;
    let shared = Arc::clone(shared);
    Ok(caller.in_line(async move {
        let what = match request.position {
            Some(position) => Replay::Position(position),
            None => Replay::Dead(request.dead.unwrap_or(0)),
        };
        let replayed = shared.webhooks.replay(&request.name, what).await;
        replayed.map_err(refusal)?;
        Ok(Reply::WebhookReplay(webhook::Replaying {}))
    }))
}

fn told(status: Status, now_ms: u64) -> webhook::Webhook {
    let (timelines, table) = source(status.followed);
    let (behind, since) = status.lag;
    webhook::Webhook {
        name: status.name,
        url: status.url,
        timelines,
        table,
        position: status.position,
        behind,
        lag_ms: since.map_or(0, |since| now_ms.saturating_sub(since)),
        dead: status.dead,
        failing: status.failing,
    }
}

fn refusal(error: WebhookError) -> Failure {
    match error {
        WebhookError::NotFound => Failure::new(Reason::WebhookNotFound).about("name"),
        WebhookError::DeadLetterNotFound => Failure::new(Reason::DeadLetterNotFound).about("dead"),
        WebhookError::Follow(error) => follow_refusal(error),
    }
}
