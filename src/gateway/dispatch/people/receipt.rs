//! What members have read, cleared and hidden: `read.set`, `receipt.list`, `conversation.clear`, `message.hide`,
//! `message.hidden`.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape::size;
use super::super::{Caller, Shared, Started, Work, refusal};
use tideline_timelines::timeline::{Error, ReadMark, Target};
use tideline_wire::messages::hide;
use tideline_wire::people::receipt::{self, ReadPosition, ReadState};
use tideline_wire::{Failure, Method, Reply};

pub(in super::super) fn set(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: receipt::ReadSet,
) -> Started {
    caller.user()?;
    let (mut positions, force) = (request.positions, request.force);
    let alone = ReadPosition {
        read: request.read,
        received: request.received,
        epoch: request.epoch,
    };
    positions.extend(request.timeline.map(|timeline| (timeline, alone)));
    let mark = |(timeline, position): (String, ReadPosition)| ReadMark {
        target: caller.target(Method::ReadSet, timeline, position.epoch),
        read: position.read,
        received: position.received,
        force,
    };
    let marks: Vec<_> = positions.into_iter().map(mark).collect();
    let queued = shared.timelines.set_read(marks);
    let (people, changes) = (shared.people.clone(), Arc::clone(&caller.member_changes));
    Ok(Work::Write(Box::pin(async move {
        let state = |state: Result<tideline_timelines::timeline::ReadState, Error>| match state {
            Ok(state) => ReadState::Set {
                read: state.read,
                received: state.received,
                unread: state.unread.unread,
            },
            Err(error) => ReadState::Refused {
                reason: refusal(error).reason,
            },
        };
        let answers = queued.await;
        // A list looks only at conversations whose head is above the read position that the relay has brought.
        if force {
            for (timeline, _) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
                changes.note(people.end_of(timeline));
            }
        }
        let timelines = answers
            .into_iter()
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
    let timelines = shared.timelines.clone();
    let target = caller.target(Method::ReceiptList, request.timeline, request.epoch);
    Work::Read(Box::pin(async move {
        let (sequence, limit) = (request.sequence, size(request.limit));
        let found = timelines.receipts(target, sequence, request.after, limit);
        found.await.map(Reply::ReceiptList).map_err(refusal)
    }))
}

pub(in super::super) fn clear(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Clear,
) -> Started {
    let method = Method::ConversationClear;
    let target = mine(caller, method, request.timeline, request.epoch)?;
    let queued = shared.timelines.clear(target, request.before);
    Ok(Work::write(queued, |cleared| {
        Reply::ConversationClear(hide::Cleared {
            cleared: cleared.cleared,
            unread: cleared.unread.unread,
        })
    }))
}

pub(in super::super) fn hide(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Hide,
) -> Started {
    let target = mine(caller, Method::MessageHide, request.timeline, request.epoch)?;
    let queued = shared.timelines.hide(target, request.sequences);
    Ok(Work::write(queued, |hidden| {
        Reply::MessageHide(hide::Hid { hidden })
    }))
}

pub(in super::super) fn hidden(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: hide::Hidden,
) -> Started {
    let target = mine(
        caller,
        Method::MessageHidden,
        request.timeline,
        request.epoch,
    )?;
    let timelines = shared.timelines.clone();
    Ok(Work::Read(Box::pin(async move {
        let hidden = timelines.hidden(target, request.after, size(request.limit));
        hidden.await.map(Reply::MessageHidden).map_err(refusal)
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
