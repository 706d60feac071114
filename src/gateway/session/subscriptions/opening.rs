//! Subscribing, to one timeline or to many.
//!
//! Owns: the way from a subscribe to its reply and, where that can't hold all, to `subscribed` pushes. Promises: each
//! timeline is watched before it is read, begins or is refused for itself, and is not pushed before its part of the
//! reply. Must not: hold a payload while the socket has no room.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::super::Session;
use super::super::answer::{Pending, Weight};
use super::Subscriptions;
use super::conversations;
use super::parts::{Opened, Opening, Part, Rest, Wanted};
use crate::access::Asker;
use crate::feed::Watch;
use crate::gateway::Shared;
use crate::gateway::dispatch::shape::page_bytes;
use crate::gateway::dispatch::subscribe::{Asked, Room, lanes, subscribe};
use crate::gateway::dispatch::wait::too_many;
use crate::gateway::dispatch::{Caller, Outcome};
use crate::gateway::form::Form;
use crate::gateway::outbox::Outbox;
use crate::wire::timelines::sync;
use crate::wire::timelines::sync::{Following, Start, SubscribedMany};
use crate::wire::{Actual, Failure, Method, Push, Reason, Reply};

impl Subscriptions {
    /// The caller's asker, as the one that all its subscriptions share.
    pub(in super::super) fn asker(&mut self, caller: &Caller) -> Arc<Asker> {
        let asker = caller.asking(Method::Subscribe);
        if *self.asker != asker {
            self.asker = Arc::new(asker);
        }
        Arc::clone(&self.asker)
    }

    /// A subscribe was answered.
    pub(in super::super) fn answered(&mut self, opened: Opened) {
        for (at, subscription) in opened.places {
            self.opened(at, subscription);
        }
        self.rests.extend(opened.rest);
    }

    /// Whether many timelines are still to be read and pushed.
    pub(in super::super) fn rests_wait(&self) -> bool {
        self.rests.len() >= RESTS_MAX
    }

    /// Timelines to be read now.
    pub(in super::super) fn next_rest(&mut self) -> Option<Box<Rest>> {
        self.rests.pop_front()
    }

    /// Timelines of a subscribe were read: pushes them, those that were not unsubscribed meanwhile.
    pub(in super::super) fn filled(
        &mut self,
        parts: Vec<Part>,
        rest: Option<Box<Rest>>,
        outbox: &mut Outbox,
        form: Form,
    ) {
        let is_wanted = |part: &Part| part.at.is_none_or(|at| self.is_current(at));
        let (parts, _): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_wanted);
        let mut many = SubscribedMany {
            more: rest.is_some(),
            ..SubscribedMany::default()
        };
        let mut places = Vec::new();
        for part in parts {
            many.timelines
                .extend(part.shown.map(|shown| (part.timeline, shown)));
            places.extend(part.at.map(|at| (at, part.subscription)));
        }
        if !many.more || !many.timelines.is_empty() {
            outbox.push(form.dialect.push(&Push::Subscribed(many)));
        }
        self.answered(Opened {
            places,
            rest,
            ..Opened::default()
        });
    }
}

impl Session {
    /// What waited for an answer may begin.
    pub(in super::super) fn answered(&mut self, mut opened: Opened) {
        self.channels_opened(std::mem::take(&mut opened.channels));
        for (number, reader) in opened.streams.drain(..) {
            self.streams.opened(number, reader);
        }
        self.subscriptions.answered(opened);
    }
}

/// Calls of a connection whose timelines are not all read; each has as many as a connection may subscribe.
const RESTS_MAX: usize = 4;

