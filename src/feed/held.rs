//! Reactions that are held back, so that readers are told of them at most once a second.
//!
//! Owns: the change number up to which a timeline's readers are told. Promises: any other change is told at once, and
//! with it the reactions before it. Must not: know what the reactions are; readers ask the store.

use std::time::{Duration, Instant};

/// Between two pushes of reactions.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Held {
    /// The last change number that was heard of.
    heard: u64,
    /// Up to here readers are told.
    told: u64,
    /// When readers were last told of nothing but reactions.
    last: Option<Instant>,
    /// Somebody will call [`Held::release`].
    is_due: bool,
}

impl Held {
    /// A reader who is at a lower change number is to ask the store.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Takes in the change number after a batch. Gives the time for [`Held::release`], if nobody was given it yet.
    pub(super) fn hear(
        &mut self,
        change: u64,
        only_reactions: bool,
        now: Instant,
    ) -> Option<Instant> {
        if change == self.heard {
            return None;
        }
        self.heard = change;
        if !only_reactions {
            self.told = change;
            return None;
        }
        let at = self.last.map_or(now, |last| last + PAUSE);
        if at <= now {
            (self.told, self.last) = (change, Some(now));
            return None;
        }
        let is_new = !std::mem::replace(&mut self.is_due, true);
        is_new.then_some(at)
    }

    /// Lets readers have what was held back, once it is time; whether there is anything.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        let is_time = self.last.is_none_or(|last| last + PAUSE <= now);
        if !self.is_due || !is_time {
            return false;
        }
        self.is_due = false;
        let has_some = self.told < self.heard;
        if has_some {
            (self.told, self.last) = (self.heard, Some(now));
        }
        has_some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_wait_for_the_second_and_other_changes_do_not() {
        let mut held = Held::default();
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        // The first one goes at once, the next ones together when the second is over.
        assert_eq!(held.hear(1, true, at(0)), None);
        assert_eq!(held.told(), 1);
        assert_eq!(held.hear(2, true, at(10)), Some(at(1_000)));
        assert_eq!(held.hear(2, false, at(15)), None, "an append is no change");
        assert_eq!(held.hear(3, true, at(20)), None);
        assert_eq!(held.told(), 1);
        assert!(!held.release(at(999)) && held.release(at(1_000)));
        assert_eq!(held.told(), 3);
        // An edit takes those before it along, and then nothing is left to release.
        assert_eq!(held.hear(4, true, at(1_100)), Some(at(2_000)));
        assert_eq!(held.hear(5, false, at(1_200)), None);
        assert_eq!(held.told(), 5);
        assert!(!held.release(at(2_000)));
        assert_eq!(held.hear(6, true, at(5_000)), None);
        assert_eq!(held.told(), 6);
    }
}
