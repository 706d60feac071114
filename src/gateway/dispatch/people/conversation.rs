//! The conversation family: list, sync, count, get, update, hide.
//!
//! Owns: the calls behind these methods, and the wait for the relay on a connection that has just changed what they
//! show. Promises: a waiting sync watches first and reads then; a list that can't show one's own change in time is
//! refused, not shown without it. Must not: check what the wire has checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::shape::{page_bytes, size};
use super::super::wait::{Wait, unless_handed_over};
use super::super::{Caller, Shared, Started, Work, in_field, refusal};
use crate::entrance::door::other_rules;
use tideline_base::ids::{PartitionId, Position};
use tideline_timelines::feed::{Mailbox, Watch};
use tideline_timelines::people::{
    ListConversations, People, Shown, SyncConversations, SyncedConversations,
};
use tideline_timelines::timeline::Timelines;
use tideline_wire::people::conversation;
use tideline_wire::{Failure, Method, Reason, Reply, Request};

/// Up to where members were changed on a connection, or read positions set back, by partition. Lists wait until they
/// show that.
#[derive(Debug, Default)]
pub(crate) struct MemberChanges(Mutex<BTreeMap<PartitionId, Position>>);

impl MemberChanges {
    pub(super) fn note(&self, (partition, position): (PartitionId, Position)) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = ends.entry(partition).or_default();
        *end = position.max(*end);
    }

    fn ends(&self) -> Vec<(PartitionId, Position)> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter()
            .map(|(partition, position)| (*partition, *position))
            .collect()
    }

    fn shown(&self, shown: &[(PartitionId, Position)]) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|partition, position| !shown.contains(&(*partition, *position)));
    }
}

/// Lists wait so long for what the connection has changed.
const RELAY_WAIT: Duration = Duration::from_secs(2);

/// Starts a call that changes members of a timeline. It is refused while the relay is too far behind, and noted once
/// it is done.
pub(in super::super) fn changing_members(
    shared: &Arc<Shared>,
    changes: Arc<MemberChanges>,
    timeline: &str,
    start: impl FnOnce() -> Work,
) -> Started {
    check_room(shared, timeline)?;
    let (people, timeline) = (shared.people.clone(), timeline.to_owned());
    Ok(match start() {
        Work::Write(work) => Work::Write(Box::pin(work.inspect(move |outcome| {
            if outcome.is_ok() {
                changes.note(people.end_of(&timeline));
            }
        }))),
        other => other,
    })
}

/// Refuses what leads to writes elsewhere while the relay is too far behind in that timeline's partition.
pub(in super::super) fn check_room(shared: &Shared, timeline: &str) -> Result<(), Failure> {
    if shared.people.has_room(timeline) {
        return Ok(());
    }
    shared.metrics.refused("relay_backlog_bytes_max", 1);
    let failure = Failure::new(Reason::Busy).retry_after(super::super::BUSY_RETRY_MS);
    Err(failure.saying("what this leads to elsewhere is too far behind"))
}

/// Waits until lists show what the connection has changed.
pub(in super::super) async fn caught_up(
    shared: &Shared,
    user: &str,
    changes: &MemberChanges,
) -> Result<(), Failure> {
    let ends = changes.ends();
    if ends.is_empty() {
        return Ok(());
    }
    let reached = shared.people.lists_reached(user, &ends);
    if timeout(RELAY_WAIT, reached).await.is_err() {
        let failure = Failure::new(Reason::Unavailable).retry_after(super::super::BUSY_RETRY_MS);
        return Err(failure.saying("the list does not show yet what this connection has changed"));
    }
    changes.shown(&ends);
    Ok(())
}

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::List,
) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let user = caller.user()?;
        caught_up(&shared, &user, &caller.member_changes).await?;
        let asked = ListConversations {
            asker: caller.asking(Method::ConversationList),
            after: request.after,
            limit: size(request.limit),
            filter: request.filter,
            columns: request.columns,
            bytes_max: page_bytes(&shared.options.limits),
        };
        let listed = shared.people.list(asked).await.map_err(refusal)?;
        let show = |one| shown(one, &user);
        Ok(Reply::ConversationList(conversation::Listed {
            conversations: listed.conversations.into_iter().map(show).collect(),
            next: listed.next,
            cursor: listed.cursor,
        }))
    }))
}

pub(in super::super) fn count(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Count,
) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let user = caller.user()?;
        caught_up(&shared, &user, &caller.member_changes).await?;
        let asker = caller.asking(Method::ConversationCount);
        let count = shared.people.count(&asker, request.filter).await;
        count.map(Reply::ConversationCount).map_err(refusal)
    }))
}

pub(in super::super) fn get(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Get,
) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let user = caller.user()?;
        let asker = caller.asking(Method::ConversationGet);
        let found = shared.people.conversation(&asker, &request.timeline).await;
        let conversation = shown(found.map_err(refusal)?, &user);
        let got = conversation::Got { conversation };
        Ok(Reply::ConversationGet(Box::new(got)))
    }))
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Update,
) -> Started {
    let asker = caller.person(Method::ConversationUpdate)?;
    let people = shared.people.clone();
    let (asked, place) = (people.own(&asker, &request.timeline), caller.line.place());
    Ok(Work::Write(Box::pin(async move {
        let own = asked.await.map_err(refusal)?;
        let turn = place.await;
        let (set, remove) = (request.set.put, request.remove);
        let updated = turn.queue(people.update_attributes(own, set, remove));
        let attributes = updated.await.map_err(|error| in_field("set", error))?;
        Ok(Reply::ConversationUpdate(conversation::Updated {
            attributes: Some(attributes.into()),
        }))
    })))
}

