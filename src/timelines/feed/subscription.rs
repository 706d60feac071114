//! A subscription: the way from a cursor to what comes next.
//!
//! Owns: the moves of the cursor. Promises: every sequence above the start once and in order, every change of what lies
//! behind the cursor; ends are final. Must not: hold payloads: a page or a group belongs to its sender.

use std::sync::Arc;

use super::cursor::{Cursor, Next, PageKey};
use super::ephemeral::{Following, Pulled, With};
use super::look::{Look, Pull};
use super::mailbox::{Mailbox, Who};
use super::registry::Watch;
use super::topic::fresh::Fresh;
use super::topic::grown::{Grown, NextParts, Told, UNSETTLED};
use crate::timeline::{Changed, Message, NONE_YET, Standing, Timelines};
use tideline_model::access::Asker;
pub use tideline_model::timelines::Ended;

/// One client's subscription on one timeline.
pub struct Subscription {
    pub(super) watch: Watch,
    /// Whose it is.
    pub(super) asker: Arc<Asker>,
    pub(super) cursor: Cursor,
    /// `None` = for nothing.
    asked: Option<Box<AskedFor>>,
}

/// What a subscription asks for by `with`.
#[derive(Default)]
struct AskedFor {
    /// `None` = it asked for no lane.
    following: Option<Following>,
    /// `None` = it did not ask for parts.
    told: Option<Told>,
}

impl Subscription {
    pub(super) fn new(
        watch: Watch,
        asker: Arc<Asker>,
        mut cursor: Cursor,
        (with, standing): (With, Option<Standing>),
    ) -> Subscription {
        cursor.epoch = watch.topic.shared_epoch(cursor.epoch);
        cursor.by_role = !asker.reads_by_name(watch.timeline().as_bytes());
        let asked = AskedFor {
            following: watch.subscribe(with, standing),
            told: watch.asks_parts().then(Told::default),
        };
        let is_some = asked.following.is_some() || asked.told.is_some();
        Subscription {
            asked: is_some.then(|| Box::new(asked)),
            watch,
            asker,
            cursor,
        }
    }

    /// The timeline's ID.
    #[must_use]
    pub fn timeline(&self) -> &Arc<str> {
        self.watch.timeline()
    }

    /// Its position.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// What comes next; a look at memory only. Send fresh messages, and call [`Subscription::sent`].
    #[must_use]
    pub fn look(&mut self) -> Next {
        match self.watch.topic.next(&mut self.cursor, self.asker.user()) {
            // Not to be shown any more, before the log says so: the store leaves it out, and what may not be named.
            Next::Fresh(fresh)
                if fresh.has_expired(|| self.watch.registry.timelines.now_ms())
                    || self.may_hide(&fresh) =>
            {
                Next::Read {
                    doubt: self.cursor.doubt,
                    turn: self.cursor.turn,
                    foreign: None,
                }
            }
            Next::Fresh(fresh) if self.watch.gathers() => self.gathered_before(fresh),
            Next::CaughtUp => {
                // Messages that come later count anew what goes before them.
                if let Some(told) = self.told_parts() {
                    told.ahead = 0;
                }
                self.look_at_parts()
            }
            next => next,
        }
    }

    /// A message does not wait for parts that gather, and does not overtake them.
    fn gathered_before(&mut self, fresh: Arc<Fresh>) -> Next {
        if self.told_parts().is_none_or(Told::is_ahead) {
            return Next::Fresh(fresh);
        }
        match self.look_at_parts() {
            grown @ Next::Grown(_) => grown,
            _ => Next::Fresh(fresh),
        }
    }

    fn look_at_parts(&mut self) -> Next {
        let Some(told) = self.asked.as_mut().and_then(|asked| asked.told.as_mut()) else {
            return Next::CaughtUp;
        };
        let total = &self.watch.registry.grown;
        match self.watch.topic.next_parts(&self.cursor, told, total) {
            NextParts::None => Next::CaughtUp,
            NextParts::Parts(grown) => Next::Grown(grown),
            NextParts::Read {
                sequence,
                after,
                doubt,
            } => Next::ReadParts {
                sequence,
                after,
                doubt,
            },
        }
    }

