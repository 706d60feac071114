//! The channels of one connection.
//!
//! Owns: which are subscribed or about to be, and when their tokens end. Promises: the next end is found without
//! looking at all. Must not: know subscriptions; the native session has them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::super::subscriptions::parts::Opening;

/// All of them.
#[derive(Default)]
pub(super) struct Channels {
    all: HashMap<Arc<str>, Channel>,
    /// When each is to be looked at, ms: perhaps its token was renewed since.
    ends: BinaryHeap<Reverse<(u64, Arc<str>)>>,
}

/// One of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Its subscribe was answered.
    pub(super) is_open: bool,
    /// The place that its subscribe took. A later channel of the same name has another one.
    pub(super) at: Opening,
    /// The server has subscribed the client.
    pub(super) is_server_side: bool,
    /// The connection's token has asked for that.
    pub(super) is_of_token: bool,
    /// When it ends unless it is refreshed, ms.
    pub(super) expires_at: Option<u64>,
    /// What others see of this subscriber here.
    pub(super) info: Bytes,
    /// Presence shows it.
    pub(super) is_shown: bool,
    /// Others in the channel hear of its joins and leaves.
    pub(super) is_told: bool,
    /// It hears of others' joins and leaves.
    pub(super) hears: bool,
    /// It takes deltas.
    pub(super) deltas: bool,
}

/// For so long after its end a subscription, or a connection, may still be refreshed, ms.
pub(super) const GRACE_MS: u64 = 25_000;

impl Channels {
    pub(super) fn get(&self, channel: &str) -> Option<&Channel> {
        self.all.get(channel)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The channel that took this place, unless it was left and another one has its name by now.
    pub(super) fn at(&self, name: &str, at: Opening) -> Option<&Channel> {
        self.get(name).filter(|one| one.at == at)
    }

    /// Those that the connection's token has asked for.
    pub(super) fn of_token(&self) -> impl Iterator<Item = &Arc<str>> {
        let of_token = self.all.iter().filter(|(_, one)| one.is_of_token);
        of_token.map(|(name, _)| name)
    }

    /// Whether the client is subscribed.
    pub(super) fn is_open(&self, channel: &str) -> bool {
        self.get(channel).is_some_and(|one| one.is_open)
    }

    /// Whether a subscribe is not answered yet.
    pub(super) fn is_opening(&self, channel: &str) -> bool {
        self.get(channel).is_some_and(|one| !one.is_open)
    }

    pub(super) fn insert(&mut self, name: Arc<str>, channel: Channel) {
        self.note_end(&name, channel.expires_at);
        self.all.insert(name, channel);
    }

    pub(super) fn remove(&mut self, channel: &str) -> Option<Channel> {
        self.all.remove(channel)
    }

    /// Its subscribe was answered.
    pub(super) fn open(&mut self, channel: &str) -> Option<&Channel> {
        let one = self.all.get_mut(channel)?;
        one.is_open = true;
        Some(one)
    }

    /// It ends at another time.
    pub(super) fn renew(&mut self, channel: &str, expires_at: Option<u64>) {
        if let Some((name, one)) = self.all.get_key_value(channel) {
            let (name, mut one) = (Arc::clone(name), one.clone());
            one.expires_at = expires_at;
            self.insert(name, one);
        }
    }

    fn note_end(&mut self, name: &Arc<str>, expires_at: Option<u64>) {
        if let Some(at) = expires_at {
            let at = at.saturating_add(GRACE_MS);
            self.ends.push(Reverse((at, Arc::clone(name))));
        }
    }

    /// When one of them may have ended, ms.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.ends.peek().map(|Reverse((at, _))| *at)
    }

    /// One that has ended.
    pub(super) fn ended(&mut self, now_ms: u64) -> Option<Arc<str>> {
        while self.next_end().is_some_and(|at| at <= now_ms) {
            let Reverse((_, name)) = self.ends.pop()?;
            let ends_at = self.get(&name).and_then(|one| one.expires_at);
            if ends_at.is_some_and(|at| at.saturating_add(GRACE_MS) <= now_ms) {
                return Some(name);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_renewed_or_left_does_not_end() {
        let mut channels = Channels::default();
        for (name, at) in [("a", 10), ("b", 20), ("c", 30)] {
            let channel = Channel {
                expires_at: Some(at),
                ..Channel::default()
            };
            channels.insert(name.into(), channel);
        }
        channels.renew("a", Some(100));
        channels.renew("x", Some(1));
        channels.remove("b");
        assert_eq!(channels.next_end(), Some(GRACE_MS + 10));
        assert_eq!(channels.ended(GRACE_MS + 29), None);
        assert_eq!(channels.ended(GRACE_MS + 30).as_deref(), Some("c"));
        channels.renew("a", None);
        assert_eq!(channels.ended(GRACE_MS + 100), None);
        assert_eq!((channels.next_end(), channels.len()), (None, 2));
    }
}
