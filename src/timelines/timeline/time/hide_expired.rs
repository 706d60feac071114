//! What of a message that expires may be shown.
//!
//! Owns: from when on an entry is not shown. Promises: nobody is shown an entry after its time, whether the sweep has
//! come to it or not: whatever reads a message to show it goes by [`shown`]. Must not: change what is stored.

use super::super::{Burial, Message};
use tideline_base::clock::Clock;

/// The message as it may be shown now: without its entry if it has expired.
pub(in crate::timeline) fn shown(mut message: Message, clock: &Clock) -> Message {
    if has_expired(&message, clock) {
        message.bury(Burial::Expired);
        message.reactions = None;
        message.pinned = false;
    }
    message
}

fn has_expired(message: &Message, clock: &Clock) -> bool {
    let is_over = |at: u64| message.entry.is_some() && at <= clock.now_ms();
    message.expires_at.is_some_and(is_over)
}
