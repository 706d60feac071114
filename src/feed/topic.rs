//! One watched timeline: what the log has told about it, its ring of fresh messages, and who watches.
//!
//! Owns: the newest known head, the ring, the watchers. Promises: knowledge only comes from committed batches in log order;
//! where it is not enough to serve a cursor (a gap in the ring, an edit, another epoch, a lost place in the log) it sends the
//! reader to the store, which is never behind it. Must not: wake anybody while its own lock is held.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::OnceCell;

use super::fresh::{Budget, Fresh, group};
use super::mailbox::{Mailbox, lock};
use super::subscription::{Cursor, Next, Page};
use crate::timeline::TimelineEvent;

/// A timeline that is watched.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    state: Mutex<State>,
    /// Apart from the state, so that readers do not wait while hundreds of others are woken.
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` = nothing heard yet, or deleted.
    epoch: Option<Arc<str>>,
    head: u64,
    change_head: u64,
    meta_version: u64,
    /// Raised whenever what was known is no longer to be trusted: every cursor then asks the store once.
    doubt: u64,
    ring: VecDeque<Arc<Fresh>>,
    /// The page that someone is reading just now; weak, so that it is kept only while it is used.
    shared: Option<(PageKey, Weak<OnceCell<Arc<Page>>>)>,
}

/// What a page of the store depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageKey {
    pub(super) epoch: Arc<str>,
    pub(super) sequence: u64,
    pub(super) change: u64,
}

#[derive(Debug, Default)]
struct Watchers {
    entries: Vec<Option<(Arc<Mailbox>, u32)>>,
    free: Vec<usize>,
}

impl Topic {
    pub(super) fn new(name: Arc<str>) -> Topic {
        Topic {
            name,
            state: Mutex::default(),
            watchers: Mutex::default(),
        }
    }

    /// Adds a watcher; the number returned takes it away again.
    pub(super) fn join(&self, mailbox: &Arc<Mailbox>, slot: u32) -> usize {
        let mut watchers = lock(&self.watchers);
        let entry = Some((Arc::clone(mailbox), slot));
        if let Some(place) = watchers.free.pop() {
            watchers.entries[place] = entry;
            place
        } else {
            watchers.entries.push(entry);
            watchers.entries.len() - 1
        }
    }

    /// Takes a watcher away; `true` if it was the last one.
    pub(super) fn leave(&self, place: usize) -> bool {
        let mut watchers = lock(&self.watchers);
        watchers.entries[place] = None;
        watchers.free.push(place);
        watchers.free.len() == watchers.entries.len()
    }

    /// What one committed batch did to this timeline.
    pub(super) fn publish(self: &Arc<Topic>, event: TimelineEvent, budget: &Budget) {
        let added = {
            let mut state = lock(&self.state);
            state.shared = None;
            state.apply(event)
        };
        for fresh in &added {
            budget.add(self, fresh);
        }
        self.wake();
    }

    /// The place in the log was lost: every reader must ask the store.
    pub(super) fn doubt(&self) {
        {
            let mut state = lock(&self.state);
            state.shared = None;
            state.doubt += 1;
            state.ring.clear();
        }
        self.wake();
    }

    /// What comes next for a cursor.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Next {
        lock(&self.state).next(cursor)
    }

    /// The read of a page: shared with whoever reads the same page at the moment.
    pub(super) fn page(&self, key: PageKey) -> Arc<OnceCell<Arc<Page>>> {
        let mut state = lock(&self.state);
        if let Some((of, cell)) = &state.shared
            && *of == key
            && let Some(cell) = cell.upgrade()
        {
            return cell;
        }
        let cell = Arc::new(OnceCell::new());
        state.shared = Some((key, Arc::downgrade(&cell)));
        cell
    }

    /// The position that a new cursor starts with, as far as the store does not tell it.
    pub(super) fn seen(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.doubt, state.meta_version)
    }

    /// Takes a group out of the ring, if it is still there.
    pub(super) fn forget(&self, fresh: &Weak<Fresh>) {
        let mut state = lock(&self.state);
        let same = |kept: &Arc<Fresh>| std::ptr::eq(Arc::as_ptr(kept), fresh.as_ptr());
        if state.ring.front().is_some_and(same) {
            state.ring.pop_front();
        } else {
            state.ring.retain(|kept| !same(kept));
        }
    }

    fn wake(&self) {
        let watchers = lock(&self.watchers);
        for (mailbox, slot) in watchers.entries.iter().flatten() {
            mailbox.post(*slot);
        }
    }
}

impl State {
    fn apply(&mut self, event: TimelineEvent) -> Vec<Arc<Fresh>> {
        let Some(head) = event.head else {
            // Deleted. Whether for good only the store knows: perhaps it stands again.
            self.epoch = None;
            self.ring.clear();
            self.doubt += 1;
            return Vec::new();
        };
        if self.epoch.as_deref() != Some(head.epoch.as_str()) {
            self.ring.clear();
            self.meta_version = 0;
            if self.epoch.is_some() {
                self.doubt += 1;
            }
            self.epoch = Some(Arc::from(head.epoch.as_str()));
        }
        self.head = head.head;
        self.change_head = head.change_head;
        self.meta_version = event.meta_version.unwrap_or(self.meta_version);
        let (floor, changed) = (head.floor, event.changed);
        self.ring.retain(|fresh| {
            fresh.first() >= floor
                && !changed
                    .iter()
                    .any(|at| (fresh.first()..=fresh.last()).contains(at))
        });
        let messages: Vec<_> = event
            .appended
            .into_iter()
            .filter(|message| {
                message.sequence >= floor && message.change == 0 && message.entry.is_some()
            })
            .collect();
        let epoch = self.epoch.clone().unwrap_or_else(|| Arc::from(""));
        let added = group(&epoch, messages, head.head);
        self.ring.extend(added.iter().cloned());
        added
    }

    fn next(&self, cursor: &mut Cursor) -> Next {
        if cursor.more || cursor.doubt != self.doubt {
            return Next::Read {
                doubt: self.doubt,
                foreign: None,
            };
        }
        if let Some(epoch) = &self.epoch
            && **epoch != *cursor.epoch
        {
            // Either the log's follower is behind what the cursor has read, or the timeline was made anew: ask once.
            return if cursor.foreign.as_ref() == Some(epoch) {
                Next::CaughtUp
            } else {
                Next::Read {
                    doubt: self.doubt,
                    foreign: Some(Arc::clone(epoch)),
                }
            };
        }
        if self.epoch.is_none() {
            return Next::CaughtUp;
        }
        let read = Next::Read {
            doubt: self.doubt,
            foreign: None,
        };
        if self.change_head > cursor.change {
            return read;
        }
        if self.head > cursor.sequence {
            let place = self
                .ring
                .binary_search_by_key(&(cursor.sequence + 1), |fresh| fresh.first());
            return place.map_or(read, |at| Next::Fresh(Arc::clone(&self.ring[at])));
        }
        if self.meta_version > cursor.meta_version {
            return Next::Meta;
        }
        Next::CaughtUp
    }
}
