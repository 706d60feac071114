//! The timelines that are watched, and their watchers.
//!
//! Owns: the map from a timeline's name to its topic. Promises: a topic lives while it is watched and not longer;
//! looking up a timeline that is not watched costs one short lock. Must not: create anything for a published event.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::cursor::Cursor;
use super::ephemeral::{Body, Due, Following, Lane, Lanes, Online, Sent, Total, With};
use super::mailbox::{Mailbox, Who, lock};
use super::schedule::Schedule;
use super::sweep::{Sweep, window_ticks};
use super::topic::budget::Budget;
use super::topic::grown::GrownTotal;
use super::topic::readers::Moved;
use super::topic::{Applied, Topic};
use crate::timeline::{Growth, MemberChange, Standing, TimelineEvent, Timelines};
use tideline_base::faults::{is_named, point};
use tideline_base::metrics::Metrics;

/// Topics by name, in shards so that sessions and followers seldom meet.
pub(super) struct Registry {
    shards: Vec<Mutex<HashMap<Arc<str>, Arc<Topic>>>>,
    hasher: RandomState,
    topics: AtomicUsize,
    budget: Budget,
    pub(super) schedule: Arc<Schedule>,
    pub(super) sweep: Arc<Sweep>,
    ephemeral: Total,
    /// Watches that ask for parts.
    parts: AtomicUsize,
    pub(super) grown: GrownTotal,
    /// For all subscriptions, so that none holds a handle of its own.
    pub(super) timelines: Timelines,
    pub(super) metrics: Arc<Metrics>,
}

impl Registry {
    pub(super) fn new(
        fresh_bytes_max: usize,
        timelines: Timelines,
        metrics: Arc<Metrics>,
    ) -> Registry {
        Registry {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            topics: AtomicUsize::new(0),
            budget: Budget::new(fresh_bytes_max, metrics.feed.ring_bytes.clone()),
            schedule: Arc::default(),
            sweep: Arc::default(),
            ephemeral: Total::default(),
            parts: AtomicUsize::new(0),
            grown: GrownTotal::default(),
            timelines,
            metrics,
        }
    }

    /// Without watchers.
    pub(super) fn is_empty(&self) -> bool {
        self.topics.load(Ordering::SeqCst) == 0
    }

    /// Somebody watches this timeline.
    pub(super) fn is_watched(&self, timeline: &str) -> bool {
        lock(self.shard(timeline)).contains_key(timeline)
    }

    pub(super) fn watch(
        registry: &Arc<Registry>,
        timeline: &str,
        mailbox: &Arc<Mailbox>,
        slot: u32,
    ) -> Watch {
        let mut shard = lock(registry.shard(timeline));
        let topic = if let Some(topic) = shard.get(timeline) {
            Arc::clone(topic)
        } else {
            let name: Arc<str> = Arc::from(timeline);
            let topic = Arc::new(Topic::new(Arc::clone(&name)));
            shard.insert(name, Arc::clone(&topic));
            registry.topics.fetch_add(1, Ordering::SeqCst);
            registry.metrics.feed.topics.increment(1.0);
            topic
        };
        let place = topic.watchers.join(mailbox, slot);
        Watch {
            registry: Arc::clone(registry),
            topic,
            place,
            window: None,
        }
    }

