//! `subscribe`: watch, read, then follow.
//!
//! Owns: the way from a subscribe request to a live cursor. Promises: the watch begins before the store is read, so
//! that between the reply and the first push nothing is missed and nothing comes twice. Must not: send anything; the
//! session does.

use std::sync::Arc;

use super::shape::{self, page_bytes, size};
use super::{BUSY_RETRY_MS, Shared, refusal};
use crate::feed::{Lane, Subscription, Watch, With};
use crate::timeline::{Changed, Error, Head, Resume, ResumeState, Target};
use crate::wire::{Failure, Integers, Reason, Reply, sync};

/// Reads from the subscriber's position. With `Ok` the subscription is there unless the state says that it is not.
pub(in crate::gateway) async fn subscribe(
    shared: Arc<Shared>,
    request: sync::Subscribe,
    watch: Watch,
    (user, integers): (String, Integers),
) -> Result<(Reply, Option<Subscription>), Failure> {
    let sync::Subscribe {
        timeline,
        after,
        rewind,
        epoch,
        changes_after,
        limit,
        create,
        with,
    } = request;
    let follower = Arc::from(user.as_str());
    let resume = Resume {
        user,
        timeline,
        after,
        rewind,
        epoch,
        changes_after,
        limit: size(limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    let cursor = watch.cursor();
    let changed = match shared.timelines.resume(resume.clone()).await {
        Err(Error::TimelineNotFound) if create => begin(&shared, &resume).await?,
        resumed => resumed.map_err(refusal)?,
    };
    let state = match changed.state {
        ResumeState::Ok => "ok",
        ResumeState::TooOld => "too_old",
        ResumeState::EpochChanged => "epoch_changed",
    };
    let metrics = &shared.metrics;
    metrics.families.resumes.of(&[state]).increment(1);
    metrics.pages.subscribe.count(changed.messages.len());
    let subscription = (changed.state != ResumeState::EpochChanged).then(|| {
        shared
            .feed
            .subscription(watch, follower, cursor.resumed(&changed), lanes(&with))
    });
    Ok((reply(resume.timeline, changed, integers), subscription))
}

/// What a subscription asks for besides messages.
fn lanes(with: &[sync::With]) -> With {
    with.iter().fold(With::default(), |lanes, one| {
        lanes.and(match one {
            sync::With::Signals => Lane::Signals,
            sync::With::Presence => Lane::Presence,
        })
    })
}

/// The position of a subscriber whose timeline is not there: in a new one, unless it names a history that is gone.
async fn begin(shared: &Shared, resume: &Resume) -> Result<Changed, Failure> {
    if !resume.is_from_nothing() {
        let nothing = Head {
            epoch: String::new(),
            head: 0,
            floor: 1,
            change_head: 0,
        };
        return Ok(empty(resume, nothing, ResumeState::EpochChanged));
    }
    for _ in 0..CREATIONS_MAX {
        let target = Target {
            timeline: resume.timeline.clone(),
            epoch: None,
            user: resume.user.clone(),
        };
        let queued = shared.timelines.create(target, None);
        let (made, is_new) = queued.await.map_err(refusal)?;
        if is_new {
            // Perhaps it is deleted by now. It was there, and the subscription ends as any other does.
            return Ok(empty(resume, made.head, ResumeState::Ok));
        }
        match shared.timelines.resume(resume.clone()).await {
            Err(Error::TimelineNotFound) => {}
            resumed => return resumed.map_err(refusal),
        }
    }
    Err(Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS))
}

/// Others may make a timeline and delete it again between two looks at it, but not so often.
const CREATIONS_MAX: usize = 16;

fn empty(resume: &Resume, head: Head, state: ResumeState) -> Changed {
    Changed {
        head,
        state,
        messages: Vec::new(),
        changed: resume
            .changes_after
            .filter(|_| state == ResumeState::Ok)
            .map(|_| Vec::new()),
        position: 0,
        change_position: 0,
        more: false,
    }
}

fn reply(timeline: String, changed: Changed, integers: Integers) -> Reply {
    Reply::Subscribe(Box::new(sync::Subscribed {
        timeline,
        change_head: shape::change_head(&changed),
        epoch: changed.head.epoch,
        floor: changed.head.floor,
        head: changed.head.head,
        messages: shape::messages(changed.messages, integers),
        changed: changed
            .changed
            .map(|changed| shape::messages(changed, integers)),
        more: changed.more,
        state: shape::resume_state(changed.state),
    }))
}
