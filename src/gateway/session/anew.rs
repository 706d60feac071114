//! Deciding a session's subscriptions again when its credential, or what the configuration gives, is another.
//!
//! Owns: what they were last decided by. Promises: nothing newer is pushed by a decision of before; while both are
//! unchanged a push looks nothing up, and a step costs two comparisons. Must not: decide; the subscriptions do.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::super::dispatch::Caller;
use super::Session;
use super::subscriptions::Subscriptions;
use crate::access::Claim;
use crate::wire::Method;

/// What the subscriptions of a session were decided by.
pub(super) struct Decided {
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
    pub(super) fn decide_anew(&mut self, context: &mut Context<'_>) {
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
        let mut doubted = Vec::new();
        for (place, slot) in self.slots.iter_mut() {
            if let Some(live) = &mut slot.live
                && live.subscription.decide_anew(&asker)
            {
                if live.reading {
                    self.generations += 1;
                    (slot.generation, live.reading) = (self.generations, false);
                }
                doubted.push(place);
            }
        }
        doubted.into_iter().for_each(|place| self.mark(place));
    }
}
