//! The families of marks on messages: reactions and pins.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Started, Work, refusal};
use tideline_timelines::timeline::{Pinned, React, ReactionsOf};
use tideline_wire::messages::{pin, reaction};
use tideline_wire::{Method, Reply};

pub(in super::super) fn react(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::Add,
) -> Started {
    caller.user()?;
    let change = React {
        target: caller.target(Method::ReactionAdd, request.timeline, request.epoch),
        sequence: request.sequence,
        reaction: request.reaction,
        adds: true,
    };
    Ok(reacted(shared, change, Reply::ReactionAdd))
}

pub(in super::super) fn take_back(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::Remove,
) -> Started {
    caller.user()?;
    let change = React {
        target: caller.target(Method::ReactionRemove, request.timeline, request.epoch),
        sequence: request.sequence,
        reaction: request.reaction,
        adds: false,
    };
    Ok(reacted(shared, change, Reply::ReactionRemove))
}

fn reacted(shared: &Shared, change: React, reply: fn(reaction::Reacted) -> Reply) -> Work {
    Work::write(shared.timelines.react(change), move |by_name| {
        let reactions = Some(by_name.into());
        reply(reaction::Reacted { reactions })
    })
}

pub(in super::super) fn reactions_of(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::List,
) -> Work {
    let of = ReactionsOf {
        target: caller.target(Method::ReactionList, request.timeline, request.epoch),
        sequence: request.sequence,
        reaction: request.reaction,
        after: request.after,
        limit: size(request.limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let timelines = shared.timelines.clone();
    Work::Read(Box::pin(async move {
        let page = timelines.reactions(of).await;
        page.map(Reply::ReactionList).map_err(refusal)
    }))
}

pub(in super::super) fn pin(shared: &Arc<Shared>, caller: &Caller, request: pin::Add) -> Work {
    let target = caller.target(Method::PinAdd, request.timeline, request.epoch);
    let queued = shared.timelines.pin(target, request.sequence, true);
    Work::write(queued, |added| Reply::PinAdd(pin::Added { added }))
}

pub(in super::super) fn unpin(shared: &Arc<Shared>, caller: &Caller, request: pin::Remove) -> Work {
    let target = caller.target(Method::PinRemove, request.timeline, request.epoch);
    let queued = shared.timelines.pin(target, request.sequence, false);
    Work::write(queued, |removed| Reply::PinRemove(pin::Removed { removed }))
}

pub(in super::super) fn pinned(shared: &Arc<Shared>, caller: &Caller, request: pin::List) -> Work {
    let pinned = Pinned {
        target: caller.target(Method::PinList, request.timeline, request.epoch),
        after: request.after.unwrap_or(0),
        limit: size(request.limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let timelines = shared.timelines.clone();
    Work::Read(Box::pin(async move {
        let (messages, next) = timelines.pinned(pinned).await.map_err(refusal)?;
        Ok(Reply::PinList(pin::Listed { messages, next }))
    }))
}
