//! What one connection follows: streams of changes, and in this file its subscriptions.
//!
//! Owns: which timelines are subscribed, which of them have news, and their order. Promises: no push before the
//! subscribe reply or after the unsubscribe reply; each gets its turn; nothing is fetched while the socket has no room.
//! Must not: hold a payload: what is fetched goes to the outbox at once. Only a subscribe holds what it has read, one
//! frame of it at most.

pub(super) mod anew;
pub(super) mod conversations;
pub(super) mod deltas;
pub(super) mod opening;
pub(super) mod parts;
pub(super) mod response;
pub(super) mod slot;
pub(super) mod slots;
pub(super) mod streams;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::form::Form;
use super::super::outbox::Outbox;
use super::super::{Shared, encode_push};
use super::jobs::Done;
use conversations::Conversations;
use deltas::Deltas;
use parts::{Opening, Rest};
use response::EventStream;
use slot::{Live, Slot};
use slots::Slots;
use tideline_base::bounds::Share;
use tideline_base::metrics::Metrics;
use tideline_model::access::Asker;
use tideline_timelines::feed::{Ended, Feed, Grown, Mailbox, Next, Pull, Subscription, Watch, Who};
use tideline_wire::push;

/// All subscriptions of a connection.
pub(super) struct Subscriptions {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slots: Slots<Slot>,
    /// Slots with news, each at most once.
    pub(super) turn: VecDeque<u32>,
    pub(super) generations: u64,
    /// Timelines that were subscribed together and are not read yet, for `subscribed` pushes.
    pub(super) rests: VecDeque<Box<Rest>>,
    pub(super) conversations: Option<Box<Conversations>>,
    /// Of these, subscriptions that are there because the timeline is one of the user's conversations.
    pub(super) followed: usize,
    /// Those that are to be decided again.
    pub(super) doubted: VecDeque<Opening>,
    /// The asker of the newest subscription, so that all of the same caller share it.
    pub(super) asker: Arc<Asker>,
    /// What has ended, which the session says; `None` = it is said here.
    pub(super) gone: Option<Vec<(Arc<str>, push::Ended)>>,
    /// What makes events of pushes; `None` = they go out as messages of a WebSocket.
    pub(super) events: Option<Box<EventStream>>,
    /// Of the timelines that all connections follow.
    pub(super) share: Share,
    metrics: Arc<Metrics>,
}

