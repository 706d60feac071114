//! The families of marks on messages: reactions and pins.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape;
use super::super::shape::{page_bytes, reactions, size};
use super::super::{Caller, Shared, Started, Work, refusal};
use crate::timeline::{Pinned, React, ReactionsOf};
use crate::wire::messages::{pin, reaction};
use crate::wire::{Method, Reply};

pub(in super::super) fn react(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::Add,
) -> Started {
    let reaction::Add {
        timeline,
        sequence,
        reaction,
        epoch,
    } = request;
    let wrap: fn(reaction::Reacted) -> Reply = Reply::ReactionAdd;
    reacting(
        shared,
        caller,
        (timeline, epoch),
        (sequence, reaction, true),
        wrap,
    )
}

pub(in super::super) fn take_back(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::Remove,
) -> Started {
    let reaction::Remove {
        timeline,
        sequence,
        reaction,
        epoch,
    } = request;
    let wrap: fn(reaction::Reacted) -> Reply = Reply::ReactionRemove;
    reacting(
        shared,
        caller,
        (timeline, epoch),
        (sequence, reaction, false),
        wrap,
    )
}

fn reacting(
    shared: &Arc<Shared>,
    caller: &Caller,
    (timeline, epoch): (String, Option<String>),
    (sequence, reaction, adds): (u64, String, bool),
    reply: fn(reaction::Reacted) -> Reply,
) -> Started {
    caller.user()?;
    let queued = shared.timelines.react(React {
        target: caller.target(
            match adds {
                true => Method::ReactionAdd,
                false => Method::ReactionRemove,
            },
            timeline,
            epoch,
        ),
        sequence,
        reaction,
        adds,
    });
    Ok(Work::Write(Box::pin(async move {
        let by_name = queued.await.map_err(refusal)?;
        Ok(reply(reaction::Reacted {
            reactions: Some(reactions(by_name)),
        }))
    })))
}

pub(in super::super) fn reactions_of(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: reaction::List,
) -> Work {
    let reaction::List {
        timeline,
        sequence,
        reaction,
        after,
        limit,
        epoch,
    } = request;
    let of = ReactionsOf {
        target: caller.target(Method::ReactionList, timeline, epoch),
        sequence,
        reaction,
        after,
        limit: size(limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let timelines = shared.timelines.clone();
    Work::Read(Box::pin(async move {
        let page = timelines.reactions(of).await.map_err(refusal)?;
        Ok(Reply::ReactionList(reaction::Listed {
            reactions: reactions(page.reactions),
            next: page.next,
        }))
    }))
}

pub(in super::super) fn pin(shared: &Arc<Shared>, caller: &Caller, request: pin::Add) -> Work {
    let pin::Add {
        timeline,
        sequence,
        epoch,
    } = request;
    let target = caller.target(Method::PinAdd, timeline, epoch);
    let queued = shared.timelines.pin(target, sequence, true);
    Work::Write(Box::pin(async move {
        let added = queued.await.map_err(refusal)?;
        Ok(Reply::PinAdd(pin::Added { added }))
    }))
}

pub(in super::super) fn unpin(shared: &Arc<Shared>, caller: &Caller, request: pin::Remove) -> Work {
    let pin::Remove {
        timeline,
        sequence,
        epoch,
    } = request;
    let target = caller.target(Method::PinRemove, timeline, epoch);
    let queued = shared.timelines.pin(target, sequence, false);
    Work::Write(Box::pin(async move {
        let removed = queued.await.map_err(refusal)?;
        Ok(Reply::PinRemove(pin::Removed { removed }))
    }))
}

pub(in super::super) fn pinned(shared: &Arc<Shared>, caller: &Caller, request: pin::List) -> Work {
    let pin::List {
        timeline,
        after,
        limit,
        epoch,
    } = request;
    let pinned = Pinned {
        target: caller.target(Method::PinList, timeline, epoch),
        after: after.unwrap_or(0),
        limit: size(limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let (timelines, integers) = (shared.timelines.clone(), caller.integers);
    Work::Read(Box::pin(async move {
        let (messages, next) = timelines.pinned(pinned).await.map_err(refusal)?;
        Ok(Reply::PinList(pin::Listed {
            messages: shape::messages(messages, integers),
            next,
        }))
    }))
}