    /// The subscription was told of this, and of changes above a number. From now on it gets the parts that come to
    /// open messages among it.
    pub fn told(&mut self, changed: &Changed, since: u64) {
        let doubt = self.cursor.doubt;
        let Some(told) = self.told_parts() else {
            return;
        };
        for (sequence, parts) in &changed.open {
            // Perhaps not all that there is had room.
            told.of(*sequence, Some(*parts), UNSETTLED);
        }
        for message in &changed.messages {
            told.of(message.sequence, open_parts(message), doubt);
        }
        let edited = changed.changed.iter().flatten();
        // Of one that only got reactions nothing else was sent.
        for message in edited.filter(|message| !message.is_reacted(since)) {
            // Its user may have hidden it before.
            told.of(message.sequence, open_parts(message), UNSETTLED);
        }
    }

    /// Notes that the rights of its user were looked at in this turn. Where they are others now, each open message is
    /// looked up before it grows on: the user may have hidden it.
    pub(super) fn take_turn(&mut self, turn: u32) {
        if turn != self.cursor.turn
            && let Some(told) = self.told_parts()
        {
            told.doubt_all();
        }
        self.cursor.turn = turn;
        self.cursor.unsure = false;
    }

    /// How far it was told of open messages, if it asked for parts.
    fn told_parts(&mut self) -> Option<&mut Told> {
        self.asked.as_mut()?.told.as_mut()
    }

    /// Parts are on their way.
    pub fn sent_parts(&mut self, grown: &Grown) {
        let doubt = self.cursor.doubt;
        if let Some(told) = self.told_parts() {
            told.of(grown.sequence, Some(grown.parts), doubt);
            told.ahead = told.ahead.saturating_add(1);
        }
    }

    /// Whether some of it may name what its user may not read.
    fn may_hide(&self, fresh: &Fresh) -> bool {
        let Some(asker) = Timelines::inbox_asker(&self.asker, self.timeline()) else {
            return false;
        };
        let timelines = &self.watch.registry.timelines;
        !timelines.shows_all(&asker, &fresh.messages, self.watch.topic.roles())
    }

    /// Fresh messages are on their way.
    pub fn sent(&mut self, fresh: &Fresh) {
        self.cursor.sequence = fresh.last();
        let doubt = self.cursor.doubt;
        if let Some(told) = self.told_parts() {
            told.ahead = 0;
            for message in fresh.messages.iter().filter(|one| one.open.is_some()) {
                told.of(message.sequence, open_parts(message), doubt);
            }
        }
    }

    /// The next ephemeral push of those that it asked for; `own` is the connection's mailbox.
    pub fn pull(&mut self, own: &Arc<Mailbox>) -> Option<Pulled> {
        let following = self.asked.as_mut()?.following.as_mut()?;
        let user = self.asker.user();
        if self.cursor.unsure || self.watch.topic.concerns(&mut self.cursor, user) {
            // Perhaps it is not for them any more: the look comes first.
            return None;
        }
        let (pulled, lane, missed) = following.pull(own)?;
        let counted = &self.watch.registry.metrics.ephemeral;
        counted.pushes[lane as usize].increment(1);
        if missed > 0 {
            counted.missed[lane as usize].increment(missed);
        }
        Some(pulled)
    }

    /// Its session's credential, or what the configuration gives, is another now: before anything newer goes out it is
    /// decided again, with a look at the store where only membership tells. Whether it has to look.
    pub fn decide_anew(&mut self, asker: &Arc<Asker>) -> bool {
        if self.asker.claim().is_none() {
            // It was given by something else than a credential.
            return false;
        }
        self.asker = Arc::clone(asker);
        self.cursor.by_role = !asker.reads_by_name(self.timeline().as_bytes());
        self.cursor.unsure |= self.cursor.by_role;
        self.cursor.unsure
    }

