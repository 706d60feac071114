//! The message family: append, append_batch, get, range, update, delete, recall.
//!
//! Owns: the calls behind these methods. Promises: an append is ready to be queued when its function returns, alone or
//! with others; every other write is queued by then. Must not: check what the wire has checked.

use std::sync::Arc;

use super::super::shape::{self, entry_limits, page_bytes, size};
use super::super::{Caller, Outcome, Shared, Work, refusal};
use crate::spans::Span;
use tideline_timelines::timeline::{
    Append, AppendOne, Appended, Error, Prepared, Range, UpdateMessage,
};
use tideline_wire as wire;
use tideline_wire::messages::message;
use tideline_wire::{Method, Reply};

/// An append, ready to be queued, and how it is answered.
pub(crate) struct Appending {
    pub(crate) prepared: Prepared,
    pub asked: Asked,
    /// As which it is answered, if others are queued with it.
    pub(crate) span: Option<Box<Span>>,
}

/// Which of the two methods it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    One,
    Batch,
}

impl Appending {
    /// Queues it by itself.
    pub(in super::super) fn alone(self, shared: &Shared) -> Work {
        let Appending {
            prepared, asked, ..
        } = self;
        let queued = shared.timelines.append_all(vec![prepared]);
        Work::Write(Box::pin(async move {
            let answer = queued.await.pop().ok_or_else(shape::missing)?;
            asked.outcome(answer)
        }))
    }
}

impl Asked {
    /// The method.
    pub(crate) fn method(self) -> Method {
        match self {
            Asked::One => Method::MessageAppend,
            Asked::Batch => Method::MessageAppendBatch,
        }
    }

    /// The reply or refusal that an answer of the timelines comes to.
    pub(crate) fn outcome(self, answer: Answer) -> Outcome {
        match self {
            Asked::One => one(answer),
            Asked::Batch => batch(answer),
        }
    }
}

/// What the timelines answer to one append.
pub(crate) type Answer = Result<(Vec<Appended>, String), Error>;

fn one(answer: Answer) -> Outcome {
    let (appended, epoch) = answer.map_err(|error| one_of_one(refusal(error)))?;
    let Appended {
        sequence,
        timestamp,
        message_id,
        duplicate,
        scheduled,
        parts,
    } = appended.into_iter().next().ok_or_else(shape::missing)?;
    let outcome = match scheduled {
        None => message::AppendOutcome::Appended(message::Appended {
            sequence,
            timestamp,
            message_id,
            epoch,
            duplicate,
            parts,
        }),
        Some(deliver_at) => message::AppendOutcome::Scheduled(message::Scheduled {
            scheduled: message_id,
            deliver_at,
            duplicate,
        }),
    };
    Ok(Reply::MessageAppend(outcome))
}

/// A single append has no list that a field could point into.
fn one_of_one(mut failure: wire::Failure) -> wire::Failure {
    if failure.reason == wire::Reason::MessageIdConflict {
        failure.field = Some("message_id".to_owned());
    }
    failure
}

fn batch(answer: Answer) -> Outcome {
    let (appended, epoch) = answer.map_err(refusal)?;
    let messages = appended
        .into_iter()
        .map(|one| message::AppendedOne {
            sequence: one.sequence,
            timestamp: one.timestamp,
            message_id: one.message_id,
            duplicate: one.duplicate,
            parts: one.parts,
        })
        .collect();
    Ok(Reply::MessageAppendBatch(message::AppendedBatch {
        messages,
        epoch,
    }))
}

pub(crate) fn append(shared: &Shared, caller: &Caller, request: message::Append) -> Appending {
    let append = Append {
        timeline: request.timeline,
        asker: caller.asking(Method::MessageAppend),
        messages: vec![AppendOne {
            entry: request.entry.columns.into_owned(),
            message_id: request.message_id,
            expires_in_ms: request.expires_in_ms,
            deliver_at: request.deliver_at,
            open: request.open.and_then(|open| open.open()),
        }],
        expect_head: request.expect_head,
        create: request.create,
        epoch: request.epoch,
    };
    Appending {
        prepared: shared.timelines.prepare(append, caller.trace),
        asked: Asked::One,
        span: None,
    }
}

pub(crate) fn append_all(
    shared: &Shared,
    caller: &Caller,
    request: message::AppendBatch,
) -> Appending {
    let append = of_batch(caller, request);
    Appending {
        prepared: shared.timelines.prepare(append, caller.trace),
        asked: Asked::Batch,
        span: None,
    }
}

/// What a batch asks of the timelines.
pub(crate) fn of_batch(caller: &Caller, request: message::AppendBatch) -> Append {
    let one = |one: message::BatchMessage| AppendOne {
        entry: one.entry.columns.into_owned(),
        message_id: one.message_id,
        expires_in_ms: one.expires_in_ms,
        deliver_at: None,
        open: one.open.and_then(|open| open.open()),
    };
    Append {
        timeline: request.timeline,
        asker: caller.asking(Method::MessageAppendBatch),
        messages: request.messages.into_iter().map(one).collect(),
        expect_head: request.expect_head,
        create: request.create,
        epoch: request.epoch,
    }
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: message::Get) -> Work {
    let timelines = shared.timelines.clone();
    let target = caller.target(Method::MessageGet, request.timeline, request.epoch);
    Work::Read(Box::pin(async move {
        let read = timelines.get_message(target, request.sequence).await;
        let message = read.map_err(refusal)?;
        Ok(Reply::MessageGet(Box::new(message::Got { message })))
    }))
}

pub(in super::super) fn range(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Range,
) -> Work {
    let shared = Arc::clone(shared);
    let range = Range {
        asker: caller.asking(Method::MessageRange),
        timeline: request.timeline,
        from: request.from,
        to: request.to,
        limit: size(request.limit),
        bytes_max: page_bytes(&shared.options.limits),
        backward: request.direction == message::Direction::Backward,
        columns: request.columns,
        epoch: request.epoch,
    };
    Work::Read(Box::pin(async move {
        let page = shared.timelines.range(range).await.map_err(refusal)?;
        shared.metrics.pages.range.count(page.messages.len());
        Ok(Reply::MessageRange(message::Page {
            messages: page.messages,
            next: page.next,
            head: page.head.head,
            floor: page.head.floor,
            change_head: page.head.change_head,
            epoch: page.head.epoch,
        }))
    }))
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Update,
) -> Work {
    let queued = shared.timelines.update_message(UpdateMessage {
        asker: caller.asking(Method::MessageUpdate),
        timeline: request.timeline,
        sequence: request.sequence,
        set: request.set.put,
        remove: request.remove,
        expect_change: request.expect_change,
        epoch: request.epoch,
        limits: entry_limits(&shared.options.limits),
    });
    Work::write(queued, |message| {
        Reply::MessageUpdate(Box::new(message::Got { message }))
    })
}

pub(in super::super) fn delete(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Delete,
) -> Work {
    let target = caller.target(Method::MessageDelete, request.timeline, request.epoch);
    let queued = shared.timelines.delete_message(target, request.sequence);
    Work::write(queued, |deleted| {
        Reply::MessageDelete(message::Deleted { deleted })
    })
}

pub(in super::super) fn recall(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Recall,
) -> Work {
    let target = caller.target(Method::MessageRecall, request.timeline, request.epoch);
    let timelines = &shared.timelines;
    let queued = timelines.recall_message(target, request.sequence, request.reason);
    Work::write(queued, |deleted| {
        Reply::MessageRecall(message::Deleted { deleted })
    })
}
