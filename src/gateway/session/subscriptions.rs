//! The subscriptions of one connection.
//!
//! Owns: which timelines are subscribed, which of them have news, and their order. Promises: no push before the
//! subscribe reply or after the unsubscribe reply; each gets its turn; nothing is fetched while the socket has no room.
//! Must not: hold a payload: what is fetched goes to the outbox at once.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::super::form::Form;
use super::super::outbound::{self, Outbox};
use super::answer::Opening;
use crate::feed::{Ended, Feed, Mailbox, Next, Pull, Pulled, Subscription, Watch, Who};
use crate::metrics::Metrics;

/// All subscriptions of a connection.
pub(super) struct Subscriptions {
    pub(super) mailbox: Arc<Mailbox>,
    /// Places in `slots`, by the names there.
    by_name: HashTable<u32>,
    hasher: RandomState,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slots with news, each at most once.
    turn: VecDeque<u32>,
    generations: u64,
    metrics: Arc<Metrics>,
}

struct Slot {
    name: Arc<str>,
    generation: u64,
    in_turn: bool,
    /// `None` until the subscribe is answered.
    live: Option<Live>,
}

struct Live {
    subscription: Subscription,
    /// A look at the store is under way.
    reading: bool,
    /// Everything committed up to this time was delivered; 0 = never caught up yet. ms since 1970.
    caught_up_ms: u64,
}

/// A look at the store that a subscription needs.
pub(super) struct Fetch {
    pub(super) at: Opening,
    pub(super) next: Next,
    pub(super) pull: futures_util::future::BoxFuture<'static, Pull>,
}

