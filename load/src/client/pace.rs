//! When operations are due: an open loop sends by the clock, whatever the server does.
//!
//! Owns: the schedule (fixed or exponential gaps, from a seed) and the count of operations that the generator itself
//! sent late. Promises: the schedule never shifts: a sender that was held up sends at once what was due meanwhile, and
//! each operation's time is the scheduled one. Must not: wait for answers; a pace that does is a closed loop. A socket
//! that takes nothing is the server's matter: queue the operation and go on.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use clap::ValueEnum;
use rand_distr::Exp1;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::outcome::recorder::Window;
use crate::random::Random;

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
    gap_nanos: f64,
    gaps: Gaps,
    random: Random,
    began: Instant,
    /// From the beginning to the next operation. As a float it keeps fractions, so that no rate drifts.
    next_nanos: f64,
    late: Duration,
    window: Rc<Window>,
    lateness: Rc<RefCell<Lateness>>,
}

/// How well the generator kept to the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Operations that were sent.
    pub sent: u64,
    /// Of these, sent later than allowed after their time.
    pub late: u64,
    /// The worst, µs.
    pub worst_micros: u64,
}

impl Lateness {
    /// The share of late ones, 0 to 1.
    pub fn share(&self) -> f64 {
        self.late as f64 / self.sent.max(1) as f64
    }
}

impl Pace {
    /// `rate` operations a second, above 0, from now on. Of those scheduled within the window, late is what is sent so
    /// much behind its time; `lateness` counts it, for all paces of a run.
    pub fn new(
        rate: f64,
        gaps: Gaps,
        seed: u64,
        late: Duration,
        window: &Rc<Window>,
        lateness: &Rc<RefCell<Lateness>>,
    ) -> Pace {
        Pace {
            gap_nanos: 1e9 / rate,
            gaps,
            random: Random::new(seed),
            began: Instant::now(),
            next_nanos: 0.0,
            late,
            window: Rc::clone(window),
            lateness: Rc::clone(lateness),
        }
    }

    /// Begins so much later.
    pub fn after(mut self, offset: Duration) -> Pace {
        self.began += offset;
        self
    }

    fn next(&self) -> Instant {
        self.began + Duration::from_nanos(self.next_nanos as u64)
    }

    /// Sleeps until an operation is due. Cancel-safe.
    pub async fn wait(&self) {
        tokio::time::sleep_until(self.next()).await;
    }

    /// The scheduled time of the next operation, if it has come and the run had not ended by then. `now` is read once
    /// for all that a caller sends at once.
    pub fn due(&mut self, now: Instant) -> Option<Instant> {
        let scheduled = self.next();
        let behind = now.checked_duration_since(scheduled)?;
        if self.window.is_over(scheduled) {
            return None;
        }
        if self.window.offset(scheduled).is_some() {
            let mut lateness = self.lateness.borrow_mut();
            lateness.sent += 1;
            lateness.late += u64::from(behind > self.late);
            lateness.worst_micros = lateness.worst_micros.max(behind.as_micros() as u64);
        }
        self.next_nanos += match self.gaps {
            Gaps::Fixed => self.gap_nanos,
            Gaps::Exponential => self.gap_nanos * self.random.draw::<f64>(&Exp1),
        };
        Some(scheduled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(gaps: Gaps, seed: u64) -> Pace {
        let window = Rc::new(Window::default());
        window.begin(Instant::now());
        let late = Duration::from_millis(5);
        Pace::new(1_000.0, gaps, seed, late, &window, &Rc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_rate_keeps_its_times_and_catches_up() {
        let mut pace = pace(Gaps::Fixed, 1);
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
        assert_eq!(pace.lateness.borrow().late, 0);
        // Held up for 100 ms: all that was due comes out at once, at the times of the schedule.
        tokio::time::advance(Duration::from_millis(100)).await;
        let now = Instant::now();
        let caught: Vec<_> = std::iter::from_fn(|| pace.due(now)).collect();
        assert!((100..=101).contains(&caught.len()), "{}", caught.len());
        assert_eq!((caught[1] - caught[0]).as_micros(), 1_000);
        let lateness = *pace.lateness.borrow();
        assert!((93..=96).contains(&lateness.late), "{lateness:?}");
        assert!(lateness.share() > LATE_SHARE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn exponential_gaps_have_the_mean_of_the_rate_and_repeat() {
        let times = |seed| -> Vec<Instant> {
            let mut pace = pace(Gaps::Exponential, seed);
            let later = Instant::now() + Duration::from_secs(20);
            std::iter::from_fn(|| pace.due(later)).collect()
        };
        let (once, again, other) = (times(7), times(7), times(8));
        assert_eq!(once, again);
        assert_ne!(once, other);
        assert!((19_000..21_000).contains(&once.len()), "{}", once.len());
    }
}
