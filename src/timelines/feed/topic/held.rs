//! Reactions that are held back, so that readers are notified of them at most once a second.
//!
//! Owns: the change number up to which a timeline's readers are notified. Promises: any other change is announced at
//! once, and with it the reactions before it. Must not: know what the reactions are; readers ask the store.

use std::time::{Duration, Instant};

/// Between two pushes of reactions.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(in super::super) struct Held {
    /// The last change number that was heard of.
    heard: u64,
    /// Up to here readers are notified.
    told: u64,
    /// When readers were last notified of nothing but reactions.
    last: Option<Instant>,
    /// When [`Held::release`] is to be called, as [`Held::hear`] has returned; `None` = nothing is held back.
    due: Option<Instant>,
}

impl Held {
    /// A reader that is at a lower change number is to ask the store.
    pub(in super::super) fn told(&self) -> u64 {
        self.told
    }

    /// Takes in the change number after a batch. Gives the time for [`Held::release`], if nobody was given it yet.
    pub(in super::super) fn hear(
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
            // A release that is still to come has nothing left to do. What is held back later gets one of its own.
            (self.told, self.last, self.due) = (change, Some(now), None);
            return None;
        }
        match self.due.replace(at) {
            Some(_) => None,
            None => Some(at),
        }
    }

    /// Lets readers have what was held back, if it is time; whether there is anything.
    pub(in super::super) fn release(&mut self, now: Instant) -> bool {
        let is_due = self.due.take_if(|due| *due <= now).is_some();
        let has_some = is_due && self.told < self.heard;
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
        // The first one goes at once, the next ones together when the second has passed.
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

    #[test]
    fn one_that_overtakes_the_release_leaves_none_behind() {
        let mut held = Held::default();
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(held.hear(1, true, at(0)), None);
        assert_eq!(held.hear(2, true, at(10)), Some(at(1_000)));
        // A later batch announces it before the release, which then has nothing left to do.
        assert_eq!((held.hear(3, true, at(1_001)), held.told()), (None, 3));
        assert!(!held.release(at(1_002)));
        assert_eq!(held.hear(4, true, at(1_500)), Some(at(2_001)));
        assert!(held.release(at(2_001)) && held.told() == 4);
    }

    /// Whatever comes when, and however late the releases are: in the end readers are notified of everything, and two
    /// pushes of nothing but reactions are a second apart.
    #[test]
    fn nothing_is_held_back_for_good() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..2_000 {
            let (mut held, mut now) = (Held::default(), Instant::now());
            let (mut due, mut change, mut pushed) = (Vec::<Instant>::new(), 0, None::<Instant>);
            for _ in 0..next(40) {
                now += Duration::from_millis(next(700));
                let (before, is_edit) = (held.told(), next(9) == 0);
                let releases = next(3) == 0;
                if releases {
                    if due.pop_if(|at| *at <= now).is_some() {
                        held.release(now);
                    }
                } else {
                    change += 1;
                    due.extend(held.hear(change, !is_edit, now));
                }
                if held.told() > before && (releases || !is_edit) {
                    assert!(pushed.is_none_or(|at| now >= at + PAUSE));
                    pushed = Some(now);
                }
            }
            due.into_iter().for_each(|at| {
                held.release(at.max(now));
            });
            assert_eq!(held.told(), change);
        }
    }
}
