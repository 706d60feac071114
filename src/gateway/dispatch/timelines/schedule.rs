//! The schedule family: list, cancel.
//!
//! Owns: the calls behind these methods. Promises: a caller meets only what the same sender has scheduled: its
//! user, else its key. Must not: check what the wire has checked.

use std::sync::Arc;

use super::super::shape::{self, page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use tideline_timelines::timeline::ListScheduled;
use tideline_wire::messages::schedule;
use tideline_wire::{Method, Reply};

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: schedule::List,
) -> Work {
    let list = ListScheduled {
        timeline: request.timeline,
        asker: caller.asking(Method::ScheduleList),
        after: request.after,
        limit: size(request.limit),
        bytes_max: page_bytes(&shared.options.limits),
        epoch: request.epoch,
    };
    let timelines = shared.timelines.clone();
    Work::Read(Box::pin(async move {
        let (found, is_cut) = timelines.scheduled(list).await.map_err(refusal)?;
        let last = found.last().map(|last| last.message_id.clone());
        Ok(Reply::ScheduleList(schedule::Listed {
            scheduled: found.into_iter().map(shape::scheduled).collect(),
            next: last.filter(|_| is_cut),
        }))
    }))
}

pub(in super::super) fn cancel(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: schedule::Cancel,
) -> Work {
    let target = caller.target(Method::ScheduleCancel, request.timeline, request.epoch);
    let queued = shared
        .timelines
        .cancel_scheduled(target, &request.scheduled);
    Work::write(queued, |_| Reply::ScheduleCancel(schedule::Cancelled {}))
}
