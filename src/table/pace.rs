//! How much of a processor the costly reads of one caller take.
//!
//! Owns: what each caller's reads have taken lately. Promises: on average they take no more of a processor than they
//! may, and nobody waits for that: a read that comes too early is refused. Must not: know what is read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::bounds::Holder;

/// See the top.
#[derive(Default)]
pub(super) struct Pace {
    /// For each caller the time at which, on average, it has taken no more than it may.
    even: Mutex<HashMap<Holder, Instant>>,
}

/// A caller that has taken nothing lately may take so much of a processor at once.
const AT_ONCE: Duration = Duration::from_secs(2);

impl Pace {
    /// Whether a caller may read now, if its reads may take so many percent of a processor; `percent` is above 0.
    pub(super) fn allows(&self, of: Holder, percent: u32, now: Instant) -> bool {
        let even = self.lock().get(&of).copied();
        even.is_none_or(|even| even.saturating_duration_since(now) < on_average(AT_ONCE, percent))
    }

    /// A read of this caller has taken `time`.
    pub(super) fn took(&self, of: Holder, time: Duration, percent: u32, now: Instant) {
        let mut callers = self.lock();
        callers.retain(|_, even| *even > now);
        let even = callers.entry(of).or_insert(now);
        *even += on_average(time, percent);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, Instant>> {
        self.even.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time in which so much of a processor is taken on average.
fn on_average(time: Duration, percent: u32) -> Duration {
    time * 100 / percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_that_may_be_taken_has_taken_its_percent_and_others_are_not_held_up() {
        let (pace, begin) = (Pace::default(), Instant::now());
        let read = Duration::from_millis(500);
        let (mut now, mut taken) = (begin, Duration::ZERO);
        while now < begin + Duration::from_secs(600) {
            if pace.allows(Holder(1), 5, now) {
                now += read;
                pace.took(Holder(1), read, 5, now);
                taken += read;
            } else {
                assert!(pace.allows(Holder(2), 5, now));
                now += Duration::from_millis(10);
            }
        }
        let most = Duration::from_secs(600) / 20 + AT_ONCE;
        assert!((most - read..=most + read).contains(&taken), "{taken:?}");
        // After a rest all that may be taken at once may be taken again, and nothing is kept of who rested.
        pace.took(Holder(2), read, 5, now + Duration::from_secs(60));
        assert!(!pace.lock().contains_key(&Holder(1)));
    }
}
