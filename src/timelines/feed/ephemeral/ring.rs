//! The newest pushes of one lane.
//!
//! Owns: their numbers. Promises: bounded in number and age, oldest out first; a reader's place is one number. Must
//! not: know readers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::Ephemeral;

#[derive(Debug, Default)]
pub(super) struct Ring {
    kept: VecDeque<Arc<Ephemeral>>,
    /// The number of the next push; they count from 0.
    end: u64,
}

/// What a reader finds in a ring.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) push: Arc<Ephemeral>,
    /// How many before it the reader has missed.
    pub(super) missed: u64,
}

impl Ring {
    pub(super) fn push(&mut self, push: Ephemeral) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::new(push));
        self.end += 1;
    }

    /// The place of a reader that wants what comes from now on.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What a reader takes next, and moves its place behind that.
    pub(super) fn next(&self, place: &mut u64) -> Option<Found> {
        let left = usize::try_from(self.end - *place).unwrap_or(usize::MAX);
        if left == 0 {
            return None;
        }
        let at = self.kept.len().saturating_sub(left);
        let missed = (left - (self.kept.len() - at)) as u64;
        let push = Arc::clone(self.kept.get(at)?);
        *place += missed + 1;
        Some(Found { push, missed })
    }

    /// The newest push, for a reader that has missed some; moves its place behind it.
    pub(super) fn newest(&self, place: &mut u64) -> Option<Arc<Ephemeral>> {
        *place = self.end;
        self.kept.back().cloned()
    }

    /// Lets go of what was made before, but for so many of the newest.
    pub(super) fn forget(&mut self, before: Instant, newest: usize) {
        while self.oldest(newest).is_some_and(|made| made <= before) {
            self.kept.pop_front();
        }
    }

    /// When the oldest was made, so many of the newest left aside; `None` = there are no others.
    pub(super) fn oldest(&self, newest: usize) -> Option<Instant> {
        let oldest = self.kept.front().filter(|_| self.kept.len() > newest);
        oldest.map(|push| push.made)
    }
}

/// Pushes of one lane of one timeline. For signals three seconds at the highest pace.
const KEPT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::feed::ephemeral::{Body, Total};

    #[test]
    fn a_slow_reader_misses_the_oldest() {
        let (total, begin) = (Total::default(), Instant::now());
        let mut ring = Ring::default();
        let (mut quick, mut slow) = (ring.end(), ring.end());
        let at = |ms| begin + Duration::from_millis(ms);
        for ms in 0..100 {
            let body = Body::Presence {
                online: 0,
                names: None,
            };
            ring.push(total.make(body, None, at(ms)));
            let found = ring.next(&mut quick).unwrap();
            assert_eq!((found.push.made, found.missed), (at(ms), 0));
            assert!(ring.next(&mut quick).is_none());
        }
        let found = ring.next(&mut slow).unwrap();
        assert_eq!((found.push.made, found.missed), (at(36), 36));
        assert_eq!(ring.next(&mut slow).unwrap().missed, 0);
        // All but the newest go with time; then the newest too. Nothing is held any more.
        ring.forget(at(200), 1);
        assert_eq!((ring.oldest(0), ring.oldest(1)), (Some(at(99)), None));
        assert_eq!(ring.next(&mut slow).unwrap().missed, 61);
        ring.forget(at(200), 0);
        drop(found);
        assert_eq!(total.bytes(), 0);
    }
}
