//! `subscribe`: watch, read, then follow.
//!
//! Owns: the way from a subscribe request to a live cursor. Promises: the watch stands before the store is read, so
//! that between the reply and the first push nothing is missed and nothing comes twice. Must not: send anything; the
//! session does.

use std::sync::Arc;

use super::shape::{self, page_bytes, size};
use super::{Shared, refusal};
use crate::feed::{Subscription, Watch};
use crate::metrics;
use crate::timeline::{Changed, Error, Resume, ResumeState};
use crate::wire::{Failure, Reply, sync};

/// Reads where the subscriber stands. With `Ok` the subscription is there unless the state says that it is not.
pub(in crate::gateway) async fn subscribe(
    shared: Arc<Shared>,
    request: sync::Subscribe,
    watch: Watch,
) -> Result<(Reply, Option<Subscription>), Failure> {
    let sync::Subscribe {
        timeline,
        after,
        rewind,
        epoch,
        changes_after,
        limit,
        create,
    } = request;
    let resume = Resume {
        timeline,
        after,
        rewind,
        epoch,
        changes_after,
        limit: size(limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let cursor = watch.cursor();
    let resumed = match shared.timelines.resume(resume.clone()).await {
        Err(Error::TimelineNotFound) if create => {
            let queued = shared.timelines.create(resume.timeline.clone(), None, None);
            queued.await.map_err(refusal)?;
            shared.timelines.resume(resume.clone()).await
        }
        resumed => resumed,
    };
    let changed = resumed.map_err(refusal)?;
    let state = match changed.state {
        ResumeState::Ok => "ok",
        ResumeState::TooOld => "too_old",
        ResumeState::EpochChanged => "epoch_changed",
    };
    metrics::resumes().of(&[state]).increment(1);
    metrics::pages().subscribe.count(changed.messages.len());
    let subscription = (changed.state != ResumeState::EpochChanged)
        .then(|| shared.feed.subscription(watch, cursor.resumed(&changed)));
    Ok((reply(resume.timeline, changed), subscription))
}

fn reply(timeline: String, changed: Changed) -> Reply {
    Reply::Subscribe(Box::new(sync::Subscribed {
        timeline,
        change_head: shape::change_head(&changed),
        epoch: changed.head.epoch,
        floor: changed.head.floor,
        head: changed.head.head,
        messages: shape::messages(changed.messages),
        changed: changed.changed.map(shape::messages),
        more: changed.more,
        state: shape::resume_state(changed.state),
    }))
}