impl Subscriptions {
    pub(super) fn new(share: Share, metrics: Arc<Metrics>) -> Subscriptions {
        Subscriptions {
            mailbox: Arc::default(),
            slots: Slots::new(),
            turn: VecDeque::new(),
            generations: 0,
            rests: VecDeque::new(),
            conversations: None,
            followed: 0,
            doubted: VecDeque::new(),
            asker: Arc::default(),
            gone: None,
            events: None,
            share,
            metrics,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn contains(&self, timeline: &str) -> bool {
        self.slots.find(timeline).is_some()
    }

    /// If this timeline's subscribe was answered and its subscription goes on: up to where its right to read was
    /// checked, unless it must be checked again.
    pub(super) fn turn(&mut self, timeline: &str) -> Option<u32> {
        let place = self.slots.find(timeline)?;
        let live = self.slots.get_mut(place)?.live.as_mut()?;
        live.subscription.turn()
    }

    /// The user and the device of the connection, from now on.
    pub(super) fn name(&mut self, who: Option<Arc<Who>>) {
        if self.mailbox.who() == who {
            return;
        }
        let before = self.mailbox.set_who(who);
        for live in self.slots.iter().filter_map(|(_, slot)| slot.live.as_ref()) {
            live.subscription.renamed(before.clone());
        }
    }

    /// Takes a place for a timeline that is not subscribed yet, and watches it.
    pub(super) fn open(&mut self, feed: &Feed, timeline: &str) -> (Opening, Watch) {
        let place = self.slots.next_place();
        let watch = feed.watch(timeline, &self.mailbox, place);
        self.generations += 1;
        self.slots.insert(Slot {
            name: Arc::clone(watch.timeline()),
            generation: self.generations,
            in_turn: false,
            is_followed: false,
            deltas: Deltas::default(),
            live: None,
        });
        self.metrics.feed.subscriptions.increment(1.0);
        self.share.force(self.slots.len());
        let opening = Opening {
            slot: place,
            generation: self.generations,
        };
        (opening, watch)
    }

    /// One subscription's part of a reply was given: from now on it may push, if there is something to follow.
    pub(super) fn opened(&mut self, at: Opening, subscription: Option<Subscription>) {
        let asker = Arc::clone(&self.asker);
        let Some(slot) = self.get(at) else { return };
        match subscription {
            Some(mut subscription) => {
                subscription.decide_again(&asker);
                slot.live = Some(Live {
                    subscription,
                    reading: false,
                    has_caught_up: false,
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
        let Some(place) = self.slots.find(timeline) else {
            return Ok(());
        };
        let current = self.slots.get(place).and_then(Slot::epoch);
        if let (Some(current), Some(epoch)) = (current, epoch)
            && current != epoch
        {
            return Err(current.to_owned());
        }
        self.remove(place);
        Ok(())
    }

    /// Those that were subscribed by name.
    pub(super) fn named(&self) -> usize {
        let own_side = usize::from(self.conversations.is_some());
        self.len() - self.followed - own_side
    }

    /// Takes a place for one of the user's conversations.
    pub(super) fn follow(&mut self, feed: &Feed, timeline: &str) -> (Opening, Watch) {
        let (at, watch) = self.open(feed, timeline);
        if let Some(slot) = self.get(at) {
            slot.is_followed = true;
            self.followed += 1;
        }
        (at, watch)
    }

    /// Ends one of them; gives its epoch.
    pub(super) fn unfollow(&mut self, timeline: &str) -> Option<String> {
        let place = self.slots.find(timeline)?;
        let slot = self.slots.get(place);
        let slot = slot.filter(|slot| slot.is_followed)?;
        let epoch = slot.epoch().unwrap_or_default().to_owned();
        self.remove(place);
        Some(epoch)
    }

    /// Ends all of them.
    pub(super) fn remove_followed(&mut self) {
        let followed = self.slots.iter().filter(|(_, slot)| slot.is_followed);
        let places: Vec<u32> = followed.map(|(place, _)| place).collect();
        for place in places {
            self.remove(place);
        }
    }

    /// There is news for a slot.
    pub(super) fn mark(&mut self, place: u32) {
        if self.mark_own_side(place) {
            return;
        }
        if let Some(slot) = self.slots.get_mut(place)
            && slot.live.is_some()
            && !slot.in_turn
        {
            slot.in_turn = true;
            self.turn.push_back(place);
        }
    }

    /// What is to be read before the next push.
    pub(super) fn next_read(&mut self, shared: &Arc<Shared>) -> Option<BoxFuture<'static, Done>> {
        self.look_at_user(shared)
            .or_else(|| self.next_doubted(&shared.feed))
            .or_else(|| self.next_rest())
    }

    /// Puts what comes next into the outbox while it has room; gives a look at the store that has to be made first.
    pub(super) fn pump(
        &mut self,
        outbox: &mut Outbox,
        form: Form,
        now_ms: u64,
        may_fetch: bool,
    ) -> Option<BoxFuture<'static, Done>> {
        while outbox.has_room() && !self.is_over() {
            let place = self.turn.pop_front()?;
            let Some(slot) = self.slots.get_mut(place) else {
                continue;
            };
            slot.in_turn = false;
            let at = Opening {
                slot: place,
                generation: slot.generation,
            };
            let Some(live) = &mut slot.live else { continue };
            if live.caught_up_ms == 0 {
                live.caught_up_ms = now_ms;
            }
            if !live.pull(&self.mailbox, outbox, &slot.name, form) {
                self.mark(place);
                return None;
            }
            if live.reading {
                continue;
            }
            match live.subscription.look() {
                Next::CaughtUp => (live.caught_up_ms, live.has_caught_up) = (now_ms, true),
                Next::Fresh(fresh) => {
                    let frame = slot.deltas.frame(&slot.name, &fresh, form);
                    if let Some(events) = &mut self.events {
                        let change = live.subscription.cursor().change;
                        let place = (&*fresh.epoch, fresh.last(), change);
                        events.moved(&slot.name, place, outbox);
                    }
                    outbox.push(frame);
                    let delivered = &self.metrics.feed.deliveries;
                    delivered.increment(fresh.messages.len() as u64);
                    live.subscription.sent(&fresh);
                    live.delivered(fresh.messages.last().map(|message| message.timestamp));
                    self.mark(place);
                }
                Next::Grown(grown) => {
                    let encode = |grown: &Grown| encode_push::grown(&slot.name, grown, form);
                    outbox.push(grown.frame(form.number(), encode));
                    self.metrics.growth.pushes.increment(1);
                    live.subscription.sent_parts(&grown);
                    self.mark(place);
                }
                next @ (Next::Read { .. } | Next::ReadParts { .. } | Next::Meta) => {
                    if !may_fetch {
                        slot.in_turn = true;
                        self.turn.push_front(place);
                        return None;
                    }
                    live.reading = true;
                    let pull = live.subscription.read(&next);
                    let fetched = pull.map(move |pull| Done::Fetched(at, next, pull));
                    return Some(fetched.boxed());
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
        let before = live.subscription.cursor().sequence;
        live.subscription.arrived(next, &pull);
        let has_moved = live.subscription.cursor().sequence != before;
        match pull {
            Pull::Page(page, _) => {
                let frames = slot.deltas.frames(&name, &page, form, bytes_max);
                if has_moved {
                    slot.deltas.forget();
                }
                let messages = &page.changed.messages;
                deliveries.increment(messages.len() as u64);
                live.delivered(messages.last().map(|message| message.timestamp));
                let epoch = &*page.changed.head.epoch;
                for frame in frames.iter() {
                    if let Some(events) = &mut self.events {
                        events.moved(&name, (epoch, frame.sequence, frame.change), outbox);
                    }
                    outbox.push(frame.push.clone());
                }
                self.mark(at.slot);
            }
            Pull::Parts(grown) => {
                if let Some(grown) = grown.filter(|grown| !grown.text.is_empty()) {
                    outbox.push(encode_push::grown(&name, &grown, form));
                    self.metrics.growth.pushes.increment(1);
                }
                self.mark(at.slot);
            }
            Pull::Meta(meta, version) => {
                outbox.push(encode_push::meta(&name, meta, version, form));
                self.mark(at.slot);
            }
            Pull::Ended(why) => self.end(at, why, outbox, form),
        }
    }

    pub(super) fn end(&mut self, at: Opening, why: Ended, outbox: &mut Outbox, form: Form) {
        let Some(slot) = self.get(at) else { return };
        let why = match why {
            Ended::NotAMember if !slot.is_followed => Ended::Forbidden,
            other => other,
        };
        let name = Arc::clone(&slot.name);
        let epoch = slot.epoch().unwrap_or_default().to_owned();
        self.remove(at.slot);
        if let Some(gone) = &mut self.gone {
            gone.push((name, why));
        } else {
            self.say_ended((&name, &epoch), why, outbox, form);
        }
    }

    /// Nothing of a timeline follows.
    fn say_ended(
        &mut self,
        (timeline, epoch): (&str, &str),
        why: Ended,
        outbox: &mut Outbox,
        form: Form,
    ) {
        if let Some(events) = &mut self.events {
            events.ended(timeline, why, outbox);
        }
        outbox.push(encode_push::ended(timeline, epoch, why, form));
    }

    pub(super) fn get(&mut self, at: Opening) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(at.slot)?;
        (slot.generation == at.generation).then_some(slot)
    }

    pub(super) fn remove(&mut self, place: u32) {
        if let Some(slot) = self.slots.remove(place) {
            self.metrics.feed.subscriptions.decrement(1.0);
            self.share.force(self.slots.len());
            self.followed -= usize::from(slot.is_followed);
            if slot.in_turn {
                self.turn.retain(|waiting| *waiting != place);
            }
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let subscriptions = &self.metrics.feed.subscriptions;
        subscriptions.decrement(self.len() as f64);
    }
}