    /// Whether somebody asks for parts of some timeline.
    pub(super) fn some_ask_parts(&self) -> bool {
        self.parts.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody asks for parts of this timeline.
    pub(super) fn asks_parts(&self, timeline: &str) -> bool {
        let topic = self.topic(timeline);
        topic.is_some_and(|topic| topic.watchers.asks_parts())
    }

    /// Tells parts to those watchers of their timeline that ask for them.
    pub(super) fn grew(&self, growth: &Growth) {
        if let Some(topic) = self.topic(&growth.timeline) {
            topic.grew(growth, &self.grown);
            let now = self.sweep.tick(Instant::now());
            let due = |tick| self.sweep.add(tick, &topic);
            topic.watchers.parts_came(now, due);
        }
        if self.grown.is_full() {
            self.each(Topic::forget_parts);
        }
    }

    /// A user has hidden messages of a timeline, which are to grow for that user no more: the store is asked first.
    pub(super) fn hid(&self, timeline: &str, user: &str) {
        self.moved(timeline, vec![(Box::from(user), Some(NO_FLOOR))]);
    }

    /// Tells an event to the timeline's watchers, if there are any.
    pub(super) fn publish(&self, event: TimelineEvent) {
        if let Some(topic) = self.topic(&event.timeline) {
            let (woken, due) = publish(&topic, event, &self.budget);
            self.schedule(due, &topic);
            self.metrics.feed.fanout.count(woken);
        }
    }

    /// Puts a signal into a timeline's lane. `from` does not get it back. `turn`: how far the sender's right to
    /// read was checked.
    pub(super) fn signal(
        &self,
        timeline: &str,
        body: Body,
        from: Option<&Arc<Mailbox>>,
        turn: Option<u32>,
    ) -> Sent {
        let topic = self.topic(timeline);
        let Some((topic, lanes)) = topic.and_then(|topic| {
            let lanes = topic.watchers.lanes()?;
            Some((topic, lanes))
        }) else {
            return Sent::Unheard;
        };
        if let (Body::Signal { who, .. }, Some(turn)) = (&body, turn)
            && topic.has_left(&who.user, turn)
        {
            return Sent::Dropped;
        }
        let (sent, due) = lanes.signal(body, from, Instant::now());
        self.schedule(due, &topic);
        if sent == Sent::Pushed {
            topic.watchers.wake_with(With::default().and(Lane::Signals));
        }
        sent
    }

    /// Whether somebody asks about members of some timeline.
    pub(super) fn asks_membership(&self) -> bool {
        self.ephemeral.asks_membership()
    }

    /// Tells a topic what some users may see now, before it hears of anything newer.
    pub(super) fn moved(&self, timeline: &str, moves: Vec<Moved>) {
        if let Some(topic) = self.topic(timeline) {
            topic.moved(moves);
        }
    }

    /// Tells the lanes of a timeline what a batch did to its members.
    pub(super) fn members(
        &self,
        timeline: &str,
        changes: Vec<MemberChange>,
        standing: Option<Standing>,
    ) {
        if let Some(topic) = self.topic(timeline)
            && let Some(lanes) = topic.watchers.lanes()
        {
            let due = lanes.members(changes, standing, Instant::now());
            self.schedule(due, &topic);
        }
    }

    /// The users who are online, so many of them by name.
    pub(super) fn online(&self, timeline: &str, limit: usize) -> Online {
        let topic = self.topic(timeline);
        topic.map_or_else(Online::default, |topic| topic.watchers.online(limit))
    }

    /// The subscriptions of a timeline.
    pub(super) fn subscribers(&self, timeline: &str) -> Vec<(Arc<Mailbox>, u32)> {
        let topic = self.topic(timeline);
        topic.map_or_else(Vec::new, |topic| topic.watchers.subscribers())
    }

    /// Bytes of parts that are kept for readers.
    pub(super) fn grown_bytes(&self) -> usize {
        self.grown.bytes()
    }

    /// Bytes that ephemeral pushes hold.
    pub(super) fn ephemeral_bytes(&self) -> usize {
        self.ephemeral.bytes()
    }

    /// Tells every watcher to ask the store.
    pub(super) fn doubt_all(&self) {
        self.each(Topic::doubt);
    }

    fn each(&self, tell: impl Fn(&Topic)) {
        for shard in &self.shards {
            let topics: Vec<_> = lock(shard).values().cloned().collect();
            topics.iter().for_each(|topic| tell(topic));
        }
    }

    fn topic(&self, timeline: &str) -> Option<Arc<Topic>> {
        lock(self.shard(timeline)).get(timeline).cloned()
    }

    fn schedule(&self, due: Due, topic: &Arc<Topic>) {
        if let Some(at) = due {
            self.schedule.add(at, topic);
        }
    }

    fn shard(&self, timeline: &str) -> &Mutex<HashMap<Arc<str>, Arc<Topic>>> {
        let hash = self.hasher.hash_one(timeline);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or_default()]
    }

