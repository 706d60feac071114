//! Deciding a session's subscriptions again when its credential, or what the configuration gives, is another.
//!
//! Owns: what they were last decided by. Promises: nothing newer is pushed by a decision of before; while both are
//! unchanged a push looks nothing up, and a step costs two comparisons. Must not: decide; the subscriptions do.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::super::Session;
use super::super::jobs::Done;
use super::Subscriptions;
use super::parts::Opening;
use crate::dispatch::Caller;
use crate::form::Form;
use crate::outbox::Outbox;
use tideline_model::access::Claim;
use tideline_timelines::feed;
use tideline_timelines::feed::Feed;
use tideline_wire::Method;

/// What the subscriptions of a session were decided by.
pub(in super::super) struct Decided {
    by: Option<Arc<Claim>>,
    /// Ends when the rules were replaced.
    replaced: BoxFuture<'static, watch::Receiver<u64>>,
}

fn replaced(mut turns: watch::Receiver<u64>) -> BoxFuture<'static, watch::Receiver<u64>> {
    async move {
        if turns.changed().await.is_err() {
            // The server ends.
            std::future::pending::<()>().await;
        }
        turns
    }
    .boxed()
}

impl Session {
    /// Has the subscriptions decided again, if there is a reason.
    pub(in super::super) fn decide_anew(&mut self, context: &mut Context<'_>) {
        let Some(door) = &self.shared.door else {
            return;
        };
        let decided = self.decided.get_or_insert_with(|| Decided {
            by: None,
            replaced: replaced(door.turns()),
        });
        let claim = self.caller.asker.claim();
        let mut is_new = decided.by.as_ref().map(Arc::as_ptr) != claim.map(Arc::as_ptr);
        while let Poll::Ready(turns) = decided.replaced.poll_unpin(context) {
            decided.replaced = replaced(turns);
            is_new = true;
        }
        if is_new {
            decided.by = claim.cloned();
            self.subscriptions.decide_anew(&self.caller);
        }
    }
}

impl Subscriptions {
    /// The session's credential is another now, or what the configuration gives: every subscription is decided again
    /// before anything newer goes out. What is being read for one was asked for by what was, and does not count.
    fn decide_anew(&mut self, caller: &Caller) {
        let asker = Arc::new(caller.asking(Method::Subscribe));
        self.asker = Arc::clone(&asker);
        if let Some(conversations) = &mut self.conversations {
            conversations.asked.asker = Arc::clone(&asker);
            conversations.is_dirty = true;
        }
        for rest in &mut self.rests {
            rest.asked.asker = Arc::clone(&asker);
        }
        self.doubted.clear();
        for (place, slot) in self.slots.iter_mut() {
            if let Some(live) = &mut slot.live
                && live.subscription.decide_anew(&asker)
            {
                self.generations += 1;
                (slot.generation, live.reading) = (self.generations, true);
                self.doubted.push_back(Opening {
                    slot: place,
                    generation: slot.generation,
                });
            }
        }
    }

    /// The next look that decides on subscriptions again.
    pub(super) fn next_doubted(&mut self, feed: &Feed) -> Option<BoxFuture<'static, Done>> {
        let (mut places, mut doubts) = (Vec::new(), Vec::new());
        while places.len() < DOUBTS_MAX
            && let Some(at) = self.doubted.pop_front()
        {
            if let Some(live) = self.get(at).and_then(|slot| slot.live.as_ref()) {
                doubts.push(live.subscription.doubt());
                places.push(at);
            }
        }
        if places.is_empty() {
            return None;
        }
        let (feed, asker) = (feed.clone(), Arc::clone(&self.asker));
        let deciding = async move {
            let decided = feed.decide(&asker, &doubts).await;
            Done::Decided(places.into_iter().zip(decided).collect())
        };
        Some(deciding.boxed())
    }

    /// Such a look is done. What it has not settled reads its page.
    pub(in super::super) fn decided(
        &mut self,
        decisions: Vec<(Opening, Option<feed::Decided>)>,
        outbox: &mut Outbox,
        form: Form,
    ) {
        for (at, decided) in decisions {
            let Some(live) = self.get(at).and_then(|slot| slot.live.as_mut()) else {
                continue;
            };
            live.reading = false;
            match live.subscription.decided(decided) {
                Some(why) => self.end(at, why, outbox, form),
                None => self.mark(at.slot),
            }
        }
    }
}

/// Subscriptions that one look decides on.
const DOUBTS_MAX: usize = 256;
