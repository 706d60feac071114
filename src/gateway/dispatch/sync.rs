//! `sync`: what is new behind many positions, perhaps after a wait.
//!
//! Owns: the long poll. Promises: a waiting call watches first and reads then, so nothing slips between; it ends at its
//! time, at the first news, or when the server drains. Must not: keep anything between two calls but where to begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::shape::{self, page_bytes, size};
use super::{Caller, Shared, Work, refusal};
use crate::feed::{Mailbox, Watch};
use crate::metrics::Metrics;
use crate::timeline::{SyncPosition, Synced};
use crate::wire::{Failure, Integers, Reply, sync};

pub(super) fn sync(shared: &Arc<Shared>, caller: &Caller, request: sync::Sync) -> Work {
    let (shared, user, integers) = (Arc::clone(shared), caller.user.clone(), caller.integers);
    let sync::Sync {
        positions,
        limit,
        wait_ms,
    } = request;
    let limit = size(limit);
    shared.metrics.server.sync_positions.count(positions.len());
    match wait_ms {
        None | Some(0) => Work::Read(Box::pin(async move {
            let looked = look(&shared, &asked(&positions), (&user, limit)).await;
            looked.map(|looked| reply(&shared.metrics, looked, integers))
        })),
        Some(wait_ms) => Work::Wait(Box::pin(async move {
            let time = Duration::from_millis(wait_ms);
            let looked = wait(&shared, &asked(&positions), (&user, limit), time).await;
            looked.map(|looked| reply(&shared.metrics, looked, integers))
        })),
    }
}

fn asked(positions: &sync::Positions) -> Vec<SyncPosition<'_>> {
    let mut asked = Vec::with_capacity(positions.len());
    asked.extend(positions.iter().map(|position| SyncPosition {
        timeline: position.timeline,
        after: position.after,
        epoch: position.epoch,
        changes_after: position.changes_after,
    }));
    asked
}

type Looked = (Vec<Synced>, bool);

/// One look at the store, for a user and with a limit. Begins at another timeline each time, so that none starves
/// behind a busy one.
async fn look(
    shared: &Shared,
    positions: &[SyncPosition<'_>],
    asker: (&str, usize),
) -> Result<Looked, Failure> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let start = match positions.len() {
        0 | 1 => 0,
        // A step that is prime to most lengths comes to all of them.
        count => TURN.fetch_add(7_919, Ordering::Relaxed) % count,
    };
    let bytes = page_bytes(&shared.options.limits);
    let (user, limit) = asker;
    shared
        .timelines
        .sync(positions, user, limit, bytes, start)
        .await
        .map_err(refusal)
}

async fn wait(
    shared: &Shared,
    positions: &[SyncPosition<'_>],
    asker: (&str, usize),
    time: Duration,
) -> Result<Looked, Failure> {
    let until = Instant::now() + time;
    let first = look(shared, positions, asker).await?;
    if !first.0.is_empty() || first.1 {
        return Ok(first);
    }
    let _counted = shared.metrics.feed.waits.hold(1);
    let mailbox = Arc::new(Mailbox::default());
    let watches: Vec<Watch> = (0u32..)
        .zip(positions)
        .map(|(slot, position)| shared.feed.watch(position.timeline, &mailbox, slot))
        .collect();
    let mut asked = positions.to_vec();
    loop {
        // After watching, and after each word from a watch: the store knows whether it is news for this position.
        let looked = look(shared, &asked, asker).await?;
        if !looked.0.is_empty() || looked.1 {
            drop(watches);
            return Ok(looked);
        }
        let slots = tokio::select! {
            slots = mailbox.take() => slots,
            () = tokio::time::sleep_until(until) => return Ok(looked),
            () = shared.waits_over.cancelled() => return Ok(looked),
        };
        asked = slots
            .iter()
            .filter_map(|slot| {
                positions
                    .get(usize::try_from(*slot).unwrap_or(usize::MAX))
                    .copied()
            })
            .collect();
    }
}

fn reply(metrics: &Metrics, (synced, more): Looked, integers: Integers) -> Reply {
    let answers = &metrics.sync_answers;
    let news = if synced.is_empty() {
        &answers.none
    } else {
        &answers.some
    };
    news.increment(1);
    for page in synced.iter().filter_map(|one| one.page.as_ref()) {
        metrics.pages.sync.count(page.messages.len());
    }
    let timelines: BTreeMap<_, _> = synced
        .into_iter()
        .map(|one| {
            let state = shape::sync_state(one.state);
            (one.timeline, timeline(one.page, state, integers))
        })
        .collect();
    Reply::Sync(sync::Synced { timelines, more })
}

fn timeline(
    page: Option<crate::timeline::Changed>,
    state: sync::State,
    integers: Integers,
) -> sync::SyncedTimeline {
    let Some(page) = page else {
        return sync::SyncedTimeline {
            messages: Vec::new(),
            changed: None,
            position: 0,
            head: 0,
            floor: 1,
            change_head: 0,
            epoch: None,
            more: false,
            state,
        };
    };
    sync::SyncedTimeline {
        change_head: shape::change_head(&page),
        messages: shape::messages(page.messages, integers),
        changed: page
            .changed
            .map(|changed| shape::messages(changed, integers)),
        position: page.position,
        head: page.head.head,
        floor: page.head.floor,
        epoch: Some(page.head.epoch),
        more: page.more,
        state,
    }
}
