//! One subscription of a connection.
//!
//! Owns: what is kept of it: its name, whether it waits for its turn, how far its client is. Promises: few bytes, as a
//! connection may have thousands. Must not: know the others.

use std::sync::Arc;

use super::super::super::encode_push;
use super::super::super::form::Form;
use super::super::super::outbox::Outbox;
use super::deltas::Deltas;
use tideline_timelines::feed::{Body, Mailbox, Pulled, Subscription};

pub(in super::super) struct Slot {
    pub(in super::super) name: Arc<str>,
    pub(in super::super) generation: u64,
    pub(in super::super) in_turn: bool,
    /// It is there because the timeline is one of the user's conversations.
    pub(super) is_followed: bool,
    pub(in super::super) deltas: Deltas,
    /// `None` until the subscribe is answered.
    pub(in super::super) live: Option<Live>,
}

/// A connection may have thousands. With the own floor of its user.
const _: () = assert!(size_of::<Option<Slot>>() <= 176);

pub(in super::super) struct Live {
    pub(in super::super) subscription: Subscription,
    /// A look at the store is under way.
    pub(in super::super) reading: bool,
    /// It has been at the end since it was subscribed.
    pub(in super::super) has_caught_up: bool,
    /// Everything committed up to this time was delivered, but for news that the next look finds; before it has caught
    /// up, when it was looked at first. ms since 1970; 0 = not yet.
    pub(in super::super) caught_up_ms: u64,
}

impl AsRef<str> for Slot {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl Slot {
    /// The epoch that is followed; `None` = none is yet.
    pub(super) fn epoch(&self) -> Option<&str> {
        let live = self.live.as_ref()?;
        Some(&live.subscription.cursor().epoch)
    }
}

impl Live {
    /// Puts what is never stored into the outbox, while that has room; whether it took all of it.
    pub(super) fn pull(
        &mut self,
        own: &Arc<Mailbox>,
        outbox: &mut Outbox,
        name: &str,
        form: Form,
    ) -> bool {
        while outbox.has_room() {
            let Some(pulled) = self.subscription.pull(own) else {
                return true;
            };
            let encode = |body: &Body, short| encode_push::ephemeral(name, body, short, form);
            outbox.push(match pulled {
                Pulled::Whole(push) => push.frame(form.number(), |body| encode(body, false)),
                Pulled::Numbers(push) => encode(&push.body, true),
            });
        }
        false
    }

    pub(super) fn delivered(&mut self, timestamp: Option<u64>) {
        if self.has_caught_up {
            self.caught_up_ms = self.caught_up_ms.max(timestamp.unwrap_or(0));
        }
    }
}
