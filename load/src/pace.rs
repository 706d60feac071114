//! When operations are due: an open loop sends by the clock, whatever the server does.
//!
//! Owns: the schedule (fixed or exponential gaps, from a seed) and the count of operations that the generator itself
//! sent late. Promises: the schedule never shifts: who was held up sends at once what was due meanwhile, and each
//! operation's time is the scheduled one. Must not: wait for answers; a pace that does is a closed loop.
//!
//! Use: `let mut pace = run.pace(rate, gaps, part)`; `pace.wait().await`, then `while let Some(scheduled) =
//! pace.due(now)` sends one operation, whose latency counts from `scheduled`; at the end `run.paced(&pace)`. A socket
//! that takes nothing is the server's matter: queue the operation and go on.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::time::Instant;

use crate::random::Random;
use crate::recorder::Window;

/// Later than this behind its schedule an operation counts as late, unless a run says otherwise (`--late-ms`).
pub const LATE: Duration = Duration::from_millis(5);
/// A run with a greater share of late operations is invalid.
pub const LATE_SHARE_MAX: f64 = 0.01;

/// How operations follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// Each as long as the other.
    Fixed,
    /// Exponential: as many independent users would send.
    Exponential,
}

/// A schedule.
#[derive(Debug)]
pub struct Pace {
    rate: f64,
    gaps: Gaps,
    random: Random,
    began: Instant,
    /// Nanoseconds from the beginning to the next operation.
    next_nanos: f64,
    /// What is scheduled outside of it does not count.
    window: Option<Arc<Window>>,
    late: Duration,
    lateness: Lateness,
}

/// How well the generator kept to the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Lateness {
    /// Operations that were sent.
    pub sent: u64,
    /// Of these, sent later than allowed after their time.
    pub late: u64,
    /// The worst, µs.
    pub worst_micros: u64,
}

impl Lateness {
    fn count(&mut self, behind: Duration, most: Duration) {
        self.sent += 1;
        if behind > most {
            self.late += 1;
        }
        let micros = u64::try_from(behind.as_micros()).unwrap_or(u64::MAX);
        self.worst_micros = self.worst_micros.max(micros);
    }

    /// Takes in another pace's.
    pub fn add(&mut self, other: Lateness) {
        self.sent += other.sent;
        self.late += other.late;
        self.worst_micros = self.worst_micros.max(other.worst_micros);
    }

    /// The share of late ones, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.late as f64 / self.sent.max(1) as f64
    }
}

impl Pace {
    /// `rate` operations a second, above 0, from now on.
    #[must_use]
    pub fn new(rate: f64, gaps: Gaps, seed: u64) -> Pace {
        Pace {
            rate,
            gaps,
            random: Random::new(seed),
            began: Instant::now(),
            next_nanos: 0.0,
            window: None,
            late: LATE,
            lateness: Lateness::default(),
        }
    }

    /// Begins so much later: connections that share a rate shall not all send at once.
    #[must_use]
    pub fn after(mut self, offset: Duration) -> Pace {
        self.began += offset;
        self
    }

    /// Counts as late what is sent so much behind its time.
    #[must_use]
    pub fn late_above(mut self, late: Duration) -> Pace {
        self.late = late;
        self
    }

    /// Counts only what is scheduled within the measurement.
    #[must_use]
    pub fn within(mut self, window: Arc<Window>) -> Pace {
        self.window = Some(window);
        self
    }

    /// When the next operation is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.began + Duration::from_nanos(self.next_nanos as u64)
    }

    /// Sleeps until an operation is due. Cancel-safe.
    pub async fn wait(&self) {
        tokio::time::sleep_until(self.next()).await;
    }

    /// The scheduled time of the next operation, if it has come. `now` is read once for all that a caller sends at
    /// once.
    pub fn due(&mut self, now: Instant) -> Option<Instant> {
        let scheduled = self.next();
        if scheduled > now {
            return None;
        }
        let window = self.window.as_ref();
        if window.is_none_or(|window| window.offset(scheduled).is_some()) {
            self.lateness.count(now - scheduled, self.late);
        }
        self.next_nanos += self.gap();
        Some(scheduled)
    }

    /// How well it was kept so far.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Nanoseconds to the one after the next. As a float it keeps fractions, so that no rate drifts.
    fn gap(&mut self) -> f64 {
        let mean = 1e9 / self.rate;
        match self.gaps {
            Gaps::Fixed => mean,
            // 53 random bits make a number in (0, 1].
            Gaps::Exponential => {
                let unit = ((self.random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                -unit.ln() * mean
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fixed_rate_keeps_its_times_and_catches_up() {
        let mut pace = Pace::new(1_000.0, Gaps::Fixed, 1);
        let began = Instant::now();
        let mut times = Vec::new();
        for _ in 0..10 {
            pace.wait().await;
            while let Some(scheduled) = pace.due(Instant::now()) {
                times.push((scheduled - began).as_micros());
            }
        }
        assert_eq!(
            times,
            (0..10).map(|number| number * 1_000).collect::<Vec<_>>()
        );
        assert_eq!(pace.lateness().late, 0);
        // Held up for 100 ms: all that was due comes out at once, at the times of the schedule.
        tokio::time::advance(Duration::from_millis(100)).await;
        let now = Instant::now();
        let caught: Vec<_> = std::iter::from_fn(|| pace.due(now)).collect();
        assert!((100..=101).contains(&caught.len()), "{}", caught.len());
        assert_eq!((caught[1] - caught[0]).as_micros(), 1_000);
        let lateness = pace.lateness();
        assert!((93..=96).contains(&lateness.late), "{lateness:?}");
        assert!(lateness.share() > LATE_SHARE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn exponential_gaps_have_the_mean_of_the_rate_and_repeat() {
        let times = |seed| -> Vec<Instant> {
            let mut pace = Pace::new(1_000.0, Gaps::Exponential, seed);
            let later = Instant::now() + Duration::from_secs(20);
            std::iter::from_fn(|| pace.due(later)).collect()
        };
        let (once, again, other) = (times(7), times(7), times(8));
        assert_eq!(once, again);
        assert_ne!(once, other);
        assert!((19_000..21_000).contains(&once.len()), "{}", once.len());
    }
}
