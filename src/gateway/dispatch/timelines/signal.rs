//! What is never stored: `signal` and `presence.get`.
//!
//! Owns: the calls behind these methods. Promises: nobody sends signals to a timeline that they may not read, or learns
//! which users are online there; the signals of a connection keep their order, unless it begins to subscribe to the
//! timeline or its user's own membership is just changing; a user that a removal shuts out does not get signals that
//! were sent after its answer. Must not: write anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use tideline_timelines::feed;
use tideline_timelines::feed::{Body, Mailbox};
use tideline_timelines::timeline::{ListMembers, Target};
use tideline_wire::timelines::signal::{
    Get, Got, Online, Presence, Refused, Signal, Signalled, User,
};
use tideline_wire::{Failure, Method, Reason, Reply};

/// The connection that a signal comes from.
pub(crate) struct From<'s> {
    pub(crate) mailbox: &'s Arc<Mailbox>,
    /// It subscribes to the timeline and could read it at this turn, see [`feed::Subscription::turn`].
    pub turn: Option<u32>,
}

/// Sends a signal. One that the timeline has no room for is dropped without a word: its sender has done nothing wrong,
/// and could do nothing about it.
pub(crate) fn signal(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: Signal,
    from: Option<From<'_>>,
) -> Work {
    let Signal { timeline, signal } = request;
    let Some(who) = caller.who() else {
        let nobody = caller.user().err();
        return Work::Now(Err(nobody.unwrap_or_else(|| Reason::Unauthenticated.into())));
    };
    let body = Body::Signal {
        who,
        columns: signal.columns.into_owned(),
    };
    if let Some(From {
        mailbox,
        turn: turn @ Some(_),
    }) = from
        && caller
            .asking(Method::Signal)
            .is_allowed_by_name(timeline.as_bytes())
    {
        shared.feed.signal(&timeline, body, Some(mailbox), turn);
        return Work::Now(Ok(Reply::Signal(Signalled {})));
    }
    let (shared, mailbox) = (
        Arc::clone(shared),
        from.map(|from| Arc::clone(from.mailbox)),
    );
    let target = caller.target(Method::Signal, timeline.clone(), None);
    let place = caller.line.place();
    Work::Read(Box::pin(async move {
        shared.timelines.get(target).await.map_err(refusal)?;
        let _turn = place.await;
        shared.feed.signal(&timeline, body, mailbox.as_ref(), None);
        Ok(Reply::Signal(Signalled {}))
    }))
}

/// Reads which users are online, in each timeline for itself.
pub(in super::super) fn presence(shared: &Arc<Shared>, caller: &Caller, request: Get) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let Get {
            timelines,
            limit,
            anywhere,
        } = request;
        let mut room = page_bytes(&shared.options.limits);
        let mut answers = BTreeMap::new();
        for timeline in timelines {
            let target = caller.target(Method::PresenceGet, timeline.clone(), None);
            let online = match anywhere {
                true => members_online(&shared, target, size(limit)).await,
                false => {
                    let found = shared.timelines.get(target).await.map_err(refusal);
                    found.map(|_| shared.feed.online(&timeline, size(limit)))
                }
            };
            let presence = match online {
                Ok(online) => Presence::Online(shape(online, &mut room)),
                Err(Failure { reason, .. }) => Presence::Refused(Refused { reason }),
            };
            answers.insert(timeline, presence);
            // In a large group this looks at every subscriber.
            tokio::task::yield_now().await;
        }
        Ok(Reply::PresenceGet(Got { timelines: answers }))
    }))
}

/// Members of a timeline who have a session, whatever it subscribes to.
async fn members_online(
    shared: &Shared,
    target: Target,
    limit: usize,
) -> Result<feed::Online, Failure> {
    let list = ListMembers {
        target,
        since: None,
        after: None,
        role: None,
        limit: MEMBERS_MAX,
        bytes_max: usize::MAX,
    };
    let page = shared.timelines.list_members(list).await.map_err(refusal)?;
    if page.next.is_some() {
        return Err(Reason::TooMany.into());
    }
    let members = page.members.into_iter();
    let there = members.filter(|member| shared.sessions.has_one_of(&member.user));
    let mut users: Vec<_> = there.map(|one| (one.user.into(), Vec::new())).collect();
    let online = users.len();
    users.truncate(limit);
    Ok(feed::Online { online, users })
}

/// Members that are looked for.
const MEMBERS_MAX: usize = 1_000;

/// Takes users while there is room for them in the reply.
fn shape(from: feed::Online, room: &mut usize) -> Online {
    let mut users = Vec::new();
    for (user, devices) in from.users {
        let names = devices
            .iter()
            .map(|device| device.len() + TEXT_BYTES)
            .sum::<usize>();
        let bytes = user.len() + TEXT_BYTES + names;
        if bytes > *room {
            *room = 0;
            break;
        }
        *room -= bytes;
        users.push(User {
            user: user.as_ref().to_owned(),
            devices: devices
                .iter()
                .map(|device| device.as_ref().to_owned())
                .collect(),
        });
    }
    Online {
        online: from.online as u64,
        users,
    }
}

/// Around a text in a reply.
const TEXT_BYTES: usize = 32;
