//! Following all of a user's conversations.
//!
//! Owns: which subscriptions are there because their timeline is one of the user's conversations. Promises: a
//! conversation that the user joins is followed, one that they leave is not; only those with news are pushed; a change
//! at the user that no other push shows is pushed once; one look at the user is under way at a time. Must not: touch
//! what was subscribed by name.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::jobs::Done;
use super::Subscriptions;
use super::parts::{Opening, Rest, Wanted};
use crate::Shared;
use crate::dispatch::people::conversation;
use crate::dispatch::shape::page_bytes;
use crate::dispatch::subscribe::{Asked, REWIND};
use crate::dispatch::wait::too_many;
use crate::dispatch::{Caller, Outcome};
use crate::form::Form;
use crate::outbox::Outbox;
use tideline_timelines::feed::Watch;
use tideline_timelines::people::{OwnPosition, OwnSide, Place};
use tideline_timelines::timeline::{Error, Timelines};
use tideline_wire::events::ID_GROWS_MAX;
use tideline_wire::timelines::sync;
use tideline_wire::timelines::sync::{Following, Start, SubscribedMany};
use tideline_wire::{Ended, Failure, Push, Reason, Reply, push};

/// A subscription to all conversations of a user.
pub(in super::super) struct Conversations {
    pub(super) asked: Asked,
    device: Option<String>,
    rewind: Option<u64>,
    /// The slot that hears of changes at the user.
    at: Opening,
    _watch: Watch,
    /// Up to where changes at the user were sent; `None` = nothing was.
    sent: Option<OwnPosition>,
    /// There may be changes that were not looked at.
    pub(super) is_dirty: bool,
    /// A look is under way.
    is_looking: bool,
}

/// Begins to follow. What there is comes in `subscribed` pushes.
pub(in super::super) fn begin(
    shared: &Arc<Shared>,
    caller: &Caller,
    subscriptions: &mut Subscriptions,
    request: &sync::Subscribe,
) -> Outcome {
    let user = caller.user()?;
    if subscriptions.conversations.is_some() {
        return Err(Failure::new(Reason::AlreadySubscribed));
    }
    let (at, watch) = subscriptions.open(&shared.feed, &Timelines::own_side(&user));
    subscriptions.conversations = Some(Box::new(Conversations {
        asked: Asked {
            create: false,
            ..subscriptions.asked(caller, request)
        },
        rewind: request
            .rewind
            .or_else(|| request.device.as_ref().map(|_| REWIND)),
        device: request.device.clone(),
        at,
        _watch: watch,
        sent: None,
        is_dirty: true,
        is_looking: false,
    }));
    Ok(Reply::Subscribe(Following::Many(SubscribedMany {
        more: true,
        ..SubscribedMany::default()
    })))
}

/// Conversations that are followed together.
const CONVERSATIONS_MAX: usize = 10_000;

impl Subscriptions {
    /// There is news in a slot; whether it is that of changes at the user.
    pub(in super::super) fn mark_own_side(&mut self, place: u32) -> bool {
        match &mut self.conversations {
            Some(conversations) if conversations.at.slot == place => {
                conversations.is_dirty = true;
                true
            }
            _ => false,
        }
    }

    /// Looks at the user, if there may be changes.
    pub(super) fn look_at_user(
        &mut self,
        shared: &Arc<Shared>,
    ) -> Option<BoxFuture<'static, Done>> {
        let conversations = self.conversations.as_deref_mut()?;
        if !conversations.is_dirty || conversations.is_looking {
            return None;
        }
        (conversations.is_dirty, conversations.is_looking) = (false, true);
        let (of, shared) = (Arc::clone(&conversations.asked.asker), Arc::clone(shared));
        let (device, sent) = (conversations.device.clone(), conversations.sent.clone());
        let at = conversations.at;
        let look = async move {
            let bytes = page_bytes(&shared.options.limits);
            let people = &shared.people;
            let side = people.own_side(&of, device.as_deref(), sent.as_ref(), bytes);
            Done::Looked(at, side.await)
        };
        Some(look.boxed())
    }

    /// A look at the user is done.
    pub(in super::super) fn looked_at_user(
        &mut self,
        shared: &Arc<Shared>,
        at: Opening,
        looked: Result<OwnSide, Error>,
        outbox: &mut Outbox,
        form: Form,
    ) {
        let Some(mut conversations) = self.conversations.take_if(|one| one.at == at) else {
            return;
        };
        conversations.is_looking = false;
        let Ok(side) = looked else {
            // Nothing of it was sent; the client has to subscribe anew.
            let inbox = Timelines::inbox_of(conversations.asked.asker.user());
            self.end_conversations(&conversations);
            self.say_ended((&inbox, ""), Ended::Unavailable, outbox, form);
            return;
        };
        let OwnSide {
            current,
            shown,
            mut removed,
            hidden,
            reached,
            more,
        } = side;
        let is_first = conversations.sent.replace(reached).is_none();
        conversations.is_dirty |= more;
        let mut wanted = Vec::new();
        for (timeline, place) in current {
            if self.contains(&timeline) {
                continue;
            }
            let place = if self.followed >= CONVERSATIONS_MAX {
                Err(Reason::TooLarge)
            } else if let Some(full) = self.share.full() {
                self.share.bound().refuse();
                Err(too_many(&self.share, full).reason)
            } else {
                let (at, watch) = self.follow(&shared.feed, &timeline);
                let said = self.events.as_ref().and_then(|one| one.start(&timeline));
                Ok((
                    at,
                    watch,
                    said.unwrap_or_else(|| conversations.start(place)),
                ))
            };
            wanted.push(Wanted { timeline, place });
        }
        for timeline in &removed {
            if let Some(epoch) = self.unfollow(timeline) {
                self.say_ended((timeline, &epoch), Ended::NotAMember, outbox, form);
            }
        }
        // Their subscriptions end by themselves, as those of all timelines do that the user may read no more.
        removed.extend(hidden);
        if !shown.is_empty() || !removed.is_empty() {
            let user = conversations.asked.asker.user();
            let shown = shown.into_iter().map(|one| conversation::shown(one, user));
            let changed = push::ConversationChanged {
                conversations: shown.collect(),
                removed,
            };
            outbox.push(form.push(&Push::ConversationChanged(changed)));
        }
        if is_first || !wanted.is_empty() {
            let asked = conversations.asked.clone();
            self.rests.push_back(Box::new(Rest {
                shared: Arc::clone(shared),
                asked,
                wanted: wanted.into_iter(),
                is_quiet: true,
                id_bytes_max: self.events.as_ref().map_or(usize::MAX, |_| ID_GROWS_MAX),
            }));
        }
        self.conversations = Some(conversations);
    }

    /// Ends the subscription to all conversations.
    pub(in super::super) fn unfollow_all(&mut self) {
        if let Some(conversations) = self.conversations.take() {
            self.end_conversations(&conversations);
        }
    }

    fn end_conversations(&mut self, conversations: &Conversations) {
        self.remove_followed();
        self.remove(conversations.at.slot);
    }
}

impl Conversations {
    /// Where a conversation begins, by the device's position in it.
    fn start(&self, place: Option<Place>) -> Start {
        match place {
            Some(place) => Start {
                after: Some(place.after),
                rewind: None,
                epoch: Some(place.epoch),
                changes_after: place.changes_after,
            },
            None => Start {
                rewind: self.rewind,
                ..Start::default()
            },
        }
    }
}
