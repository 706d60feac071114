//! Messages that grow: `message.extend`, `message.finish`, `message.stop`.
//!
//! Owns: the calls behind these methods. Promises: each is queued when its function returns. Must not: check what the
//! wire has checked.

use std::sync::Arc;

use super::super::shape::entry_limits;
use super::super::{Caller, Shared, Work};
use tideline_timelines::timeline::{Extend, Finish};
use tideline_wire::messages::{grow, message};
use tideline_wire::{Method, Reply};

pub(in super::super) fn extend(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: grow::Extend,
) -> Work {
    let target = caller.target(Method::MessageExtend, request.timeline, request.epoch);
    let queued = shared.timelines.extend(Extend {
        target,
        sequence: request.sequence,
        part: request.part,
        text: request.text,
        limits: entry_limits(&shared.options.limits),
    });
    Work::write(queued, |extended| {
        Reply::MessageExtend(grow::Extended {
            parts: extended.parts,
            duplicate: extended.duplicate,
        })
    })
}

pub(in super::super) fn finish(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: grow::Finish,
) -> Work {
    let target = caller.target(Method::MessageFinish, request.timeline, request.epoch);
    let queued = shared.timelines.finish(Finish {
        target,
        sequence: request.sequence,
        parts: request.parts,
        outcome: request.outcome,
        set: request.set.put,
        remove: request.remove,
        limits: entry_limits(&shared.options.limits),
    });
    Work::write(queued, |finished| {
        Reply::MessageFinish(Box::new(grow::Finished {
            message: finished.message,
            duplicate: finished.duplicate,
        }))
    })
}

pub(in super::super) fn stop(shared: &Arc<Shared>, caller: &Caller, request: grow::Stop) -> Work {
    let target = caller.target(Method::MessageStop, request.timeline, request.epoch);
    let queued = shared
        .timelines
        .stop(target, request.sequence, request.reason);
    Work::write(queued, |message| {
        Reply::MessageStop(Box::new(message::Got { message }))
    })
}
