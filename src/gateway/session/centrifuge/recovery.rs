//! Where a client is in a channel when it is subscribed.
//!
//! Owns: the rules of recovery. Promises: what follows a position is there whole, or it is said that it is not; a first
//! page at most is read, and the rest is followed. Must not: decide rights.

use std::sync::Arc;

use bytes::Bytes;

use super::super::subscriptions::parts::{OpenedChannel, Opening};
use crate::Shared;
use crate::dispatch::subscribe::{Asked, Room, making, quietly, subscribe};
use tideline_timelines::feed::{Mailbox, Subscription, Watch};
use tideline_wire::Failure;
use tideline_wire::centrifuge::{Code, SubscribeRequest, SubscribeResult, shown};
use tideline_wire::timelines::sync::{Start, State, Subscribed};

/// A channel that has its place and is to be opened.
pub(super) struct Placed {
    pub(super) at: Opening,
    pub(super) watch: Watch,
    pub(super) asked: Asked,
    pub(super) position: Option<SubscribeRequest>,
    /// What the client gets with it; empty = where the channel is.
    pub(super) data: Bytes,
}

/// Whether something ends, and in how many seconds.
pub(super) fn ttl(shared: &Shared, expires_at: Option<u64>) -> (bool, u32) {
    let Some(at) = expires_at else {
        return (false, 0);
    };
    let left = at.saturating_sub(shared.clock.now_ms()).div_ceil(1_000);
    (true, u32::try_from(left).unwrap_or(u32::MAX).max(1))
}

/// Reads what the client lacks, and follows.
pub(super) async fn open(
    shared: &Shared,
    mailbox: &Arc<Mailbox>,
    placed: Placed,
) -> (Result<SubscribeResult, Code>, OpenedChannel) {
    let (at, name) = (placed.at, Arc::clone(placed.watch.timeline()));
    let (result, subscription) = match follow(shared, mailbox, placed).await {
        Ok((result, subscription)) => (Ok(result), Some(subscription)),
        Err(code) => (Err(code), None),
    };
    let opened = OpenedChannel {
        at,
        name,
        subscription,
        push: None,
    };
    (result, opened)
}

async fn follow(
    shared: &Shared,
    mailbox: &Arc<Mailbox>,
    placed: Placed,
) -> Result<(SubscribeResult, Subscription), Code> {
    let Placed {
        at,
        watch,
        asked,
        position,
        data,
    } = placed;
    let asked_from = position.as_ref().map(|position| position.offset);
    let result_at = |epoch: String, head, recovered_from: Option<u64>| SubscribeResult {
        recoverable: true,
        positioned: true,
        epoch,
        was_recovering: asked_from.is_some(),
        recovered: recovered_from.is_some(),
        offset: recovered_from.unwrap_or(head),
        data: match data.is_empty() {
            true => format!(r#"{{"head":{head}}}"#).into(),
            false => data.clone(),
        },
        ..SubscribeResult::default()
    };
    let epoch = position.as_ref().map(|position| position.epoch.clone());
    let start = Start {
        after: asked_from,
        epoch: epoch.filter(|epoch| !epoch.is_empty()),
        ..Start::default()
    };
    let name = Arc::clone(watch.timeline());
    let mut begun = quietly(shared, &asked, &start, watch).await;
    if position.is_none()
        && let Err(watch) = begun
    {
        begun = making(shared, &asked, watch).await;
    }
    let watch = match begun {
        Ok(subscription) => {
            let cursor = subscription.cursor();
            let result = result_at(
                cursor.epoch.as_ref().to_owned(),
                cursor.sequence,
                asked_from,
            );
            return Ok((result, subscription));
        }
        Err(watch) => watch,
    };
    let room = Room {
        bytes: FIRST_PAGE_BYTES,
        first_anyway: true,
    };
    let code = |failure: Failure| Code::of(failure.reason);
    let first = subscribe(shared, &asked, start, watch, room).await;
    let (first, subscription) = first.map_err(code)?;
    if let (State::Ok, Some(subscription)) = (first.state, subscription) {
        let result = SubscribeResult {
            publications: first.messages.iter().filter_map(shown).collect(),
            ..result_at(first.epoch, first.head, asked_from)
        };
        return Ok((result, subscription));
    }
    if position.is_some_and(|position| position.refuses_unrecoverable()) {
        return Err(Code::Unrecoverable);
    }
    // From now on. It may be deleted once more meanwhile, and then it is as if nothing could be read.
    let watch = shared.feed.watch(&name, mailbox, at.slot);
    let anew = subscribe(shared, &asked, Start::default(), watch, room).await;
    let (Subscribed { epoch, head, .. }, subscription) = anew.map_err(code)?;
    let subscription = subscription.ok_or(Code::Internal)?;
    Ok((result_at(epoch, head, None), subscription))
}

/// Publications in the reply; the rest comes as pushes.
pub(super) const FIRST_PAGE: u64 = 100;
const FIRST_PAGE_BYTES: usize = 256 << 10;
