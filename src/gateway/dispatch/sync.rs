//! `sync`: what is new behind many positions, perhaps after a wait.
//!
//! Owns: the long poll. Promises: a waiting call watches first and reads then, so nothing slips between; it ends at its
//! time, at the first news, or when the server drains. Must not: keep anything between two calls but where to begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt as _, TryFutureExt as _};
use tokio::time::Instant;

use super::super::entrance::door::other_rules;
use super::people::conversation;
use super::people::position::places;
use super::shape::{self, page_bytes, size};
use super::subscribe::REWIND;
use super::wait::{Wait, unless_handed_over};
use super::{Caller, Shared, Started, Work, refusal};
use tideline_base::metrics::{Metrics, News};
use tideline_model::access::Asker;
use tideline_timelines::feed::{Mailbox, Watch};
use tideline_timelines::people::{SetPositions, SyncDevice};
use tideline_timelines::timeline::{Changed, SyncAsker, SyncPosition, Synced, Timelines};
use tideline_wire::timelines::sync;
use tideline_wire::timelines::sync::OpenPlaces;
use tideline_wire::{Failure, Method, Reply};

pub(super) fn sync(shared: &Arc<Shared>, caller: &Caller, request: sync::Sync) -> Started {
    let shared = Arc::clone(shared);
    let time = request
        .wait_ms
        .map_or(Duration::ZERO, Duration::from_millis);
    let limit = size(request.limit);
    let by_device = request.device.is_some();
    let looked = match request.device {
        Some(device) => {
            let user = caller.user()?;
            // Queued now, as every write.
            let stored = request.ack.map(|ack| {
                shared.people.set_positions(SetPositions {
                    user: user.clone(),
                    device: device.clone(),
                    positions: places(&ack),
                    force: false,
                })
            });
            let sync = SyncDevice {
                asker: caller.asking(Method::Sync),
                device,
                rewind: request.rewind.unwrap_or(REWIND),
                limit,
                bytes_max: page_bytes(&shared.options.limits),
            };
            let (shared, caller) = (Arc::clone(&shared), caller.clone());
            async move {
                if let Some(stored) = stored {
                    stored.await.map_err(refusal)?;
                }
                conversation::caught_up(&shared, sync.asker.user(), &caller.member_changes).await?;
                wait_by_device(&shared, &sync, time).await
            }
            .boxed()
        }
        None => {
            let (shared, asker) = (Arc::clone(&shared), caller.asking(Method::Sync));
            let positions = request.positions.unwrap_or_default();
            shared.metrics.server.sync_positions.count(positions.len());
            async move { wait(&shared, &positions, (&asker, limit), time).await }.boxed()
        }
    };
    let work = looked.map_ok(move |looked| {
        let answers = &shared.metrics.sync_answers;
        let answers = if by_device {
            &answers.device
        } else {
            &answers.positions
        };
        count(&shared.metrics, answers, &looked.0);
        reply(looked)
    });
    Ok(match time {
        Duration::ZERO => Work::Read(work.boxed()),
        _ => Work::Wait(work.boxed()),
    })
}

fn asked<'p>(position: sync::Position<'p>, open: &'p [(u64, u64)]) -> SyncPosition<'p> {
    SyncPosition {
        open,
        timeline: position.timeline,
        after: position.after,
        epoch: position.epoch,
        changes_after: position.changes_after,
        rewind: None,
    }
}

type Looked = (Vec<Synced>, bool);

/// One look at the store, for a user and with a limit.
async fn look(
    shared: &Shared,
    positions: &[SyncPosition<'_>],
    (asker, limit): (&Asker, usize),
) -> Result<Looked, Failure> {
    let start = turn().checked_rem(positions.len()).unwrap_or(0);
    let bytes = page_bytes(&shared.options.limits);
    let asker = SyncAsker {
        asker,
        is_member: false,
        limit,
    };
    let synced = shared.timelines.sync(positions, asker, bytes, start);
    synced.await.map_err(refusal)
}

/// The same for those positions whose slots had news; `None` = for all.
async fn look_at(
    shared: &Shared,
    (positions, slots): (&sync::Positions, Option<Vec<u32>>),
    asker: (&Asker, usize),
) -> Result<Looked, Failure> {
    let of_slot = |slot: &u32| positions.get(usize::try_from(*slot).unwrap_or(usize::MAX));
    let wanted: Vec<sync::Position<'_>> = match slots {
        None => positions.iter().collect(),
        Some(slots) => slots.iter().filter_map(of_slot).collect(),
    };
    let places = |one: &sync::Position<'_>| one.open.map_or_else(Vec::new, OpenPlaces::places);
    let open: Vec<Vec<(u64, u64)>> = wanted.iter().map(places).collect();
    let asked: Vec<SyncPosition<'_>> = wanted
        .into_iter()
        .zip(&open)
        .map(|(position, open)| asked(position, open))
        .collect();
    look(shared, &asked, asker).await
}

