//! Where a client stands in a channel when it is subscribed.
//!
//! Owns: the rules of recovery. Promises: what follows a position is there whole, or it is said that it is not; a first
//! page at most is read, and the rest is followed. Must not: decide rights.

use std::sync::Arc;

use bytes::Bytes;

use super::super::subscriptions::parts::{Opening, Stand};
use crate::feed::{Mailbox, Subscription, Watch};
use crate::gateway::Shared;
use crate::gateway::dispatch::subscribe::{Asked, Room, making, quietly, subscribe};
use crate::wire::Failure;
use crate::wire::centrifuge::{Code, SubscribeRequest, SubscribeResult, shown};
use crate::wire::timelines::sync::{Start, State, Subscribed};

/// What a subscription is opened with.
pub(super) struct Ticketed {
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
    ticketed: Ticketed,
) -> Result<(Stand, Subscription), Code> {
    let Ticketed {
        at,
        watch,
        asked,
        position,
        data,
    } = ticketed;
    let mut stand = Stand {
        data,
        asked_from: position.as_ref().map(|position| position.offset),
        ..Stand::default()
    };
    let start = Start {
        after: stand.asked_from,
        epoch: position
            .as_ref()
            .map(|position| position.epoch.clone())
            .filter(|epoch| !epoch.is_empty()),
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
            stand.epoch = subscription.cursor().epoch.as_ref().to_owned();
            stand.head = subscription.cursor().sequence;
            stand.is_recovered = position.is_some();
            return Ok((stand, subscription));
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
        stand.is_recovered = position.is_some();
        stand.publications = first.messages.iter().filter_map(shown).collect();
        (stand.epoch, stand.head) = (first.epoch, first.head);
        return Ok((stand, subscription));
    }
    if position.is_some_and(|position| position.refuses_unrecoverable()) {
        return Err(Code::Unrecoverable);
    }
    // From now on. It may be deleted once more meanwhile, and then it is as if nothing could be read.
    let watch = shared.feed.watch(&name, mailbox, at.slot);
    let anew = subscribe(shared, &asked, Start::default(), watch, room).await;
    match anew.map_err(code)? {
        (Subscribed { epoch, head, .. }, Some(subscription)) => {
            (stand.epoch, stand.head) = (epoch, head);
            Ok((stand, subscription))
        }
        (_, None) => Err(Code::Internal),
    }
}

impl From<Stand> for SubscribeResult {
    fn from(stand: Stand) -> SubscribeResult {
        let data = match stand.data.is_empty() {
            true => Bytes::from(format!(r#"{{"head":{}}}"#, stand.head)),
            false => stand.data,
        };
        let recovered_from = stand.asked_from.filter(|_| stand.is_recovered);
        SubscribeResult {
            recoverable: true,
            positioned: true,
            epoch: stand.epoch,
            publications: stand.publications,
            was_recovering: stand.asked_from.is_some(),
            recovered: stand.is_recovered,
            offset: recovered_from.unwrap_or(stand.head),
            data,
            ..SubscribeResult::default()
        }
    }
}

/// Publications in the reply; the rest comes as pushes.
pub(super) const FIRST_PAGE: u64 = 100;
const FIRST_PAGE_BYTES: usize = 256 << 10;
