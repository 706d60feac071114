//! What members have read, cleared and hidden: `read.set`, `receipt.list`, `conversation.clear`, `message.hide`,
//! `message.hidden`.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape::size;
use super::super::{Caller, Shared, Started, Work, refusal};
use crate::timeline::{Error, ReadMark, Target};
use crate::wire::messages::hide;
use crate::wire::people::receipt;
use crate::wire::people::receipt::{ReadPosition, ReadState};
use crate::wire::{Failure, Method, Reply};

pub(in super::super) fn set(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: receipt::ReadSet,
) -> Started {
    let receipt::ReadSet {
        timeline,
        read,
        received,
        epoch,
        mut positions,
        force,
    } = request;
    caller.user()?;
    let alone = timeline.map(|timeline| {
        let position = ReadPosition {
            read,
            received,
            epoch,
        };
        (timeline, position)
    });
    positions.extend(alone);
    let mark = |(timeline, position): (String, ReadPosition)| ReadMark {
        target: caller.target(Method::ReadSet, timeline, position.epoch),
        read: position.read,
        received: position.received,
        force,
    };
    let marks: Vec<_> = positions.into_iter().map(mark).collect();
    let queued = shared.timelines.set_read(marks);
    Ok(Work::Write(Box::pin(async move {
        let state = |state: Result<crate::timeline::ReadState, Error>| match state {
            Ok(state) => ReadState::Set {
                read: state.read,
                received: state.received,
                unread: state.unread.unread,
            },
            Err(error) => ReadState::Refused {
                reason: refusal(error).reason,
            },
        };
        let answers = queued.await.into_iter();
        let timelines = answers
            .map(|(timeline, answer)| (timeline, state(answer)))
            .collect();
        Ok(Reply::ReadSet(receipt::ReadStates { timelines }))
    })))
}

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: receipt::List,
) -> Work {
    let receipt::List {
        timeline,
        sequence,
        after,
        limit,
        epoch,
    } = request;
    let (timelines, target) = (
        shared.timelines.clone(),
        caller.target(Method::ReceiptList, timeline, epoch),
    );
    Work::Read(Box::pin(async move {
        let read = timelines.receipts(target, sequence, after, size(limit));
        let found = read.await.map_err(refusal)?;
        let receipt = |one: crate::timeline::Receipt| receipt::Receipt {
            user: one.user,
            read: one.read,
            received: one.received,
        };
        Ok(Reply::ReceiptList(receipt::Listed {
            read_count: found.read_count,
            received_count: found.received_count,
            members: found.members.into_iter().map(receipt).collect(),
            next: found.next,
        }))
    }))
}

pub(in super::super) fn clear(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Clear,
) -> Started {
    let hide::Clear {
        timeline,
        before,
        epoch,
    } = request;
    let target = mine(caller, Method::ConversationClear, timeline, epoch)?;
    let queued = shared.timelines.clear(target, before);
    Ok(Work::Write(Box::pin(async move {
        let cleared = queued.await.map_err(refusal)?;
        Ok(Reply::ConversationClear(hide::Cleared {
            cleared: cleared.cleared,
            unread: cleared.unread.unread,
        }))
    })))
}

pub(in super::super) fn hide(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Hide,
) -> Started {
    let hide::Hide {
        timeline,
        sequences,
        epoch,
    } = request;
    let target = mine(caller, Method::MessageHide, timeline, epoch)?;
    let queued = shared.timelines.hide(target, sequences);
    Ok(Work::Write(Box::pin(async move {
        let hidden = queued.await.map_err(refusal)?;
        Ok(Reply::MessageHide(hide::Hid { hidden }))
    })))
}

pub(in super::super) fn hidden(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Hidden,
) -> Started {
    let hide::Hidden {
        timeline,
        after,
        limit,
        epoch,
    } = request;
    let target = mine(caller, Method::MessageHidden, timeline, epoch)?;
    let timelines = shared.timelines.clone();
    Ok(Work::Read(Box::pin(async move {
        let read = timelines.hidden(target, after, size(limit));
        let hidden = read.await.map_err(refusal)?;
        Ok(Reply::MessageHidden(hide::HiddenPage {
            sequences: hidden.sequences,
            next: hidden.next,
        }))
    })))
}

/// What a call about the caller's own side of a timeline is about, or its refusal.
fn mine(
    caller: &Caller,
    method: Method,
    timeline: String,
    epoch: Option<String>,
) -> Result<Target, Failure> {
    caller.user()?;
    Ok(caller.target(method, timeline, epoch))
}
