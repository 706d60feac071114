//! Who watches one timeline.
//!
//! Owns: the list of watchers, and the timeline's lanes where a subscription asked for some. Promises: a watcher is
//! called by its place until it leaves; only those that subscribe count as online. Must not: hold a topic's state.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::ephemeral::{Due, Following, Lanes, Online, Presence, With};
use super::mailbox::{Mailbox, Who, lock};

#[derive(Debug, Default)]
pub(super) struct Watchers {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Option<Watcher>>,
    free: Vec<usize>,
    /// `None` = nobody has asked for any.
    lanes: Option<Arc<Lanes>>,
}

#[derive(Debug)]
struct Watcher {
    mailbox: Arc<Mailbox>,
    slot: u32,
    /// It has become a subscription; until then it waits for the answer of the store.
    subscribes: bool,
    with: With,
}

impl Watchers {
    /// Adds a watcher; the number returned takes it away again.
    pub(super) fn join(&self, mailbox: &Arc<Mailbox>, slot: u32) -> usize {
        let mut list = lock(&self.list);
        let entry = Some(Watcher {
            mailbox: Arc::clone(mailbox),
            slot,
            subscribes: false,
            with: With::default(),
        });
        if let Some(place) = list.free.pop() {
            list.entries[place] = entry;
            place
        } else {
            list.entries.push(entry);
            list.entries.len() - 1
        }
    }

    /// Takes a watcher away; `true` if it was the last one.
    pub(super) fn leave(&self, place: usize, now: Instant) -> (bool, Due) {
        let mut list = lock(&self.list);
        let entry = list.entries[place].take();
        list.free.push(place);
        let is_last = list.free.len() == list.entries.len();
        let due = match (&list.lanes, entry) {
            (Some(lanes), Some(watcher)) if watcher.subscribes => {
                let leaving = watcher.mailbox.who().and_then(|who| lanes.leave(who, now));
                let unasked = lanes.unfollow(watcher.with, now);
                earlier(leaving, unasked)
            }
            _ => None,
        };
        (is_last, due)
    }

    /// A watcher becomes a subscription, perhaps with lanes.
    pub(super) fn subscribe(
        &self,
        place: usize,
        with: With,
        now: Instant,
        lanes: impl FnOnce() -> Lanes,
    ) -> (Option<Following>, Due) {
        let mut list = lock(&self.list);
        let List {
            entries,
            lanes: kept,
            ..
        } = &mut *list;
        let Some(watcher) = &mut entries[place] else {
            return (None, None);
        };
        (watcher.subscribes, watcher.with) = (true, with);
        let due = match (&*kept, watcher.mailbox.who()) {
            (Some(lanes), Some(who)) => lanes.join(&who, now),
            _ => None,
        };
        if with.is_empty() {
            return (None, due);
        }
        let lanes = kept.get_or_insert_with(|| Arc::new(lanes()));
        (Some(lanes.follow(with, there(entries))), due)
    }

    /// The user of a subscription's connection is another one now; `before` is who it was.
    pub(super) fn renamed(&self, place: usize, before: Option<Arc<Who>>, now: Instant) -> Due {
        let list = lock(&self.list);
        let (Some(lanes), Some(watcher)) = (&list.lanes, &list.entries[place]) else {
            return None;
        };
        let joins = watcher.mailbox.who().and_then(|who| lanes.join(&who, now));
        let leaves = before.and_then(|who| lanes.leave(who, now));
        earlier(joins, leaves)
    }

    /// The lanes, if somebody has asked for some.
    pub(super) fn lanes(&self) -> Option<Arc<Lanes>> {
        lock(&self.list).lanes.clone()
    }

    /// Puts together what has gathered in the lanes, and wakes their readers.
    pub(super) fn gather(&self, now: Instant) -> Due {
        let lanes = self.lanes()?;
        let (woken, due) = lanes.gather(now);
        if !woken.is_empty() {
            self.wake_with(woken);
        }
        let mut list = lock(&self.list);
        if list.lanes.as_ref().is_some_and(|lanes| lanes.is_idle()) {
            list.lanes = None;
        }
        due
    }

    /// Who is online, so many of them by name: as it is kept for those who asked for presence, else those who subscribe
    /// at the moment.
    pub(super) fn online(&self, limit: usize) -> Online {
        let there: Vec<_> = {
            let list = lock(&self.list);
            if let Some(online) = list.lanes.as_ref().and_then(|lanes| lanes.online(limit)) {
                return online;
            }
            there(&list.entries).collect()
        };
        Presence::of(there.into_iter(), None).online(limit)
    }

    /// Tells every watcher that there may be something; how many there are.
    pub(super) fn wake(&self) -> usize {
        let list = lock(&self.list);
        for watcher in list.entries.iter().flatten() {
            watcher.mailbox.post(watcher.slot);
        }
        list.entries.len() - list.free.len()
    }

    /// Tells those who asked for one of these lanes that there may be something.
    pub(super) fn wake_with(&self, with: With) {
        let list = lock(&self.list);
        let all = list.entries.iter().flatten();
        for watcher in all.filter(|watcher| watcher.with.meets(with)) {
            watcher.mailbox.post(watcher.slot);
        }
    }
}

fn there(entries: &[Option<Watcher>]) -> impl Iterator<Item = Arc<Who>> {
    let subscribed = entries
        .iter()
        .flatten()
        .filter(|watcher| watcher.subscribes);
    subscribed.filter_map(|watcher| watcher.mailbox.who())
}

/// The lanes give a time only if it is earlier than the one that is known: of two the last one counts.
fn earlier(first: Due, second: Due) -> Due {
    second.or(first)
}
