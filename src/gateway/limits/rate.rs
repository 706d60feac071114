//! How fast each of many may do something.
//!
//! Owns: what each has used up. Promises: what is remembered is bounded; a caller that rests for a second, or a minute,
//! has its whole rate again. Must not: know what is done.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use governor::clock::{Clock as _, DefaultClock};
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};

use super::Reached;

/// So many a second for each; a second's worth at once.
pub(super) struct Rate {
    limit: &'static str,
    max: NonZeroU32,
    limiter: RateLimiter<u64, Used, DefaultClock>,
}

impl Rate {
    /// `None` without a limit.
    pub(super) fn new(limit: &'static str, per_second: u32) -> Option<Rate> {
        Some(Rate::of(
            limit,
            Quota::per_second(NonZeroU32::new(per_second)?),
        ))
    }

    /// So many a minute; a minute's worth at once.
    pub(super) fn per_minute(limit: &'static str, per_minute: u32) -> Option<Rate> {
        Some(Rate::of(
            limit,
            Quota::per_minute(NonZeroU32::new(per_minute)?),
        ))
    }

    fn of(limit: &'static str, quota: Quota) -> Rate {
        Rate {
            limit,
            max: quota.burst_size(),
            limiter: RateLimiter::new(quota, Used::default(), DefaultClock::default()),
        }
    }

    /// Takes `count` for a key, or nothing. More than a second's worth counts as a second's worth.
    pub(super) fn take(&self, key: u64, count: usize) -> Result<(), Reached> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(count) = NonZeroU32::new(count.min(self.max.get())) else {
            return Ok(());
        };
        if self.limiter.len() >= REMEMBERED_MAX {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key_n(&key, count) {
            Ok(Err(until)) => Err(Reached {
                limit: self.limit,
                max: self.max.get(),
                retry_after: until.wait_time_from(self.limiter.clock().now()),
            }),
            // `Err` cannot be: `count` is a second's worth at most.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

/// What each has used up, as the library counts it.
#[derive(Debug, Default)]
struct Used(Mutex<Cells>);

#[derive(Debug, Default)]
struct Cells {
    of: HashMap<u64, Nanos>,
    /// All keys for which there is no room share this.
    others: Option<Nanos>,
    /// How often a sweep was asked for.
    asked: usize,
}

impl StateStore for Used {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cells.of.get(key).copied();
        let has_room = known.is_some() || cells.of.len() < REMEMBERED_MAX;
        let (done, used) = f(if has_room { known } else { cells.others })?;
        if has_room {
            cells.of.insert(*key, used);
        } else {
            cells.others = Some(used);
        }
        Ok(done)
    }
}

impl ShrinkableKeyedStateStore<u64> for Used {
    fn retain_recent(&self, drop_below: Nanos) {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.asked += 1;
        if cells.asked % SWEEP_EACH == 1 {
            cells.of.retain(|_, used| *used > drop_below);
        }
    }

    fn len(&self) -> usize {
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.of.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const REMEMBERED_MAX: usize = 100_000;
/// While all is full, a sweep a call would be slow.
const SWEEP_EACH: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seconds_worth_is_there_at_once_and_then_no_more() {
        let rate = Rate::new("limit", 10).unwrap();
        for _ in 0..10 {
            rate.take(1, 1).unwrap();
        }
        let reached = rate.take(1, 1).unwrap_err();
        assert!(reached.retry_after.as_millis() <= 100, "{reached:?}");
        rate.take(2, 1).unwrap();
        // More than there ever is costs all that there is.
        rate.take(3, 1_000).unwrap();
        let reached = rate.take(3, 1_000).unwrap_err();
        assert!((900..=1_000).contains(&reached.retry_after.as_millis()));
        rate.take(3, 0).unwrap();
        assert!(Rate::new("limit", 0).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let rate = Rate::new("limit", 1).unwrap();
        rate.take(0, 1).unwrap();
        let taken = (1..150_000)
            .filter(|key| rate.take(*key, 1).is_ok())
            .count();
        assert!(rate.limiter.len() <= REMEMBERED_MAX);
        assert!(taken >= REMEMBERED_MAX - 1);
        // Keys that are remembered stay so, and the others share the rate of one.
        assert!(
            (200_000..200_100)
                .filter(|key| rate.take(*key, 1).is_ok())
                .count()
                <= 1
        );
    }
}