/// Begins a subscribe.
pub(in super::super) fn begin(
    shared: &Arc<Shared>,
    caller: &Caller,
    subscriptions: &mut Subscriptions,
    request: sync::Subscribe,
) -> (Pending, Weight) {
    let asked = Asked {
        asker: subscriptions.asker(caller),
        integers: caller.integers,
        limit: request.limit,
        create: request.create,
        with: lanes(&request.with),
    };
    if request.conversations.is_some() {
        let outcome = conversations::begin(shared, caller, subscriptions, &request);
        return (Pending::Now(Some(outcome)), Weight::Light);
    }
    let start = request.start();
    if let Some(timeline) = request.timeline {
        return one(shared, subscriptions, asked, &timeline, start);
    }
    if subscriptions.rests_wait() {
        let failure = Failure::new(Reason::RateLimited)
            .saying("many timelines of earlier subscribes are still to come on this connection");
        return (Pending::Now(Some(Err(failure))), Weight::Light);
    }
    let wanted = request.timelines.unwrap_or_default();
    let wanted = wanted.into_iter().map(|(timeline, start)| {
        let place = match place(shared, subscriptions, &timeline) {
            Ok((at, watch)) => Ok((at, watch, start)),
            Err(failure) => {
                // The call as a whole is no refusal, so its answer does not count this one.
                if let Some(limit) = failure.limit_name {
                    shared.metrics.refused(limit, 1);
                }
                Err(failure.reason)
            }
        };
        Wanted { timeline, place }
    });
    let rest = Box::new(Rest {
        shared: Arc::clone(shared),
        asked,
        wanted: wanted.collect::<Vec<_>>().into_iter(),
        is_quiet: false,
    });
    let work = async move {
        let (parts, rest) = rest.fill().await;
        let mut many = SubscribedMany {
            more: rest.is_some(),
            ..SubscribedMany::default()
        };
        let mut places = Vec::new();
        for part in parts {
            many.timelines
                .extend(part.shown.map(|shown| (part.timeline, shown)));
            places.extend(part.at.map(|at| (at, part.subscription)));
        }
        let reply = Reply::Subscribe(Following::Many(many));
        let opened = Opened {
            places,
            rest,
            ..Opened::default()
        };
        (Ok(reply), opened)
    };
    (Pending::Subscribing(work.boxed()), Weight::Page)
}

fn one(
    shared: &Arc<Shared>,
    subscriptions: &mut Subscriptions,
    asked: Asked,
    timeline: &str,
    start: Start,
) -> (Pending, Weight) {
    let (at, watch) = match place(shared, subscriptions, timeline) {
        Ok(place) => place,
        Err(failure) => return (Pending::Now(Some(Err(failure))), Weight::Light),
    };
    let shared = Arc::clone(shared);
    let work = async move {
        let room = Room {
            bytes: page_bytes(&shared.options.limits),
            first_anyway: true,
        };
        let subscribed = subscribe(&shared, &asked, start, watch, room).await;
        let (outcome, subscription): (Outcome, _) = match subscribed {
            Ok((subscribed, subscription)) => {
                let reply = Following::One(Box::new(subscribed));
                (Ok(Reply::Subscribe(reply)), subscription)
            }
            Err(failure) => (Err(failure), None),
        };
        let opened = Opened {
            places: vec![(at, subscription)],
            ..Opened::default()
        };
        (outcome, opened)
    };
    (Pending::Subscribing(work.boxed()), Weight::Page)
}

/// A place for a timeline. The watch comes first: what is committed from now on is either read or announced by it.
fn place(
    shared: &Shared,
    subscriptions: &mut Subscriptions,
    timeline: &str,
) -> Result<(Opening, Watch), Failure> {
    if subscriptions.contains(timeline) {
        return Err(Failure::new(Reason::AlreadySubscribed));
    }
    let limit = shared.options.limits.subscriptions_max;
    let count = subscriptions.named() as u64;
    if count >= limit {
        let name = "subscriptions_max";
        return Err(Failure::too_large("timeline", name, limit, count + 1));
    }
    if let Some(full) = subscriptions.share.full() {
        return Err(too_many(&subscriptions.share, full).about("timeline"));
    }
    Ok(subscriptions.open(&shared.feed, timeline))
}

/// Ends subscriptions.
pub(in super::super) fn end(
    subscriptions: &mut Subscriptions,
    request: sync::Unsubscribe,
) -> Outcome {
    let sync::Unsubscribe {
        timeline,
        timelines,
        conversations,
        epoch,
    } = request;
    if conversations.is_some() {
        subscriptions.unfollow_all();
    }
    for timeline in timeline.into_iter().chain(timelines.into_iter().flatten()) {
        if let Err(actual) = subscriptions.close(&timeline, epoch.as_deref()) {
            return Err(Failure::new(Reason::EpochChanged).actual(Actual::Text(actual)));
        }
    }
    Ok(Reply::Unsubscribe(sync::Unsubscribed {}))
}