    /// The same, if it began before the session was decided anew.
    pub fn decide_again(&mut self, asker: &Arc<Asker>) {
        if asker.claim().is_some() && !Arc::ptr_eq(&self.asker, asker) {
            self.decide_anew(asker);
        }
    }

    /// Up to which change of the timeline's readers its user's right to read was checked; `None` = it has to be checked
    /// again.
    #[must_use]
    pub fn turn(&mut self) -> Option<u32> {
        let user = self.asker.user();
        let is_concerned = self.cursor.unsure || self.watch.topic.concerns(&mut self.cursor, user);
        (!is_concerned).then_some(self.cursor.turn)
    }

    /// The user of the connection is another one now; `before` is the earlier one.
    pub fn renamed(&self, before: Option<Arc<Who>>) {
        self.watch.renamed(before);
    }

    /// Asks the store for what `next` said; the answer goes into [`Subscription::arrived`]. One at a time.
    pub fn read(&self, next: &Next) -> impl Future<Output = Pull> + Send + 'static {
        let key = PageKey {
            epoch: Arc::clone(&self.cursor.epoch),
            sequence: self.cursor.sequence,
            change: self.cursor.change,
            floor: self.cursor.floor,
        };
        let look = Look {
            registry: Arc::clone(&self.watch.registry),
            topic: Arc::clone(&self.watch.topic),
            asker: Arc::clone(&self.asker),
        };
        let (is_meta, parts) = match next {
            Next::ReadParts {
                sequence, after, ..
            } => (false, Some((*sequence, *after))),
            next => (matches!(next, Next::Meta), None),
        };
        async move {
            let pulled = match parts {
                Some((sequence, NONE_YET)) => look.whole(key, sequence).await,
                Some(place) => look.parts(&key, place).await,
                None if is_meta => look.meta(&key).await,
                None => look.page(key).await,
            };
            match pulled {
                Ok(pull) => pull,
                Err(error) => Pull::Ended(look.ended(&error).await),
            }
        }
    }

    /// Moves the cursor behind what [`Subscription::read`] brought for `next`.
    pub fn arrived(&mut self, next: Next, pull: &Pull) {
        match pull {
            Pull::Parts(grown) => {
                if let Next::ReadParts {
                    sequence, doubt, ..
                } = next
                    && let Some(told) = self.told_parts()
                {
                    // Until a look brings nothing there may be more.
                    let is_all = grown.as_ref().is_some_and(|grown| grown.text.is_empty());
                    let doubt = if is_all { doubt } else { UNSETTLED };
                    told.of(sequence, grown.as_ref().map(|grown| grown.parts), doubt);
                }
            }
            Pull::Page(page, floor) => {
                self.cursor.floor = *floor;
                self.cursor.sequence = page.changed.position;
                self.cursor.change = page.changed.change_position;
                self.cursor.more = page.changed.more;
                match next {
                    Next::Read {
                        doubt,
                        turn,
                        foreign,
                    } => {
                        self.cursor.doubt = doubt;
                        self.take_turn(turn);
                        if foreign.is_some() {
                            self.cursor.foreign = foreign;
                        }
                    }
                    // If the message is not in the page, there is nothing to tell of it. With a reaction alone it is
                    // still to come, behind that one.
                    Next::ReadParts { sequence, .. } => {
                        let edited = page.changed.changed.iter().flatten();
                        let mut reacted = edited.filter(|one| one.is_reacted(page.since));
                        let is_to_come = reacted.any(|one| one.sequence == sequence);
                        if let Some(told) = self.told_parts().filter(|_| !is_to_come) {
                            told.of(sequence, None, UNSETTLED);
                        }
                    }
                    _ => {}
                }
                self.told(&page.changed, page.since);
            }
            Pull::Meta(_, version) => self.cursor.meta_version = *version,
            Pull::Ended(_) => {}
        }
    }
}

/// How many parts of a message were sent with it, if it is open.
fn open_parts(message: &Message) -> Option<u64> {
    message.open.as_ref().map(|_| message.parts.unwrap_or(0))
}
