//! `subscribe`: watch, read, then follow.
//!
//! Owns: the way from a subscribe request to a live cursor. Promises: the watch begins before the store is read, so
//! that between the reply and the first push nothing is missed and nothing comes twice. Must not: send anything; the
//! session does.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::shape::{self, size};
use super::{BUSY_RETRY_MS, Shared, refusal};
use tideline_model::access::Asker;
use tideline_timelines::feed::{Cursor, Lane, Subscription, Watch, With};
use tideline_timelines::timeline::{
    Admission, Changed, Create, Error, Head, Resume, ResumeState, Target, Timelines,
};
use tideline_wire::timelines::sync;
use tideline_wire::{Failure, Reason};

/// What all subscriptions of one call have in common.
#[derive(Clone)]
pub(in super::super) struct Asked {
    /// Whose they are.
    pub(in super::super) asker: Arc<Asker>,
    /// Messages of a timeline in the reply.
    pub(in super::super) limit: u64,
    /// Make timelines that are not there, unless they are the server's own, which may only be read.
    pub(in super::super) create: bool,
    /// What they ask for besides messages.
    pub(in super::super) with: With,
    /// How long parts may gather for them.
    pub(in super::super) window_ms: u64,
}

impl Asked {
    /// A watch that is woken by what is asked for.
    fn watching(&self, mut watch: Watch) -> Watch {
        if self.with.has(Lane::Parts) {
            watch.ask_parts(self.window_ms);
        }
        watch
    }
}

/// Messages of a conversation in which a device has no position, if the client does not say.
pub(in super::super) const REWIND: u64 = 20;

/// Room for one timeline's part of a reply.
#[derive(Clone, Copy)]
pub(in super::super) struct Room {
    pub(in super::super) bytes: usize,
    /// It may be passed by one message.
    pub(in super::super) first_anyway: bool,
}

/// A subscription that begins without a look at the store, if the head in memory says that there is nothing to tell.
pub(in super::super) async fn quietly(
    shared: &Shared,
    asked: &Asked,
    start: &sync::Start,
    watch: Watch,
) -> Result<Subscription, Watch> {
    if asked.with.asks_membership() || !start.open.is_empty() {
        return Err(watch);
    }
    let watch = asked.watching(watch);
    let timelines = &shared.timelines;
    let cursor = watch.cursor();
    let Ok(Some((head, admission))) = known(shared, watch.timeline(), &asked.asker).await else {
        return Err(watch);
    };
    // Behind the head: what opens later is pushed.
    if asked.with.has(Lane::Parts) && timelines.grows(watch.timeline()).await.unwrap_or(true) {
        return Err(watch);
    }
    let is_quiet = match (start.after, start.rewind) {
        (Some(after), _) => {
            after == head.head
                && start
                    .epoch
                    .as_ref()
                    .is_none_or(|epoch| *epoch == head.epoch)
                && start
                    .changes_after
                    .is_none_or(|after| after >= head.change_head)
        }
        (None, Some(rewind)) => head.head == 0 || rewind == 0,
        (None, None) => true,
    };
    match is_quiet {
        true => Ok(at_the_end(shared, asked, watch, cursor, (head, admission))),
        false => Err(watch),
    }
}

/// Follows a timeline from its end on.
fn at_the_end(
    shared: &Shared,
    asked: &Asked,
    watch: Watch,
    cursor: Cursor,
    (head, admission): (Head, Admission),
) -> Subscription {
    let nothing = Changed {
        state: ResumeState::Ok,
        messages: Vec::new(),
        changed: None,
        grown: Vec::new(),
        open: Vec::new(),
        position: head.head,
        change_position: head.change_head,
        more: false,
        admission,
        head,
    };
    let (asker, cursor) = (Arc::clone(&asked.asker), cursor.resumed(&nothing));
    let feed = &shared.feed;
    feed.subscription(watch, asker, cursor, asked.with, None)
}

/// A subscription that makes its timeline, and begins when that is decided, before it is on disk. If the making is
/// lost, the client was sent nothing wrong: the timeline was empty, and one that is made later has another
/// epoch, which ends the subscription. `Err` = the timeline exists, or must not be made.
pub(in super::super) async fn making(
    shared: &Shared,
    asked: &Asked,
    watch: Watch,
) -> Result<Subscription, Watch> {
    if !makes(asked, watch.timeline()) || asked.with.asks_membership() {
        return Err(watch);
    }
    let watch = asked.watching(watch);
    let cursor = watch.cursor();
    let target = Target {
        timeline: watch.timeline().as_ref().to_owned(),
        epoch: None,
        asker: Asker::clone(&asked.asker),
    };
    let create = Create {
        implicit: true,
        ..target.into()
    };
    let (tell, decided) = oneshot::channel();
    let told = move |head: &Head| drop(tell.send(head.clone()));
    // Queued by now. Nobody waits until it is on disk.
    drop(shared.timelines.create_telling(create, told));
    let Ok(head) = decided.await else {
        return Err(watch);
    };
    shared.metrics.families.resumes.of(&["ok"]).increment(1);
    let head = (head, Admission::default());
    Ok(at_the_end(shared, asked, watch, cursor, head))
}

