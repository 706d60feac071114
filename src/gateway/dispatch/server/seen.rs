//! What is shown of sessions: `session.list`, `session.get`, `timeline.readers`.
//!
//! Owns: the calls behind these methods. Promises: a session is shown to its own caller and to those who look after
//! the server; these see only those of its timelines that they may read by name; a list asks only sessions that may lag
//! how far they are. Must not: wait long for a session that does not answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::super::shape::size;
use super::super::timelines::timeline::unsealed;
use super::super::{Caller, Outcome, Shared, Work, refusal};
use super::session::is_own;
use crate::credentials::seal;
use crate::live::{Live, Pulse};
use tideline_model::access::{Right, Rights};
use tideline_timelines::feed::{About, Mailbox, Progress, Reached};
use tideline_timelines::timeline::Target;
use tideline_wire::server::sessions::{Get, Got, List, Listed, Order, Session, SessionPosition};
use tideline_wire::timelines::readers::{Read, Reader, Readers};
use tideline_wire::{Failure, Reason, Reply};

/// Sessions that one call asks how far they are, at most.
const ASKED_MAX: usize = 10_000;
/// A session answers in its next turn; what takes longer is left out.
const ANSWER_TIME: Duration = Duration::from_millis(500);

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller, list: List) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(
        async move { listed(&shared, &caller, list).await },
    ))
}

async fn listed(shared: &Shared, caller: &Caller, list: List) -> Outcome {
    let (order, limit) = (list.order, size(list.limit));
    let mut live = shared.sessions.list();
    live.retain(|live| sees(caller, live));
    live.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
    if let Some(after) = list.after {
        let after = parse(&after).ok_or_else(|| Failure::invalid("after", NOT_NEXT))?;
        live.retain(|live| place(live) > after);
    }
    if list.user.is_some() {
        live.retain(|live| live.seen().user == list.user);
    }
    let mut next = None;
    if order == Order::Opened && live.len() > limit {
        live.truncate(limit);
        next = live
            .last()
            .map(|live| format!("{}-{}", live.opened_at, live.id));
    }
    let mut all = lags(live).await;
    // Equal ones stay in the order of their age.
    all.sort_by_key(|(_, pulse, lag_ms)| {
        std::cmp::Reverse(match order {
            Order::Opened => 0,
            Order::Lag => *lag_ms,
            Order::Subscriptions => pulse.subscriptions as u64,
            Order::InFlight => pulse.in_flight as u64,
        })
    });
    all.truncate(limit);
    let told = all
        .iter()
        .map(|(live, pulse, lag_ms)| told(live, *pulse, *lag_ms));
    Ok(Reply::SessionList(Listed {
        sessions: told.collect(),
        next,
    }))
}

/// Where a session is in the order of age.
fn place(live: &Live) -> (u64, &str) {
    (live.opened_at, &live.id)
}

fn parse(after: &str) -> Option<(u64, &str)> {
    let (opened_at, id) = after.split_once('-')?;
    Some((opened_at.parse().ok()?, id))
}

/// What is said of an `after` that no answer had.
const NOT_NEXT: &str = "no page gave this as next";

/// How far sessions lag. Those that have everything are not asked.
async fn lags(live: Vec<Arc<Live>>) -> Vec<(Arc<Live>, Pulse, u64)> {
    let mut room = ASKED_MAX;
    let ask = |live: Arc<Live>| {
        let pulse = live.pulse();
        let asked = (pulse.is_behind && room > 0).then(|| {
            room -= 1;
            live.peer.mailbox.ask(About::Whole)
        });
        (live, pulse, asked)
    };
    let asked: Vec<_> = live.into_iter().map(ask).collect();
    let deadline = Instant::now() + ANSWER_TIME;
    let mut lags = Vec::with_capacity(asked.len());
    for (live, pulse, asked) in asked {
        let lag_ms = match asked {
            Some(asked) => answer(asked, deadline).await.map_or(0, |one| one.lag_ms),
            None => 0,
        };
        lags.push((live, pulse, lag_ms));
    }
    lags
}

async fn answer(asked: oneshot::Receiver<Progress>, deadline: Instant) -> Option<Progress> {
    timeout_at(deadline, asked).await.ok()?.ok()
}

fn told(live: &Live, pulse: Pulse, lag_ms: u64) -> Session {
    let seen = live.seen();
    Session {
        session: live.id.clone(),
        user: seen.user,
        key: seen.key,
        device: seen.device,
        client: seen.client,
        address: live.peer.address.to_string(),
        dialect: live.peer.dialect.to_owned(),
        opened_at: live.opened_at,
        expires_at: seen.expires_at,
        subscriptions: pulse.subscriptions as u64,
        in_flight: pulse.in_flight as u64,
        lag_ms,
    }
}

