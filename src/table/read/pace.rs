//! How much of a processor the costly reads of one caller take.
//!
//! Owns: what each caller's reads have taken lately. Promises: on average they take no more of a processor than they
//! may, and nobody queues for that: a read that comes too early is refused. Must not: know what is read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tideline_base::bounds::Holder;

/// See the top.
pub(in super::super) struct Pace {
    percent: u32,
    /// For each caller, the time at which its share will have made up for what it has taken.
    even: Mutex<HashMap<Holder, Instant>>,
}

/// A caller that has taken nothing lately may take so much of a processor at once.
const AT_ONCE: Duration = Duration::from_secs(2);

impl Pace {
    /// Each caller may take so many percent of a processor, at least 1; from 100 on there is no bound.
    pub(in super::super) fn new(percent: u32) -> Pace {
        Pace {
            percent,
            even: Mutex::default(),
        }
    }

    /// Whether a caller may read now. `None`, nobody in particular, always may.
    pub(in super::super) fn allows(&self, caller: Option<Holder>, now: Instant) -> bool {
        let even = caller.and_then(|caller| self.lock().get(&caller).copied());
        even.is_none_or(|even| even.saturating_duration_since(now) < self.on_average(AT_ONCE))
    }

    /// A read of this caller has taken `time`.
    pub(in super::super) fn took(&self, caller: Option<Holder>, time: Duration, now: Instant) {
        let Some(caller) = caller.filter(|_| self.percent < 100) else {
            return;
        };
        let mut callers = self.lock();
        callers.retain(|_, even| *even > now);
        let even = callers.entry(caller).or_insert(now);
        *even += self.on_average(time);
    }

    /// The time in which so much of a processor is taken on average.
    fn on_average(&self, time: Duration) -> Duration {
        time * 100 / self.percent
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, Instant>> {
        self.even.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_that_may_be_taken_has_taken_its_percent_and_others_are_not_held_up() {
        let (pace, begin) = (Pace::new(5), Instant::now());
        let read = Duration::from_millis(500);
        let (mut now, mut taken) = (begin, Duration::ZERO);
        while now < begin + Duration::from_secs(600) {
            if pace.allows(Some(Holder(1)), now) {
                now += read;
                pace.took(Some(Holder(1)), read, now);
                taken += read;
            } else {
                assert!(pace.allows(Some(Holder(2)), now));
                now += Duration::from_millis(10);
            }
        }
        let most = Duration::from_secs(600) / 20 + AT_ONCE;
        assert!((most - read..=most + read).contains(&taken), "{taken:?}");
        // After a rest all that may be taken at once may be taken again, and nothing is kept of a caller that rested.
        pace.took(Some(Holder(2)), read, now + Duration::from_secs(60));
        assert!(!pace.lock().contains_key(&Holder(1)));
    }
}