/// Whether a subscribe makes this timeline if it is not there.
fn makes(asked: &Asked, timeline: &str) -> bool {
    let user = asked.asker.user();
    let is_own_inbox = || !user.is_empty() && *timeline == *Timelines::inbox_of(user);
    asked.create && (!timeline.starts_with('$') || is_own_inbox())
}

/// The head in memory, and as what a user is let in: a look at their row only, and only where not all users are alike.
async fn known(
    shared: &Shared,
    timeline: &str,
    asker: &Asker,
) -> Result<Option<(Head, Admission)>, Error> {
    let timelines = &shared.timelines;
    if let Some(head) = timelines.open_head(timeline, asker).await? {
        return Ok(Some((head, Admission::default())));
    }
    let Some(head) = timelines.head(timeline).await? else {
        return Ok(None);
    };
    let target = Target {
        timeline: timeline.to_owned(),
        epoch: Some(head.epoch.clone()),
        asker: asker.clone(),
    };
    let admission = timelines.admission(target).await?;
    Ok(Some((head, admission)))
}

/// Reads from the subscriber's position. With `Ok` the subscription is there unless the state says that it is not.
pub(in super::super) async fn subscribe(
    shared: &Shared,
    asked: &Asked,
    start: sync::Start,
    watch: Watch,
    room: Room,
) -> Result<(sync::Subscribed, Option<Subscription>), Failure> {
    let watch = asked.watching(watch);
    let timeline = watch.timeline();
    let create = makes(asked, timeline);
    let resume = Resume {
        asker: Asker::clone(&asked.asker),
        timeline: timeline.as_ref().to_owned(),
        after: start.after,
        rewind: start.rewind,
        epoch: start.epoch,
        changes_after: start.changes_after,
        open: start.open.places(),
        parts: asked.with.has(Lane::Parts),
        limit: size(asked.limit),
        bytes_max: room.bytes,
    };
    let cursor = watch.cursor();
    let resumed = shared
        .timelines
        .resume_into(resume.clone(), room.first_anyway);
    let changed = match resumed.await {
        Err(Error::TimelineNotFound) if create => begin(shared, &resume).await?,
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
    let mut standing = None;
    if asked.with.asks_membership() {
        let target = Target {
            timeline: resume.timeline.clone(),
            epoch: None,
            asker: resume.asker.clone(),
        };
        standing = match shared.timelines.members_standing(target).await {
            // Deleted meanwhile, so that the subscription ends as any other does.
            Err(Error::TimelineNotFound) => None,
            looked => Some(looked.map_err(refusal)?),
        };
    }
    let subscription = (changed.state != ResumeState::EpochChanged).then(|| {
        let asker = Arc::clone(&asked.asker);
        let cursor = cursor.resumed(&changed);
        let feed = &shared.feed;
        let mut subscription = feed.subscription(watch, asker, cursor, asked.with, standing);
        // All that the reply shows is shown whole.
        subscription.told(&changed, u64::MAX);
        subscription
    });
    Ok((shown(resume.timeline, changed), subscription))
}

/// The position of a subscriber whose timeline does not exist: in a new one, unless the subscriber names a history by
/// its epoch or by a position in it. Then nothing is made, because that history is gone.
async fn begin(shared: &Shared, resume: &Resume) -> Result<Changed, Failure> {
    for _ in 0..CREATIONS_MAX {
        let target = Target {
            timeline: resume.timeline.clone(),
            epoch: (!resume.is_from_nothing()).then(|| resume.epoch.clone().unwrap_or_default()),
            asker: resume.asker.clone(),
        };
        let queued = shared.timelines.create(Create {
            implicit: true,
            ..target.into()
        });
        let (info, made) = match queued.await {
            Err(Error::EpochChanged { actual }) => {
                let nothing = Head {
                    epoch: actual,
                    head: 0,
                    floor: 1,
                    change_head: 0,
                };
                return Ok(empty(resume, nothing, ResumeState::EpochChanged));
            }
            made => made.map_err(refusal)?,
        };
        if made.created {
            // Perhaps it is deleted by now. It was there, and the subscription ends as any other does.
            return Ok(empty(resume, info.head(), ResumeState::Ok));
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
        grown: Vec::new(),
        open: Vec::new(),
        position: 0,
        change_position: 0,
        more: false,
        admission: Admission::default(),
    }
}

fn shown(timeline: String, changed: Changed) -> sync::Subscribed {
    sync::Subscribed {
        timeline,
        change_head: shape::change_head(&changed),
        epoch: changed.head.epoch,
        floor: changed.head.floor,
        head: changed.head.head,
        messages: changed.messages,
        changed: changed.changed,
        grown: changed.grown,
        more: changed.more,
        state: changed.state.into(),
    }
}