    fn unwatch(&self, topic: &Arc<Topic>, place: usize) {
        let mut shard = lock(self.shard(&topic.name));
        let (is_last, due) = topic.watchers.leave(place, Instant::now());
        if is_last {
            shard.remove(&topic.name);
            self.topics.fetch_sub(1, Ordering::SeqCst);
            self.metrics.feed.topics.decrement(1.0);
            return;
        }
        drop(shard);
        self.schedule(due, topic);
    }
}

const SHARDS: usize = 16;
/// The floor of nobody, so that the store is asked.
const NO_FLOOR: u64 = u64::MAX - 1;

/// Tells a topic what a committed batch did; returns how many watchers that woke, and when the topic is to gather. New
/// groups are added to the budget before the watchers are woken, and while none of the topic's locks is held, because
/// the budget locks each topic that loses a group to it.
pub(super) fn publish(topic: &Arc<Topic>, event: TimelineEvent, budget: &Budget) -> (usize, Due) {
    if is_named("wakes_first") {
        topic.watchers.wake();
        point();
        return (0, topic.apply(event, Instant::now()).due);
    }
    let Applied { added, due, held } = topic.apply(event, Instant::now());
    point();
    for fresh in &added {
        budget.add(topic, fresh);
    }
    let woken = if held { 0 } else { topic.watchers.wake() };
    (woken, due)
}

/// A standing watch on one timeline; it ends when this is dropped.
pub struct Watch {
    pub(super) registry: Arc<Registry>,
    pub(super) topic: Arc<Topic>,
    place: usize,
    /// How long parts may gather for it, ticks; `None` = it does not ask for parts.
    window: Option<u8>,
}

impl Watch {
    /// From now on it is woken by parts of open messages too, which may gather for so long. Before the store is read.
    pub fn ask_parts(&mut self, window_ms: u64) {
        if self.window.is_none() {
            let window = window_ticks(window_ms);
            self.window = Some(window);
            self.registry.parts.fetch_add(1, Ordering::SeqCst);
            self.topic.watchers.ask_parts(self.place, window);
        }
    }

    /// Whether it is woken by parts.
    pub(super) fn asks_parts(&self) -> bool {
        self.window.is_some()
    }

    /// Whether parts gather before it is woken by them.
    pub(super) fn gathers(&self) -> bool {
        self.window.is_some_and(|window| window > 0)
    }

    /// The timeline's ID.
    #[must_use]
    pub fn timeline(&self) -> &Arc<str> {
        &self.topic.name
    }

    /// A cursor without a position yet. Take it before the store is read, so that what the log brings meanwhile counts
    /// as new.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let (doubt, turn, meta_version) = self.topic.seen();
        Cursor::begin(doubt, turn, meta_version)
    }

    /// It becomes a subscription, perhaps with lanes.
    pub(super) fn subscribe(&self, with: With, standing: Option<Standing>) -> Option<Following> {
        let Registry {
            ephemeral, metrics, ..
        } = &*self.registry;
        let lanes = || Lanes::new(ephemeral.clone(), metrics.feed.presence_users.clone());
        let watchers = &self.topic.watchers;
        let (following, due) =
            watchers.subscribe(self.place, (with, standing), Instant::now(), lanes);
        self.registry.schedule(due, &self.topic);
        following
    }

    /// The user of the connection is another one now; `before` is the earlier one.
    pub(super) fn renamed(&self, before: Option<Arc<Who>>) {
        let watchers = &self.topic.watchers;
        let due = watchers.renamed(self.place, before, Instant::now());
        self.registry.schedule(due, &self.topic);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.asks_parts() {
            self.registry.parts.fetch_sub(1, Ordering::SeqCst);
        }
        self.registry.unwatch(&self.topic, self.place);
    }
}
