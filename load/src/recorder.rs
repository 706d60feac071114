//! Latencies: a histogram of the whole measurement, and one line for each of its seconds.
//!
//! Owns: what counts into the measurement. Promises: nothing of the warm-up counts; a closed loop's operation counts if
//! it *ended* within the measurement, an open loop's if it was *scheduled* within it, whenever it ended. Must not: cost
//! more than tens of nanoseconds: it stands in the hot loop beside the server.
//!
//! Use: `let acks = run.recorder("ack", Counts::Ended)` before the measurement, `acks.record(from, now)` for each
//! operation, also in warm-up: the recorder knows when measuring is on.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

/// What belongs to the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// What ended in it: closed loops.
    Ended,
    /// What was scheduled in it, whenever it ended: open loops.
    Scheduled,
}

/// When measuring is on; shared by all recorders of a run, on all of its threads.
#[derive(Debug, Default)]
pub struct Window {
    began: OnceLock<Instant>,
    ended: OnceLock<Instant>,
}

impl Window {
    /// The measurement begins.
    pub fn begin(&self, now: Instant) {
        // The first one counts.
        let _ = self.began.set(now);
    }

    /// And ends.
    pub fn end(&self, now: Instant) {
        let _ = self.ended.set(now);
    }

    /// How far into the measurement a time is; `None` outside of it.
    #[must_use]
    pub fn offset(&self, at: Instant) -> Option<Duration> {
        if self.ended.get().is_some_and(|ended| at >= *ended) {
            return None;
        }
        at.checked_duration_since(*self.began.get()?)
    }

    /// How long it was, or has been so far.
    #[must_use]
    pub fn length(&self) -> Duration {
        let Some(began) = self.began.get() else {
            return Duration::ZERO;
        };
        self.ended.get().copied().unwrap_or_else(Instant::now) - *began
    }
}

/// One second of a measurement. Times in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Operations that ended in it.
    pub count: u64,
    /// Half took at most this.
    pub p50: u64,
    /// 99 in 100.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// Latencies of one kind of operation.
#[derive(Debug)]
pub struct Recorder {
    name: String,
    counts: Counts,
    window: Arc<Window>,
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: Histogram<u64>,
    second: Histogram<u64>,
    /// Whole seconds from the beginning to `second`.
    at: usize,
    series: Vec<Second>,
}

/// What a recorder gives at the end.
#[derive(Debug)]
pub struct Recorded {
    /// The recorder's name.
    pub name: String,
    /// All of the measurement, in µs.
    pub total: Histogram<u64>,
    /// Its seconds, from the first.
    pub series: Vec<Second>,
}

impl Recorded {
    /// Takes in what another thread recorded of the same operations. A second's quantiles are then those of the thread
    /// that had it worse; those of the whole measurement are exact.
    pub fn add(&mut self, other: &Recorded) {
        self.total += &other.total;
        let seconds = self.series.len().max(other.series.len());
        self.series.resize(seconds, Second::default());
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            mine.count += theirs.count;
            mine.p50 = mine.p50.max(theirs.p50);
            mine.p99 = mine.p99.max(theirs.p99);
            mine.max = mine.max.max(theirs.max);
        }
    }
}

/// An hour: what takes longer counts as this.
const MICROS_MAX: u64 = 3_600_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MICROS_MAX, 3).expect("constant bounds that are legal")
}

impl Recorder {
    /// A recorder over a window.
    #[must_use]
    pub fn new(name: &str, counts: Counts, window: Arc<Window>) -> Recorder {
        Recorder {
            name: name.to_owned(),
            counts,
            window,
            inner: RefCell::new(Inner {
                total: histogram(),
                second: histogram(),
                at: 0,
                series: Vec::new(),
            }),
        }
    }

    /// An operation that began, or was scheduled, at `from` ended at `now`. Says whether it counts.
    pub fn record(&self, from: Instant, now: Instant) -> bool {
        self.record_many(from, now, 1)
    }

