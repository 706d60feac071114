//! Following all of a user's conversations.
//!
//! Owns: which subscriptions are there because their timeline is one of the user's conversations. Promises: a
//! conversation that the user joins is followed, one that they leave is not; only those with news are pushed; a change
//! at the user that no other push shows is pushed once. Must not: touch what was subscribed by name.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::super::jobs::Jobs;
use super::Subscriptions;
use super::own_side::Conversations;
use super::parts::{Opening, Rest, Wanted};
use crate::gateway::Shared;
use crate::gateway::dispatch::people::conversation;
use crate::gateway::dispatch::shape::page_bytes;
use crate::gateway::dispatch::subscribe::{Asked, REWIND};
use crate::gateway::dispatch::wait::too_many;
use crate::gateway::dispatch::{Caller, Outcome};
use crate::gateway::form::Form;
use crate::gateway::outbound;
use crate::gateway::outbox::Outbox;
use crate::people::OwnSide;
use crate::timeline::{Error, Timelines};
use crate::wire::timelines::sync;
use crate::wire::timelines::sync::{Following, SubscribedMany};
use crate::wire::{Ended, Failure, Push, Reason, Reply, push};

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
            asker: subscriptions.asker(caller),
            limit: request.limit,
            create: false,
            with: request.with.iter().copied().collect(),
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
    pub(in super::super) fn look_at_user(&mut self, shared: &Arc<Shared>, jobs: &mut Jobs) -> bool {
        let Some(conversations) = &mut self.conversations else {
            return false;
        };
        if !conversations.is_dirty || conversations.is_looking || !jobs.may_fetch() {
            return false;
        }
        (conversations.is_dirty, conversations.is_looking) = (false, true);
        let (of, shared_too) = (Arc::clone(&conversations.asked.asker), Arc::clone(shared));
        let (device, sent) = (conversations.device.clone(), conversations.sent.clone());
        let bytes = page_bytes(&shared.options.limits);
        let look = async move {
            let people = &shared_too.people;
            people
                .own_side(&of, device.as_deref(), sent.as_ref(), bytes)
                .await
        };
        jobs.look(shared, conversations.at, look.boxed());
        true
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
            outbox.push(outbound::ended(&inbox, "", Ended::Unavailable, form));
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
                Ok((at, watch, conversations.start(place)))
            };
            wanted.push(Wanted { timeline, place });
        }
        for timeline in &removed {
            if let Some(epoch) = self.unfollow(timeline) {
                outbox.push(outbound::ended(timeline, &epoch, Ended::NotAMember, form));
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
