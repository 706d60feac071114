//! Subscribing, to one timeline or to many.
//!
//! Owns: the way from a subscribe to its reply and, where that can't hold all, to `subscribed` pushes. Promises: each
//! timeline is watched before it is read, begins or is refused for itself, and is not pushed before its part of the
//! reply. Must not: hold a payload while the socket has no room.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::Session;
use super::super::answer::{Pending, Weight};
use super::super::jobs::Done;
use super::Subscriptions;
use super::conversations;
use super::parts::{Filled, Opened, Opening, Rest, Wanted};
use crate::Shared;
use crate::dispatch::shape::page_bytes;
use crate::dispatch::subscribe::{Asked, Room, subscribe};
use crate::dispatch::wait::too_many;
use crate::dispatch::{Caller, Outcome};
use crate::form::Form;
use crate::outbox::Outbox;
use tideline_timelines::feed::Watch;
use tideline_wire::timelines::sync;
use tideline_wire::timelines::sync::{Following, Start, SubscribedMany};
use tideline_wire::{Actual, Failure, Method, Push, Reason, Reply};

impl Subscriptions {
    /// What a subscribe asks for, with the caller's asker as the one that all its subscriptions share.
    pub(super) fn asked(&mut self, caller: &Caller, request: &sync::Subscribe) -> Asked {
        let asker = caller.asking(Method::Subscribe);
        if *self.asker != asker {
            self.asker = Arc::new(asker);
        }
        Asked {
            asker: Arc::clone(&self.asker),
            limit: request.limit,
            create: request.create,
            with: request.with.iter().copied().collect(),
            window_ms: request.window_ms.unwrap_or(0),
        }
    }

    /// Whether many timelines are still to be read and pushed.
    pub(in super::super) fn rests_wait(&self) -> bool {
        self.rests.len() >= RESTS_MAX
    }

    /// Timelines to be read now.
    pub(super) fn next_rest(&mut self) -> Option<BoxFuture<'static, Done>> {
        let rest = self.rests.pop_front()?;
        Some(rest.fill().map(Done::Filled).boxed())
    }

    /// Timelines of a subscribe were read: pushes them, those that were not unsubscribed meanwhile.
    pub(in super::super) fn filled(
        &mut self,
        (mut parts, rest): Filled,
        outbox: &mut Outbox,
        form: Form,
    ) -> Vec<Opened> {
        parts.retain(|part| part.at.is_none_or(|at| self.get(at).is_some()));
        let events = self.events.as_mut();
        let goes_on = events.is_none_or(|events| events.began(&parts, rest.is_none(), outbox));
        let (many, opened) = one_frame((parts, rest));
        if !goes_on {
            return opened;
        }
        // A stream has said an ID, which may be of timelines that have nothing to tell.
        if self.events.is_some() || !many.more || !many.timelines.is_empty() {
            outbox.push(form.push(&Push::Subscribed(many)));
        }
        opened
    }
}

/// What the client gets of timelines that were read, and what may begin then.
fn one_frame((parts, rest): Filled) -> (SubscribedMany, Vec<Opened>) {
    let mut many = SubscribedMany {
        more: rest.is_some(),
        ..SubscribedMany::default()
    };
    let mut opened: Vec<_> = rest.into_iter().map(Opened::Rest).collect();
    for part in parts {
        let shown = part.shown.map(|shown| (part.timeline, shown));
        many.timelines.extend(shown);
        let place = part.at.map(|at| Opened::Place(at, part.subscription));
        opened.extend(place);
    }
    (many, opened)
}

impl Session {
    /// What waited for an answer may begin.
    pub(in super::super) fn answered(&mut self, opened: Vec<Opened>) {
        for one in opened {
            match one {
                Opened::Place(at, subscription) => self.subscriptions.opened(at, subscription),
                Opened::Rest(rest) => self.subscriptions.rests.push_back(rest),
                Opened::Stream(number, reader) => self.streams.opened(number, reader),
                Opened::Command(channels) => self.channels_opened(channels),
            }
        }
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
) -> Pending {
    if request.conversations.is_some() {
        return conversations::begin(shared, caller, subscriptions, &request).into();
    }
    let asked = subscriptions.asked(caller, &request);
    let start = request.start();
    if let Some(timeline) = request.timeline {
        return one(shared, subscriptions, asked, &timeline, start);
    }
    if subscriptions.rests_wait() {
        let failure = Failure::new(Reason::RateLimited)
            .saying("many timelines of earlier subscribes are still to come on this connection");
        return Err(failure).into();
    }
    let rest = rest(shared, subscriptions, asked, request.timelines);
    let work = rest.fill().map(|filled| {
        let (many, opened) = one_frame(filled);
        (Ok(Reply::Subscribe(Following::Many(many))), opened)
    });
    Pending::Opening(Weight::Page, work.boxed())
}

/// Begins to follow timelines for a client that is not answered: all comes in `subscribed` pushes.
pub(in super::super) fn follow(
    shared: &Arc<Shared>,
    caller: &Caller,
    subscriptions: &mut Subscriptions,
    request: sync::Subscribe,
) {
    let asked = subscriptions.asked(caller, &request);
    let count = request.timelines.as_ref().map_or(0, BTreeMap::len);
    subscriptions.slots.expect(count);
    let rest = rest(shared, subscriptions, asked, request.timelines);
    subscriptions.rests.push_back(rest);
}

/// Takes places for timelines; they are to be read.
fn rest(
    shared: &Arc<Shared>,
    subscriptions: &mut Subscriptions,
    asked: Asked,
    timelines: Option<BTreeMap<String, Start>>,
) -> Box<Rest> {
    let wanted = timelines.into_iter().flatten();
    let wanted = wanted.map(|(timeline, start)| {
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
    Box::new(Rest {
        shared: Arc::clone(shared),
        asked,
        wanted: wanted.collect::<Vec<_>>().into_iter(),
        is_quiet: false,
        id_bytes_max: usize::MAX,
    })
}

fn one(
    shared: &Arc<Shared>,
    subscriptions: &mut Subscriptions,
    asked: Asked,
    timeline: &str,
    start: Start,
) -> Pending {
    let (at, watch) = match place(shared, subscriptions, timeline) {
        Ok(place) => place,
        Err(failure) => return Err(failure).into(),
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
        (outcome, vec![Opened::Place(at, subscription)])
    };
    Pending::Opening(Weight::Page, work.boxed())
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
    if request.conversations.is_some() {
        subscriptions.unfollow_all();
    }
    let many = request.timelines.into_iter().flatten();
    for timeline in request.timeline.into_iter().chain(many) {
        if let Err(actual) = subscriptions.close(&timeline, request.epoch.as_deref()) {
            return Err(Failure::new(Reason::EpochChanged).actual(Actual::Text(actual)));
        }
    }
    Ok(Reply::Unsubscribe(sync::Unsubscribed {}))
}
