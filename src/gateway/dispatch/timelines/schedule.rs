//! The schedule family: list, cancel.
//!
//! Owns: the calls behind these methods. Promises: a caller meets only what the same sender has scheduled: its
//! user, else its key. Must not: check what the wire has checked.

use std::sync::Arc;

use super::super::shape;
use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use crate::timeline::ListScheduled;
use crate::wire::messages::schedule;
use crate::wire::{Method, Reply};

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: schedule::List,
) -> Work {
    let shared = Arc::clone(shared);
    let (asker, integers) = (caller.asking(Method::ScheduleList), caller.integers);
    Work::Read(Box::pin(async move {
        let schedule::List {
            timeline,
            after,
            limit,
            epoch,
        } = request;
        let (found, is_cut) = shared
            .timelines
            .scheduled(ListScheduled {
                timeline,
                asker,
                after,
                limit: size(limit),
                bytes_max: page_bytes(&shared.options.limits),
                epoch,
            })
            .await
            .map_err(refusal)?;
        let last = found.last().map(|last| last.message_id.clone());
        let shown = |one| shape::scheduled(one, integers);
        Ok(Reply::ScheduleList(schedule::Listed {
            scheduled: found.into_iter().map(shown).collect(),
            next: last.filter(|_| is_cut),
        }))
    }))
}

pub(in super::super) fn cancel(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: schedule::Cancel,
) -> Work {
    let schedule::Cancel {
        timeline,
        scheduled,
        epoch,
    } = request;
    let target = caller.target(Method::ScheduleCancel, timeline, epoch);
    let queued = shared.timelines.cancel_scheduled(target, &scheduled);
    Work::Write(Box::pin(async move {
        queued.await.map_err(refusal)?;
        Ok(Reply::ScheduleCancel(schedule::Cancelled {}))
    }))
}
