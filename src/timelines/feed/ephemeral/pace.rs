//! How often something may happen.
//!
//! Owns: one number, when the next event is free. Promises: so many a second in the long run, and as many at once after
//! a second of rest. Must not: read the clock.

use std::time::{Duration, Instant};

/// The pace of one connection or one timeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When an event would be due if all came evenly; `None` = there was none yet.
    next: Option<Instant>,
}

impl Pace {
    /// Counts an event in.
    ///
    /// # Errors
    /// How long to wait, if there were too many. The event then does not count.
    pub fn take(&mut self, per_second: u32, now: Instant) -> Result<(), Duration> {
        let step = Duration::from_secs(1) / per_second;
        let next = self.next.map_or(now, |next| next.max(now));
        let at_once = step * (per_second - 1);
        match (next - now).checked_sub(at_once) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.next = Some(next + step);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_one_by_one() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        for _ in 0..10 {
            assert_eq!(pace.take(10, at(0)), Ok(()));
        }
        assert_eq!(pace.take(10, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(pace.take(10, at(70)), Err(Duration::from_millis(30)));
        assert_eq!(pace.take(10, at(100)), Ok(()));
        assert_eq!(pace.take(10, at(100)), Err(Duration::from_millis(100)));
        // Rest gives back a second's events and no more.
        for _ in 0..10 {
            assert_eq!(pace.take(10, at(60_000)), Ok(()));
        }
        assert!(pace.take(10, at(60_000)).is_err());
    }
}