/// Whether a session is the caller's, or the caller may see all.
fn sees(caller: &Caller, live: &Live) -> bool {
    caller.may(Right::Admin) || caller.may(Right::Observe) || is_own(caller, live)
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, get: Get) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move { got(&shared, &caller, get).await }))
}

async fn got(shared: &Shared, caller: &Caller, get: Get) -> Outcome {
    let live = shared.sessions.get(&get.session);
    let live = live.filter(|live| sees(caller, live));
    let live = live.ok_or(Reason::SessionNotFound)?;
    let limit = size(get.limit);
    let after = unsealed(get.after.as_deref())?.or(get.after);
    let asked = live.peer.mailbox.ask(About::Names(after, limit + 1));
    // One that does not answer is on its way out.
    let progress = answer(asked, Instant::now() + ANSWER_TIME).await;
    let progress = progress.ok_or(Reason::Unavailable)?;
    let mut reached = progress.positions;
    let is_own = is_own(caller, &live);
    let shows = |name: &str| is_own || caller.asker.reads_by_name(name.as_bytes());
    let mut next = None;
    if reached.len() > limit {
        reached.truncate(limit);
        // The page may end at a name that the caller must not see.
        next = reached.last().map(|one| match shows(&one.timeline) {
            true => one.timeline.as_ref().to_owned(),
            false => seal(&one.timeline),
        });
    }
    reached.retain(|one| shows(&one.timeline));
    let mut positions = Vec::with_capacity(reached.len());
    for one in reached {
        let head = shared
            .timelines
            .head(&one.timeline)
            .await
            .map_err(refusal)?;
        positions.push(SessionPosition {
            timeline: one.timeline.as_ref().to_owned(),
            position: one.position,
            head: head.map(|head| head.head),
            lag_ms: one.lag_ms,
        });
    }
    Ok(Reply::SessionGet(Box::new(Got {
        session: told(&live, live.pulse(), progress.lag_ms),
        positions,
        next,
    })))
}

pub(in super::super) fn readers(shared: &Arc<Shared>, caller: &Caller, readers: Readers) -> Work {
    let (shared, limit) = (Arc::clone(shared), readers.limit);
    let target = Target {
        timeline: readers.timeline,
        epoch: None,
        asker: caller.asker.needing(Rights::NONE),
    };
    Work::Read(Box::pin(async move {
        let timeline = target.timeline.clone();
        // Before the readers are asked: a reader that has everything up to here is at the end.
        let (_, head) = shared
            .timelines
            .incarnation(target)
            .await
            .map_err(refusal)?;
        let subscribers = shared.feed.subscribers(&timeline);
        let count = subscribers.len();
        let mut readers = reached(subscribers, &timeline).await;
        let asked = readers.len();
        let is_at_head = |reader: &&Reader| reader.lag_ms == 0 && reader.position >= head;
        let at_head = readers.iter().filter(is_at_head).count();
        readers.sort_unstable_by(|one, other| {
            let order = |reader: &Reader| (std::cmp::Reverse(reader.lag_ms), reader.position);
            order(one)
                .cmp(&order(other))
                .then_with(|| one.session.cmp(&other.session))
        });
        readers.truncate(size(limit));
        Ok(Reply::TimelineReaders(Read {
            count: count as u64,
            asked: (asked < count).then_some(asked as u64),
            at_head: at_head as u64,
            slowest: readers,
        }))
    }))
}

/// How far the subscriptions of a timeline are; those that have answered in time.
async fn reached(subscribers: Vec<(Arc<Mailbox>, u32)>, timeline: &str) -> Vec<Reader> {
    let ask = |(mailbox, slot): (Arc<Mailbox>, u32)| {
        let asked = mailbox.ask(About::Slot(slot));
        (mailbox.who(), asked)
    };
    let asked: Vec<_> = subscribers.into_iter().take(ASKED_MAX).map(ask).collect();
    let deadline = Instant::now() + ANSWER_TIME;
    let mut readers = Vec::with_capacity(asked.len());
    for (who, asked) in asked {
        let Some(progress) = answer(asked, deadline).await else {
            continue;
        };
        // The slot may be another timeline's meanwhile.
        let is_it = |one: &&Reached| *one.timeline == *timeline;
        if let Some(one) = progress.positions.iter().find(is_it) {
            readers.push(Reader {
                session: progress.session,
                user: who.map(|who| who.user.as_ref().to_owned()),
                position: one.position,
                lag_ms: one.lag_ms,
            });
        }
    }
    readers
}
