//! The message family: append, append_batch, get, range, update, delete, recall.
//!
//! Owns: the calls behind these methods. Promises: an append is ready to be queued when its function returns, alone or
//! with others; every other write is queued by then. Must not: check what the wire has checked.

use std::sync::Arc;

use super::super::shape;
use super::super::shape::{entry_limits, page_bytes, size};
use super::super::{Caller, Outcome, Shared, Work, refusal};
use crate::timeline::{Append, AppendOne, Appended, Error, Prepared, Range, UpdateMessage};
use crate::wire;
use crate::wire::messages::message;
use crate::wire::{Method, Reply};

/// An append, ready to be queued, and how it is answered.
pub(in crate::gateway) struct Appending {
    pub(in crate::gateway) prepared: Prepared,
    pub(in crate::gateway) asked: Asked,
}

/// Which of the two methods it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Asked {
    One,
    Batch,
}

impl Appending {
    /// Queues it by itself.
    pub(in super::super) fn alone(self, shared: &Shared) -> Work {
        let Appending { prepared, asked } = self;
        let queued = shared.timelines.append_all(vec![prepared]);
        Work::Write(Box::pin(async move {
            let answer = queued.await.pop().ok_or_else(shape::missing)?;
            asked.outcome(answer)
        }))
    }
}

impl Asked {
    /// The method.
    pub(in crate::gateway) fn method(self) -> Method {
        match self {
            Asked::One => Method::MessageAppend,
            Asked::Batch => Method::MessageAppendBatch,
        }
    }

    /// The reply or refusal that an answer of the timelines comes to.
    pub(in crate::gateway) fn outcome(self, answer: Answer) -> Outcome {
        match self {
            Asked::One => one(answer),
            Asked::Batch => batch(answer),
        }
    }
}

/// What the timelines answer to one append.
pub(in crate::gateway) type Answer = Result<(Vec<Appended>, String), Error>;

fn one(answer: Answer) -> Outcome {
    let (appended, epoch) = answer.map_err(|error| one_of_one(refusal(error)))?;
    let Appended {
        sequence,
        timestamp,
        message_id,
        duplicate,
        scheduled,
    } = appended.into_iter().next().ok_or_else(shape::missing)?;
    let outcome = match scheduled {
        None => message::AppendOutcome::Appended(message::Appended {
            sequence,
            timestamp,
            message_id,
            epoch,
            duplicate,
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
        })
        .collect();
    Ok(Reply::MessageAppendBatch(message::AppendedBatch {
        messages,
        epoch,
    }))
}

pub(in crate::gateway) fn append(
    shared: &Shared,
    caller: &Caller,
    request: message::Append,
) -> Appending {
    let message::Append {
        timeline,
        entry,
        message_id,
        expect_head,
        expires_in_ms,
        deliver_at,
        create,
        epoch,
    } = request;
    let prepared = shared.timelines.prepare(Append {
        timeline,
        asker: caller.asking(Method::MessageAppend),
        messages: vec![AppendOne {
            entry: entry.columns.into_owned(),
            message_id,
            expires_in_ms,
            deliver_at,
        }],
        expect_head,
        create,
        epoch,
    });
    Appending {
        prepared,
        asked: Asked::One,
    }
}

pub(in crate::gateway) fn append_all(
    shared: &Shared,
    caller: &Caller,
    request: message::AppendBatch,
) -> Appending {
    let message::AppendBatch {
        timeline,
        messages,
        expect_head,
        create,
        epoch,
    } = request;
    let messages = messages
        .into_iter()
        .map(|one| AppendOne {
            entry: one.entry.columns.into_owned(),
            message_id: one.message_id,
            expires_in_ms: one.expires_in_ms,
            deliver_at: None,
        })
        .collect();
    let prepared = shared.timelines.prepare(Append {
        timeline,
        asker: caller.asking(Method::MessageAppendBatch),
        messages,
        expect_head,
        create,
        epoch,
    });
    Appending {
        prepared,
        asked: Asked::Batch,
    }
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: message::Get) -> Work {
    let (timelines, integers) = (shared.timelines.clone(), caller.integers);
    let message::Get {
        timeline,
        sequence,
        epoch,
    } = request;
    let target = caller.target(Method::MessageGet, timeline, epoch);
    Work::Read(Box::pin(async move {
        let read = timelines.get_message(target, sequence).await;
        let message = read.map_err(refusal)?;
        Ok(Reply::MessageGet(Box::new(message::Got {
            message: shape::message(message, integers),
        })))
    }))
}

pub(in super::super) fn range(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Range,
) -> Work {
    let (shared, integers) = (Arc::clone(shared), caller.integers);
    let asker = caller.asking(Method::MessageRange);
    Work::Read(Box::pin(async move {
        let message::Range {
            timeline,
            from,
            to,
            limit,
            direction,
            columns,
            epoch,
        } = request;
        let page = shared
            .timelines
            .range(Range {
                asker,
                timeline,
                from,
                to,
                limit: size(limit),
                bytes_max: page_bytes(&shared.options.limits),
                backward: direction == message::Direction::Backward,
                columns,
                epoch,
            })
            .await
            .map_err(refusal)?;
        shared.metrics.pages.range.count(page.messages.len());
        Ok(Reply::MessageRange(message::Page {
            messages: shape::messages(page.messages, integers),
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
    let integers = caller.integers;
    let message::Update {
        timeline,
        sequence,
        set,
        remove,
        expect_change,
        epoch,
    } = request;
    let queued = shared.timelines.update_message(UpdateMessage {
        asker: caller.asking(Method::MessageUpdate),
        timeline,
        sequence,
        set: set.put,
        remove,
        expect_change,
        epoch,
        limits: entry_limits(&shared.options.limits),
    });
    Work::Write(Box::pin(async move {
        let message = queued.await.map_err(refusal)?;
        Ok(Reply::MessageUpdate(Box::new(message::Got {
            message: shape::message(message, integers),
        })))
    }))
}

pub(in super::super) fn delete(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Delete,
) -> Work {
    let message::Delete {
        timeline,
        sequence,
        epoch,
    } = request;
    let target = caller.target(Method::MessageDelete, timeline, epoch);
    let queued = shared.timelines.delete_message(target, sequence);
    Work::Write(Box::pin(async move {
        let deleted = queued.await.map_err(refusal)?;
        Ok(Reply::MessageDelete(message::Deleted { deleted }))
    }))
}

pub(in super::super) fn recall(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: message::Recall,
) -> Work {
    let message::Recall {
        timeline,
        sequence,
        reason,
        epoch,
    } = request;
    let target = caller.target(Method::MessageRecall, timeline, epoch);
    let reason = reason.unwrap_or_default();
    let queued = shared.timelines.recall_message(target, sequence, reason);
    Work::Write(Box::pin(async move {
        let deleted = queued.await.map_err(refusal)?;
        Ok(Reply::MessageRecall(message::Deleted { deleted }))
    }))
}