    /// As `record`, for so many operations that began together and ended together.
    pub fn record_many(&self, from: Instant, now: Instant, count: u64) -> bool {
        let ended = self.window.offset(now);
        let counts = match self.counts {
            Counts::Ended => ended.is_some(),
            Counts::Scheduled => self.window.offset(from).is_some(),
        };
        if !counts && ended.is_none() {
            return false;
        }
        let took = now.saturating_duration_since(from).as_micros();
        let micros = u64::try_from(took).unwrap_or(u64::MAX).max(1);
        let mut inner = self.inner.borrow_mut();
        if counts {
            inner.total.saturating_record_n(micros, count);
        }
        if let Some(offset) = ended {
            inner.in_second(offset.as_secs() as usize, micros, count);
        }
        counts
    }

    /// How many count so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inner.borrow().total.len()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it, up to now.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        let mut inner = self.inner.borrow_mut();
        // A last part of a second would show as a drop of the rate.
        let whole = self.window.length().as_millis().div_ceil(1_000) as usize;
        let last = self.window.length().subsec_millis();
        let seconds = if (1..900).contains(&last) {
            whole.saturating_sub(1)
        } else {
            whole
        };
        let next = seconds.max(inner.at + 1);
        inner.roll(next);
        let mut series = inner.series.clone();
        series.truncate(seconds);
        Recorded {
            name: self.name.clone(),
            total: inner.total.clone(),
            series,
        }
    }
}

impl Inner {
    fn in_second(&mut self, second: usize, micros: u64, count: u64) {
        if second > self.at {
            self.roll(second);
        }
        self.second.saturating_record_n(micros, count);
    }

    /// Closes the seconds before `next`.
    fn roll(&mut self, next: usize) {
        let (histogram, quantile) = (&self.second, |at| self.second.value_at_quantile(at));
        self.series.push(Second {
            count: histogram.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: histogram.max(),
        });
        self.second.reset();
        self.series.resize(next, Second::default());
        self.at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(began: Instant, millis: u64) -> Instant {
        began + Duration::from_millis(millis)
    }

    #[test]
    fn only_the_measurement_counts() {
        let window = Arc::new(Window::default());
        let ended = Recorder::new("ended", Counts::Ended, Arc::clone(&window));
        let scheduled = Recorder::new("scheduled", Counts::Scheduled, Arc::clone(&window));
        let began = Instant::now();
        assert!(!ended.record(began, at(began, 5)), "before the beginning");
        window.begin(at(began, 1_000));
        // Sent in the warm-up, ended in the measurement.
        assert!(ended.record(at(began, 900), at(began, 1_100)));
        assert!(!scheduled.record(at(began, 900), at(began, 1_100)));
        window.end(at(began, 3_000));
        // Sent in it, ended behind it.
        assert!(!ended.record(at(began, 2_900), at(began, 3_100)));
        assert!(scheduled.record(at(began, 2_900), at(began, 3_100)));
        assert!(!scheduled.record(at(began, 3_100), at(began, 3_200)));
        assert_eq!((ended.count(), scheduled.count()), (1, 1));
        let recorded = scheduled.recorded();
        assert!((190_000..=210_000).contains(&recorded.total.max()));
    }

    #[test]
    fn each_second_is_a_line_also_one_without_operations() {
        let window = Arc::new(Window::default());
        let recorder = Recorder::new("ack", Counts::Ended, Arc::clone(&window));
        let began = Instant::now();
        window.begin(began);
        for millis in [10, 500, 999, 2_100, 4_000] {
            recorder.record(at(began, millis - 2), at(began, millis));
        }
        window.end(at(began, 5_000));
        let recorded = recorder.recorded();
        let counts: Vec<u64> = recorded.series.iter().map(|second| second.count).collect();
        assert_eq!(counts, [3, 0, 1, 0, 1]);
        assert!((1_900..=2_100).contains(&recorded.series[0].p50));
        assert_eq!(recorded.total.len(), 5);
    }
}
