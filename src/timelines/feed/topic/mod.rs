//! One watched timeline: what the log says about it, its ring of fresh messages, and its watchers.
//!
//! Owns: the newest known head, the ring, the watchers. Promises: knowledge only comes from committed batches in log
//! order; where it is not enough to serve a cursor (a gap in the ring, an edit, another epoch, a lost place in the log)
//! it sends the reader to the store, which is never behind it. Must not: wake anybody while its own lock is held.

pub(super) mod budget;
pub(super) mod fresh;
pub(super) mod grown;
pub(super) mod held;
pub(super) mod readers;
pub(super) mod watchers;
mod windows;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use tokio::sync::OnceCell;

use super::cursor::{Cursor, Next, Page, PageKey};
use super::ephemeral::Due;
use super::mailbox::lock;
use crate::timeline::{Growth, Roles, TimelineEvent};
use fresh::{Fresh, group};
use grown::{GrownTotal, Growths, NextParts, Told};
use held::Held;
use readers::{Moved, Readers};
use watchers::Watchers;

/// A timeline that is watched.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    state: Mutex<State>,
    /// Apart from the state, so that readers do not wait while hundreds of others are woken.
    pub(super) watchers: Watchers,
    /// Of an inbox: what its user is in the timelines that it names.
    roles: OnceLock<Box<Roles>>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` = nothing heard yet, or deleted.
    epoch: Option<Arc<str>>,
    /// The epoch of the newest cursor, so that all cursors share one text.
    of_cursors: Option<Arc<str>>,
    head: u64,
    changes: Held,
    meta_version: u64,
    /// Raised whenever what was known is no longer to be trusted: every cursor then asks the store once.
    doubt: u64,
    /// The users that the last changes of members concern.
    readers: Readers,
    ring: VecDeque<Arc<Fresh>>,
    /// The lowest readable sequence, as far as the log has told.
    floor: u64,
    growths: Growths,
    /// The page that someone is reading just now; weak, so that it is kept only while it is used.
    shared: Option<(PageKey, Weak<OnceCell<Arc<Page>>>)>,
}

/// What an event comes to.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The groups that are new.
    pub(super) added: Vec<Arc<Fresh>>,
    /// When [`Topic::gather`] is due for it.
    pub(super) due: Due,
    /// Nobody is to be woken before that.
    pub(super) held: bool,
}

impl Topic {
    pub(super) fn new(name: Arc<str>) -> Topic {
        Topic {
            name,
            state: Mutex::default(),
            watchers: Watchers::default(),
            roles: OnceLock::new(),
        }
    }

    pub(super) fn roles(&self) -> &Roles {
        self.roles.get_or_init(Box::default)
    }

    /// Takes in what one committed batch did to this timeline.
    pub(super) fn apply(&self, event: TimelineEvent, now: Instant) -> Applied {
        let mut state = lock(&self.state);
        state.shared = None;
        state.apply(event, now)
    }

    /// Puts together what is due: reactions that were held back, and the lanes. Gives when there is more to do.
    pub(super) fn gather(&self, now: Instant) -> Due {
        let is_news = lock(&self.state).changes.release(now);
        if is_news {
            self.watchers.wake();
        }
        self.watchers.gather(now)
    }

    /// The place in the log was lost: every reader must ask the store.
    pub(super) fn doubt(&self) {
        {
            let mut state = lock(&self.state);
            state.shared = None;
            state.doubt += 1;
            state.ring.clear();
            state.growths.clear();
        }
        self.watchers.wake();
    }

    /// What some users may see has changed. Nobody is woken: it counts from the next look on.
    pub(super) fn moved(&self, moves: Vec<Moved>) {
        let mut state = lock(&self.state);
        state.shared = None;
        state.readers.moved(moves);
    }

    /// Takes in parts of an open message.
    pub(super) fn grew(&self, growth: &Growth, total: &GrownTotal) {
        lock(&self.state).growths.take(growth, total);
    }

    /// Keeps no parts any more, until new ones come.
    pub(super) fn forget_parts(&self) {
        lock(&self.state).growths.empty();
    }

    /// What comes next of the open messages that a caught-up reader was told of.
    pub(super) fn next_parts(
        &self,
        cursor: &Cursor,
        told: &mut Told,
        total: &GrownTotal,
    ) -> NextParts {
        let mut state = lock(&self.state);
        let (floor, doubt) = (state.floor.max(cursor.floor), state.doubt);
        told.next(&mut state.growths, (&cursor.epoch, floor, doubt), total)
    }

    /// Whether the store must be asked about a cursor's user before they get anything newer.
    pub(super) fn concerns(&self, cursor: &mut Cursor, user: &str) -> bool {
        lock(&self.state).concerns(cursor, user)
    }

    /// Whether a user is known to have left since this turn.
    pub(super) fn has_left(&self, user: &str, turn: u32) -> bool {
        lock(&self.state).readers.has_left(user, turn)
    }

    /// What comes next for the cursor of a user; empty = a back end.
    pub(super) fn next(&self, cursor: &mut Cursor, user: &str) -> Next {
        lock(&self.state).next(cursor, user)
    }

    /// The read of a page: shared by all that read the same page at the moment.
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

    /// An epoch, as the one text that all cursors of it share.
    pub(super) fn shared_epoch(&self, epoch: Arc<str>) -> Arc<str> {
        let mut state = lock(&self.state);
        let known = [&state.epoch, &state.of_cursors];
        let same = known.into_iter().flatten().find(|known| **known == epoch);
        let epoch = same.cloned().unwrap_or(epoch);
        state.of_cursors = Some(Arc::clone(&epoch));
        epoch
    }

    /// The position that a new cursor starts with, as far as the store does not tell it.
    pub(super) fn seen(&self) -> (u64, u32, u64) {
        let state = lock(&self.state);
        (state.doubt, state.readers.turn(), state.meta_version)
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
}

impl State {
    fn apply(&mut self, event: TimelineEvent, now: Instant) -> Applied {
        let Some(head) = event.head else {
            // Deleted. Whether for good only the store knows: perhaps it was made anew.
            self.epoch = None;
            self.ring.clear();
            self.growths.clear();
            self.doubt += 1;
            return Applied::default();
        };
        if self.epoch.as_deref() != Some(head.epoch.as_str()) {
            self.ring.clear();
            self.meta_version = 0;
            self.changes = Held::default();
            if self.epoch.is_some() {
                self.doubt += 1;
            }
            let known = self.of_cursors.as_ref();
            let known = known.filter(|known| ***known == head.epoch).cloned();
            self.epoch = Some(known.unwrap_or_else(|| Arc::from(head.epoch.as_str())));
        }
        if event.configured {
            self.readers.all_moved();
        }
        self.head = head.head;
        let only_reactions = event.reacted && event.changed.is_empty();
        let due = self.changes.hear(head.change_head, only_reactions, now);
        let is_quiet = only_reactions && event.appended.is_empty() && event.meta_version.is_none();
        self.meta_version = event.meta_version.unwrap_or(self.meta_version);
        let (floor, changed) = (head.floor, event.changed);
        self.floor = floor;
        self.growths.forget(&changed, floor);
        // One that the same batch has closed is among these, whole.
        let closed = event.appended.iter().filter(|one| one.open.is_none());
        self.growths.forget_whole(closed.map(|one| one.sequence));
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
        let added = group(&epoch, messages, head.head, self.ring.back());
        self.ring.extend(added.iter().cloned());
        Applied {
            added,
            due,
            held: is_quiet && self.changes.told() < head.change_head,
        }
    }

    fn concerns(&self, cursor: &mut Cursor, user: &str) -> bool {
        // No member has this floor.
        let floor = if cursor.by_role {
            u64::MAX
        } else {
            cursor.floor
        };
        self.readers.concern(user, floor, &mut cursor.turn)
    }

    fn next(&self, cursor: &mut Cursor, user: &str) -> Next {
        let read = |foreign| Next::Read {
            doubt: self.doubt,
            turn: self.readers.turn(),
            foreign,
        };
        let is_unsure = cursor.unsure || cursor.more || cursor.doubt != self.doubt;
        if self.concerns(cursor, user) || is_unsure {
            return read(None);
        }
        if let Some(epoch) = &self.epoch
            && **epoch != *cursor.epoch
        {
            // Either the log's follower is behind what the cursor has read, or the timeline was made anew: ask once.
            return if cursor.foreign.as_ref() == Some(epoch) {
                Next::CaughtUp
            } else {
                read(Some(Arc::clone(epoch)))
            };
        }
        if self.epoch.is_none() {
            return Next::CaughtUp;
        }
        if self.changes.told() > cursor.change {
            return read(None);
        }
        if self.head > cursor.sequence {
            let place = self
                .ring
                .binary_search_by_key(&(cursor.sequence + 1), |fresh| fresh.first());
            return place.map_or_else(|_| read(None), |at| Next::Fresh(Arc::clone(&self.ring[at])));
        }
        if self.meta_version > cursor.meta_version {
            return Next::Meta;
        }
        Next::CaughtUp
    }
}

#[cfg(test)]
mod tests {
    use super::budget::Budget;
    use super::*;
    use crate::feed::mailbox::Mailbox;
    use crate::feed::registry::publish;
    use crate::timeline::{Head, Message, Standing};
    use tideline_base::metrics::Metrics;

    fn budget(bytes_max: usize) -> Budget {
        Budget::new(bytes_max, Metrics::default().feed.ring_bytes)
    }

    fn topic() -> (Arc<Topic>, Budget) {
        (Arc::new(Topic::new(Arc::from("t"))), budget(1 << 20))
    }

    fn event(epoch: &str, head: u64, change_head: u64, appended: &[u64]) -> TimelineEvent {
        TimelineEvent {
            timeline: "t".to_owned(),
            head: Some(Head {
                epoch: epoch.to_owned(),
                head,
                floor: 1,
                change_head,
            }),
            members: Standing::default(),
            meta_version: None,
            appended: appended.iter().map(|sequence| message(*sequence)).collect(),
            changed: Vec::new(),
            reacted: false,
            configured: false,
        }
    }

    fn message(sequence: u64) -> Message {
        Message {
            sequence,
            timestamp: 1,
            entry: Some(Vec::new()),
            ..Message::default()
        }
    }

    fn cursor(epoch: &str, sequence: u64, change: u64) -> Cursor {
        Cursor::at(epoch, sequence, change)
    }

    fn fresh_range(next: Next) -> Option<(u64, u64)> {
        match next {
            Next::Fresh(fresh) => Some((fresh.first(), fresh.last())),
            _ => None,
        }
    }

    #[test]
    fn fresh_messages_come_from_the_ring_and_older_ones_from_the_store() {
        let (topic, budget) = topic();
        publish(&topic, event("A", 3, 0, &[2, 3]), &budget);
        publish(&topic, event("A", 4, 0, &[4]), &budget);
        assert_eq!(
            fresh_range(topic.next(&mut cursor("A", 1, 0), "")),
            Some((2, 3))
        );
        assert_eq!(
            fresh_range(topic.next(&mut cursor("A", 3, 0), "")),
            Some((4, 4))
        );
        assert!(matches!(
            topic.next(&mut cursor("A", 4, 0), ""),
            Next::CaughtUp
        ));
        // Before the ring, within a group, and ahead of the log.
        assert!(matches!(
            topic.next(&mut cursor("A", 0, 0), ""),
            Next::Read { .. }
        ));
        assert!(matches!(
            topic.next(&mut cursor("A", 2, 0), ""),
            Next::Read { .. }
        ));
        assert!(matches!(
            topic.next(&mut cursor("A", 9, 0), ""),
            Next::CaughtUp
        ));
    }

    #[test]
    fn an_edit_takes_its_group_out_and_sends_readers_to_the_store() {
        let (topic, budget) = topic();
        publish(&topic, event("A", 1, 0, &[1]), &budget);
        publish(&topic, event("A", 3, 0, &[2, 3]), &budget);
        let mut edit = event("A", 3, 1, &[]);
        edit.changed = vec![3];
        publish(&topic, edit, &budget);
        assert!(matches!(
            topic.next(&mut cursor("A", 3, 0), ""),
            Next::Read { .. }
        ));
        assert!(matches!(
            topic.next(&mut cursor("A", 3, 1), ""),
            Next::CaughtUp
        ));
        assert_eq!(
            fresh_range(topic.next(&mut cursor("A", 0, 1), "")),
            Some((1, 1))
        );
        assert!(matches!(
            topic.next(&mut cursor("A", 1, 1), ""),
            Next::Read { .. }
        ));
    }

    #[test]
    fn a_group_knows_the_one_before_it_while_that_is_kept() {
        let (topic, budget) = topic();
        publish(&topic, event("A", 2, 0, &[1, 2]), &budget);
        publish(&topic, event("A", 3, 0, &[3]), &budget);
        publish(&topic, event("A", 5, 0, &[5]), &budget);
        let before = |cursor| match topic.next(&mut self::cursor("A", cursor, 0), "") {
            Next::Fresh(fresh) => fresh.before().map(|before| before.last()),
            _ => panic!("it is in the ring"),
        };
        assert_eq!((before(0), before(2), before(4)), (None, Some(2), None));
        let mut edit = event("A", 5, 0, &[]);
        edit.changed = vec![2];
        publish(&topic, edit, &budget);
        assert_eq!(before(2), None);
    }

    #[test]
    fn a_deletion_or_a_lost_place_makes_every_reader_ask_once() {
        let (topic, budget) = topic();
        publish(&topic, event("A", 1, 0, &[1]), &budget);
        let mut reader = cursor("A", 1, 0);
        let mut gone = event("A", 0, 0, &[]);
        gone.head = None;
        publish(&topic, gone, &budget);
        let Next::Read { doubt, .. } = topic.next(&mut reader, "") else {
            panic!("the store must be asked")
        };
        reader.doubt = doubt;
        assert!(matches!(topic.next(&mut reader, ""), Next::CaughtUp));
        topic.doubt();
        assert!(matches!(topic.next(&mut reader, ""), Next::Read { .. }));
    }

    #[test]
    fn a_reader_ahead_of_the_log_asks_once_about_an_old_epoch() {
        // The timeline was made anew and read before the follower of the log got there.
        let (topic, budget) = topic();
        let mut reader = cursor("B", 0, 0);
        publish(&topic, event("A", 7, 0, &[7]), &budget);
        let Next::Read { foreign, .. } = topic.next(&mut reader, "") else {
            panic!("the store must be asked")
        };
        assert_eq!(foreign.as_deref(), Some("A"));
        reader.foreign = foreign;
        assert!(matches!(topic.next(&mut reader, ""), Next::CaughtUp));
        publish(&topic, event("A", 8, 0, &[8]), &budget);
        assert!(matches!(topic.next(&mut reader, ""), Next::CaughtUp));
        publish(&topic, event("B", 1, 0, &[1]), &budget);
        let Next::Read { doubt, .. } = topic.next(&mut reader, "") else {
            panic!("a new epoch is a doubt")
        };
        reader.doubt = doubt;
        assert_eq!(fresh_range(topic.next(&mut reader, "")), Some((1, 1)));
    }

    #[test]
    fn the_budget_puts_the_oldest_group_out_first() {
        let topic = Arc::new(Topic::new(Arc::from("t")));
        let budget = budget(2_000);
        for sequence in 1..=50 {
            publish(&topic, event("A", sequence, 0, &[sequence]), &budget);
        }
        assert!(matches!(
            topic.next(&mut cursor("A", 0, 0), ""),
            Next::Read { .. }
        ));
        assert_eq!(
            fresh_range(topic.next(&mut cursor("A", 49, 0), "")),
            Some((50, 50))
        );
        assert!(lock(&topic.state).ring.len() < 8);
    }

    #[test]
    fn watchers_are_told_until_they_leave() {
        let (topic, budget) = topic();
        let (one, two) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        let now = std::time::Instant::now();
        let first = topic.watchers.join(&one, 5);
        let second = topic.watchers.join(&two, 6);
        publish(&topic, event("A", 1, 0, &[1]), &budget);
        let take = |mailbox: &Arc<Mailbox>| {
            let mut slots = Vec::new();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = mailbox.poll_take(&mut context, &mut slots);
            slots
        };
        assert_eq!((take(&one), take(&two)), (vec![5], vec![6]));
        assert!(!topic.watchers.leave(first, now).0);
        publish(&topic, event("A", 2, 0, &[2]), &budget);
        assert_eq!((take(&one), take(&two)), (vec![], vec![6]));
        assert!(topic.watchers.leave(second, now).0);
    }

    #[test]
    fn reactions_wait_and_wake_nobody_meanwhile() {
        let (topic, budget) = topic();
        let mailbox = Arc::new(Mailbox::default());
        topic.watchers.join(&mailbox, 5);
        let reacted = |change| TimelineEvent {
            reacted: true,
            ..event("A", 1, change, &[])
        };
        publish(&topic, event("A", 1, 0, &[1]), &budget);
        assert_eq!(publish(&topic, reacted(1), &budget), (1, None));
        let mut reader = cursor("A", 1, 0);
        assert!(matches!(topic.next(&mut reader, ""), Next::Read { .. }));
        reader.change = 1;
        let (woken, due) = publish(&topic, reacted(2), &budget);
        assert_eq!(
            (woken, publish(&topic, reacted(3), &budget)),
            (0, (0, None))
        );
        assert!(matches!(topic.next(&mut reader, ""), Next::CaughtUp));
        // A new message goes out meanwhile, from the ring.
        publish(&topic, event("A", 2, 3, &[2]), &budget);
        assert_eq!(fresh_range(topic.next(&mut reader, "")), Some((2, 2)));
        reader.sequence = 2;
        topic.gather(due.unwrap());
        assert!(matches!(topic.next(&mut reader, ""), Next::Read { .. }));
        // An edit does not wait.
        reader.change = 3;
        publish(&topic, reacted(4), &budget);
        let mut edit = event("A", 2, 5, &[]);
        edit.changed = vec![1];
        publish(&topic, edit, &budget);
        assert!(matches!(topic.next(&mut reader, ""), Next::Read { .. }));
    }
}