pub(in super::super) fn hide(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Hide,
) -> Started {
    let asker = caller.person(Method::ConversationHide)?;
    let people = shared.people.clone();
    let (asked, place) = (people.own(&asker, &request.timeline), caller.line.place());
    Ok(Work::Write(Box::pin(async move {
        let own = asked.await.map_err(refusal)?;
        let turn = place.await;
        turn.queue(people.hide(own)).await.map_err(refusal)?;
        Ok(Reply::ConversationHide(conversation::Hidden {
            hidden: true,
        }))
    })))
}

pub(in super::super) fn direct(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Direct,
) -> Started {
    let user = caller.user()?;
    if user == request.user {
        return Err(Failure::invalid("user", "another user than the caller"));
    }
    let timeline = People::direct_id(&user, &request.user);
    let asker = caller.asking(Method::ConversationDirect);
    let changes = Arc::clone(&caller.member_changes);
    changing_members(shared, changes, &timeline, || {
        let queued = shared.timelines.direct(&asker, &timeline, &request.user);
        Work::write(queued, |(info, created)| {
            Reply::ConversationDirect(conversation::DirectMade {
                timeline: info.timeline,
                epoch: info.epoch,
                created,
            })
        })
    })
}

pub(in super::super) fn sync(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: conversation::Sync,
) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    let time = Duration::from_millis(request.wait_ms.unwrap_or(0));
    let work = async move {
        let user = caller.user()?;
        caught_up(&shared, &user, &caller.member_changes).await?;
        let asked = SyncConversations {
            asker: caller.asking(Method::ConversationSync),
            cursor: request.cursor,
            limit: size(request.limit),
            columns: request.columns,
            bytes_max: page_bytes(&shared.options.limits),
        };
        let synced = wait(&shared, asked, time).await?;
        let show = |one| shown(one, &user);
        Ok(Reply::ConversationSync(conversation::Synced {
            conversations: synced.conversations.into_iter().map(show).collect(),
            removed: synced.removed,
            cursor: synced.cursor,
            done: synced.done,
            reset: synced.reset,
        }))
    };
    match time {
        Duration::ZERO => Work::Read(work.boxed()),
        _ => Work::Wait(work.boxed()),
    }
}

/// Looks, and looks again after each word from a watch, until there is something or the time is up.
async fn wait(
    shared: &Shared,
    asked: SyncConversations,
    time: Duration,
) -> Result<SyncedConversations, Failure> {
    let until = Instant::now() + time;
    let look = || async { shared.people.sync(asked.clone()).await.map_err(refusal) };
    let first = look().await?;
    if time.is_zero() || !first.is_empty() {
        return Ok(first);
    }
    let mut wait = Wait::begin(shared, &asked.asker, 0)?;
    let mailbox = Arc::new(Mailbox::default());
    let mut names = shared
        .people
        .names(asked.asker.user())
        .await
        .map_err(refusal)?;
    names.push(Timelines::own_side(asked.asker.user()));
    wait.follow(names.len())?;
    let watches: Vec<Watch> = names
        .iter()
        .map(|name| shared.feed.watch(name, &mailbox, 0))
        .collect();
    let waiting = async {
        loop {
            let looked = look().await?;
            if !looked.is_empty() {
                drop(watches);
                return Ok(looked);
            }
            tokio::select! {
                _ = mailbox.take() => {}
                () = other_rules(&mut wait.turns) => {}
                () = sleep_until(until) => return wait.ends(shared, looked).await,
                () = shared.waits_over.cancelled() => return wait.ends(shared, looked).await,
            }
        }
    };
    unless_handed_over(shared, waiting.await, first)
}

/// Whether a request is a wait, for the limit on these.
pub(crate) fn waits(request: &Request) -> bool {
    request.wait_ms().is_some_and(|wait_ms| wait_ms > 0)
}

pub(crate) fn shown(from: Shown, user: &str) -> conversation::Conversation {
    let (last_at, peer) = (from.last_at(), from.peer(user));
    let Shown {
        conversation,
        attributes,
        hidden,
        ..
    } = from;
    let (info, member) = (conversation.info, conversation.member);
    conversation::Conversation {
        timeline: info.timeline,
        epoch: info.epoch,
        meta: info.meta.into(),
        peer,
        head: info.head,
        floor: info.floor,
        change_head: info.change_head,
        last_message: conversation.last_message,
        last_at,
        members_count: conversation.members_count,
        role: member.role,
        joined_at: member.joined_at,
        visible_from: member.visible_from,
        read: member.read,
        received: member.received,
        unread: conversation.unread.unread,
        mentions: conversation.unread.mentions,
        cleared: member.cleared,
        hides: member.hides,
        hidden,
        attributes: attributes.into(),
        version: info.version,
    }
}