impl Subscriptions {
    pub(super) fn new(metrics: Arc<Metrics>) -> Subscriptions {
        Subscriptions {
            mailbox: Arc::default(),
            by_name: HashTable::new(),
            hasher: RandomState::default(),
            slots: Vec::new(),
            free: Vec::new(),
            turn: VecDeque::new(),
            generations: 0,
            metrics,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn contains(&self, timeline: &str) -> bool {
        self.place(timeline).is_some()
    }

    /// Whether this timeline's subscribe was answered and its subscription goes on.
    pub(super) fn is_live(&self, timeline: &str) -> bool {
        let place = self.place(timeline);
        let slot = place.and_then(|place| self.slots[place as usize].as_ref());
        slot.is_some_and(|slot| slot.live.is_some())
    }

    /// The user and the device of the connection, from now on.
    pub(super) fn name(&mut self, who: Option<Arc<Who>>) {
        if self.mailbox.who() == who {
            return;
        }
        let before = self.mailbox.set_who(who);
        let lives = self.slots.iter().flatten();
        for live in lives.filter_map(|slot| slot.live.as_ref()) {
            live.subscription.renamed(before.clone());
        }
    }

    /// Takes a place for a timeline that is not subscribed yet, and watches it.
    pub(super) fn open(&mut self, feed: &Feed, timeline: &str) -> (Opening, Watch) {
        let place = self.free.pop().unwrap_or_else(|| {
            if self.slots.len() == self.slots.capacity() {
                // Doubling would leave up to half of it empty, on each connection.
                self.slots.reserve_exact(4 + self.slots.len() / 4);
            }
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("subscriptions are limited far below")
        });
        let watch = feed.watch(timeline, &self.mailbox, place);
        self.generations += 1;
        self.slots[place as usize] = Some(Slot {
            name: Arc::clone(watch.timeline()),
            generation: self.generations,
            in_turn: false,
            live: None,
        });
        let Subscriptions {
            by_name,
            hasher,
            slots,
            ..
        } = self;
        let hash = |place: &u32| hasher.hash_one(name_at(slots, *place));
        by_name.insert_unique(hasher.hash_one(timeline), place, hash);
        self.metrics.feed.subscriptions.increment(1.0);
        let opening = Opening {
            slot: place,
            generation: self.generations,
        };
        (opening, watch)
    }

    /// The subscribe was answered: from now on it may push, if there is something to follow.
    pub(super) fn opened(&mut self, at: Opening, subscription: Option<Subscription>) {
        let Some(slot) = self.get(at) else { return };
        match subscription {
            Some(subscription) => {
                slot.live = Some(Live {
                    subscription,
                    reading: false,
                    caught_up_ms: 0,
                });
                // News that came while it opened found no subscription.
                self.mark(at.slot);
            }
            None => self.remove(at.slot),
        }
    }

    /// Ends a subscription, if `epoch` is none or its own; otherwise gives its epoch.
    pub(super) fn close(&mut self, timeline: &str, epoch: Option<&str>) -> Result<(), String> {
        let Some(place) = self.place(timeline) else {
            return Ok(());
        };
        let current = self.slots[place as usize]
            .as_ref()
            .and_then(|slot| slot.live.as_ref());
        if let (Some(live), Some(epoch)) = (current, epoch)
            && *live.subscription.cursor().epoch != *epoch
        {
            return Err(live.subscription.cursor().epoch.as_ref().to_owned());
        }
        self.remove(place);
        Ok(())
    }

    /// There is news for a slot.
    pub(super) fn mark(&mut self, place: u32) {
        if let Some(Some(slot)) = self.slots.get_mut(place as usize)
            && slot.live.is_some()
            && !slot.in_turn
        {
            slot.in_turn = true;
            self.turn.push_back(place);
        }
    }

    /// Puts what comes next into the outbox while it has room; gives a look at the store that has to be made first.
    pub(super) fn pump(
        &mut self,
        outbox: &mut Outbox,
        form: Form,
        now_ms: u64,
        may_fetch: bool,
    ) -> Option<Fetch> {
        while outbox.has_room() {
            let place = self.turn.pop_front()?;
            let Some(Some(slot)) = self.slots.get_mut(place as usize) else {
                continue;
            };
            slot.in_turn = false;
            let at = Opening {
                slot: place,
                generation: slot.generation,
            };
            let Some(live) = &mut slot.live else { continue };
            if !live.pull(&self.mailbox, outbox, &slot.name, form) {
                self.mark(place);
                return None;
            }
            if live.reading {
                continue;
            }
            match live.subscription.look() {
                Next::CaughtUp => live.caught_up_ms = now_ms,
                Next::Fresh(fresh) => {
                    let frame = fresh.frame(form.number(), |fresh| {
                        outbound::fresh(&slot.name, fresh, form)
                    });
                    outbox.push(frame);
                    let delivered = &self.metrics.feed.deliveries;
                    delivered.increment(fresh.messages.len() as u64);
                    live.subscription.sent(&fresh);
                    live.delivered(fresh.messages.last().map(|message| message.timestamp));
                    self.mark(place);
                }
                next @ (Next::Read { .. } | Next::Meta) => {
                    if !may_fetch {
                        slot.in_turn = true;
                        self.turn.push_front(place);
                        return None;
                    }
                    live.reading = true;
                    let pull = Box::pin(live.subscription.read(&next));
                    return Some(Fetch { at, next, pull });
                }
            }
        }
        None
    }

    /// A look at the store is done.
    pub(super) fn arrived(
        &mut self,
        at: Opening,
        next: Next,
        pull: Pull,
        outbox: &mut Outbox,
        form: Form,
        bytes_max: usize,
    ) {
        let deliveries = self.metrics.feed.deliveries.clone();
        let Some(slot) = self.get(at) else { return };
        let name = Arc::clone(&slot.name);
        let Some(live) = &mut slot.live else { return };
        live.reading = false;
        live.subscription.arrived(next, &pull);
        match pull {
            Pull::Page(page) => {
                let frames = page.frames(form.number(), |page| {
                    outbound::page(&name, page, form, bytes_max)
                });
                let messages = &page.changed.messages;
                deliveries.increment(messages.len() as u64);
                live.delivered(messages.last().map(|message| message.timestamp));
                for frame in frames.iter() {
                    outbox.push(frame.clone());
                }
                self.mark(at.slot);
            }
            Pull::Meta(meta, version) => {
                outbox.push(outbound::meta(&name, meta, version, form));
                self.mark(at.slot);
            }
            Pull::Ended(why) => self.end(at, why, outbox, form),
        }
    }

    /// Whether some subscription that had caught up lags by more than `limit_ms`.
    pub(super) fn is_behind(&self, now_ms: u64, limit_ms: u64) -> bool {
        self.slots.iter().flatten().any(|slot| {
            let waits = |live: &Live| slot.in_turn || live.reading;
            slot.live.as_ref().is_some_and(|live| {
                waits(live)
                    && live.caught_up_ms != 0
                    && now_ms.saturating_sub(live.caught_up_ms) > limit_ms
            })
        })
    }

    /// The time before now does not count as lag.
    pub(super) fn excuse(&mut self, now_ms: u64) {
        let lives = self.slots.iter_mut().flatten();
        for live in lives.filter_map(|slot| slot.live.as_mut()) {
            if live.caught_up_ms != 0 {
                live.caught_up_ms = now_ms;
            }
        }
    }

    fn end(&mut self, at: Opening, why: Ended, outbox: &mut Outbox, form: Form) {
        let Some(slot) = self.get(at) else { return };
        let epoch = slot
            .live
            .as_ref()
            .map(|live| Arc::clone(&live.subscription.cursor().epoch));
        let frame = outbound::ended(&slot.name, epoch.as_deref().unwrap_or(""), why, form);
        outbox.push(frame);
        self.remove(at.slot);
    }

    fn place(&self, timeline: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(timeline);
        let is_it = |place: &u32| name_at(&self.slots, *place) == timeline;
        self.by_name.find(hash, is_it).copied()
    }

    fn get(&mut self, at: Opening) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(at.slot as usize)?.as_mut()?;
        (slot.generation == at.generation).then_some(slot)
    }

    fn remove(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place as usize).and_then(Option::take) {
            let found = self
                .by_name
                .find_entry(self.hasher.hash_one(&*slot.name), |at| *at == place);
            found.map(|entry| entry.remove()).ok();
            self.metrics.feed.subscriptions.decrement(1.0);
            if slot.in_turn {
                self.turn.retain(|waiting| *waiting != place);
            }
            self.free.push(place);
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let subscriptions = &self.metrics.feed.subscriptions;
        subscriptions.decrement(self.len() as f64);
    }
}

/// The timeline of a slot in use.
fn name_at(slots: &[Option<Slot>], place: u32) -> &str {
    let slot = slots.get(place as usize).and_then(Option::as_ref);
    slot.map_or("", |slot| &*slot.name)
}

impl Live {
    /// Puts what is never stored into the outbox, while that has room; whether it took all of it.
    fn pull(&mut self, own: &Arc<Mailbox>, outbox: &mut Outbox, name: &str, form: Form) -> bool {
        while outbox.has_room() {
            let Some(pulled) = self.subscription.pull(own) else {
                return true;
            };
            outbox.push(match pulled {
                Pulled::Whole(push) => {
                    push.frame(form.number(), |body| outbound::ephemeral(name, body, form))
                }
                Pulled::Numbers(push) => outbound::numbers(name, &push.body, form),
            });
        }
        false
    }

    fn delivered(&mut self, timestamp: Option<u64>) {
        if self.caught_up_ms != 0 {
            self.caught_up_ms = self.caught_up_ms.max(timestamp.unwrap_or(0));
        }
    }
}