/// Where to begin: another number each time, so that no timeline starves behind a busy one. A step that is prime to
/// most lengths comes to all of them.
fn turn() -> usize {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    TURN.fetch_add(7_919, Ordering::Relaxed)
}

/// Looks for what is new for a device, and looks again after each word from a watch.
async fn wait_by_device(
    shared: &Shared,
    sync: &SyncDevice,
    time: Duration,
) -> Result<Looked, Failure> {
    let until = Instant::now() + time;
    let look = || async {
        let looked = shared.people.sync_device(sync, turn()).await;
        looked.map_err(refusal)
    };
    let first = look().await?;
    if time.is_zero() || !first.0.is_empty() || first.1 {
        return Ok(first);
    }
    let mut wait = Wait::begin(shared, &sync.asker, 0)?;
    let mailbox = Arc::new(Mailbox::default());
    let waiting = async {
        loop {
            let names = shared
                .people
                .names(sync.asker.user())
                .await
                .map_err(refusal)?;
            wait.follow(names.len())?;
            let own_side = Timelines::own_side(sync.asker.user());
            let watch = |name: &String, slot| shared.feed.watch(name, &mailbox, slot);
            let mut watches: Vec<Watch> = names.iter().map(|name| watch(name, ANY)).collect();
            watches.push(watch(&own_side, OWN_SIDE));
            loop {
                let looked = look().await?;
                if !looked.0.is_empty() || looked.1 {
                    drop(watches);
                    return Ok(looked);
                }
                let slots = tokio::select! {
                    slots = mailbox.take() => slots,
                    () = tokio::time::sleep_until(until) => return wait.ends(shared, looked).await,
                    () = shared.waits_over.cancelled() => return wait.ends(shared, looked).await,
                    () = other_rules(&mut wait.turns) => vec![OWN_SIDE],
                };
                if slots.contains(&OWN_SIDE) {
                    // Perhaps there are other conversations now.
                    break;
                }
            }
        }
    };
    unless_handed_over(shared, waiting.await, first)
}

/// The slots of a wait by device.
const OWN_SIDE: u32 = 0;
const ANY: u32 = 1;

/// While it waits only the positions are kept, as they came in: each look makes what it needs of them.
async fn wait(
    shared: &Shared,
    positions: &sync::Positions,
    asker: (&Asker, usize),
    time: Duration,
) -> Result<Looked, Failure> {
    let until = Instant::now() + time;
    let look = |slots| look_at(shared, (positions, slots), asker);
    if time.is_zero() {
        return look(None).await;
    }
    // A wait that is refused costs no look.
    let mut wait = Wait::begin(shared, asker.0, positions.len())?;
    let first = look(None).await?;
    if !first.0.is_empty() || first.1 {
        return Ok(first);
    }
    let mailbox = Arc::new(Mailbox::default());
    let watches: Vec<Watch> = (0u32..)
        .zip(positions.iter())
        .map(|(slot, position)| {
            let mut watch = shared.feed.watch(position.timeline, &mailbox, slot);
            if position.open.is_some() {
                watch.ask_parts(0);
            }
            watch
        })
        .collect();
    let waiting = async {
        let mut slots = None;
        loop {
            // After watching, and after each word from a watch: the store knows whether it is news for this position.
            let looked = look(slots).await?;
            if !looked.0.is_empty() || looked.1 {
                drop(watches);
                return Ok(looked);
            }
            slots = tokio::select! {
                slots = mailbox.take() => Some(slots),
                () = tokio::time::sleep_until(until) => return wait.ends(shared, looked).await,
                () = shared.waits_over.cancelled() => return wait.ends(shared, looked).await,
                () = other_rules(&mut wait.turns) => None,
            };
        }
    };
    unless_handed_over(shared, waiting.await, first)
}

fn count(metrics: &Metrics, answers: &News, synced: &[Synced]) {
    let news = if synced.is_empty() {
        &answers.none
    } else {
        &answers.some
    };
    news.increment(1);
    for page in synced.iter().filter_map(|one| one.page.as_ref()) {
        metrics.pages.sync.count(page.messages.len());
    }
}

fn reply((synced, more): Looked) -> Reply {
    let of = |one: Synced| (one.timeline, timeline(one.page, one.state));
    let timelines = synced.into_iter().map(of).collect();
    Reply::Sync(sync::Synced { timelines, more })
}

fn timeline(page: Option<Changed>, state: sync::State) -> sync::SyncedTimeline {
    let Some(page) = page else {
        return sync::SyncedTimeline {
            messages: Vec::new(),
            changed: None,
            grown: Vec::new(),
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
        messages: page.messages,
        changed: page.changed,
        grown: page.grown,
        position: page.position,
        head: page.head.head,
        floor: page.head.floor,
        epoch: Some(page.head.epoch),
        more: page.more,
        state,
    }
}
