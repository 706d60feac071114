//! Latencies: a histogram of the whole measurement, and one line for each of its seconds.
//!
//! Owns: what counts into the measurement. Promises: nothing of the warm-up counts; a closed loop's operation counts if
//! it *ended* within the measurement, an open loop's if it was *scheduled* within it, whenever it ended. Must not: cost
//! more than tens of nanoseconds: it is in the hot loop beside the server.
//!
//! Use: `let acks = run.recorder("ack", Counts::Ended)` before the measurement, `acks.record(from, now)` for each
//! operation, also in warm-up: the recorder knows when measuring is on.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
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
        let ended = self.ended.get().copied().unwrap_or_else(Instant::now);
        self.began
            .get()
            .map_or(Duration::ZERO, |began| ended - *began)
    }
}

/// The seconds of a measurement, one kind of operation; µs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Ended in each second.
    #[serde(serialize_with = "in_one_line")]
    pub count: Vec<u64>,
    /// Their median.
    #[serde(serialize_with = "in_one_line")]
    pub p50: Vec<u64>,
    /// Their 99th percentile.
    #[serde(serialize_with = "in_one_line")]
    pub p99: Vec<u64>,
    /// Their maximum.
    #[serde(serialize_with = "in_one_line")]
    pub max: Vec<u64>,
}

/// Long columns would fill the file with lines of one number each.
pub(crate) fn in_one_line<T: Serialize, S: serde::Serializer>(
    rows: &T,
    out: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::value::to_raw_value(rows).map_err(serde::ser::Error::custom)?;
    text.serialize(out)
}

impl Seconds {
    fn columns(&mut self) -> [&mut Vec<u64>; 4] {
        [&mut self.count, &mut self.p50, &mut self.p99, &mut self.max]
    }

    fn resize(&mut self, seconds: usize) {
        for column in self.columns() {
            column.resize(seconds, 0);
        }
    }
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
    /// The second that is not yet in `series`.
    second: Histogram<u64>,
    series: Seconds,
}

/// What a recorder gives at the end.
#[derive(Debug)]
pub struct Recorded {
    /// The recorder's name.
    pub name: String,
    /// All of the measurement, in µs.
    pub total: Histogram<u64>,
    /// Its seconds, from the first.
    pub series: Seconds,
}

impl Recorded {
    /// Takes in what another thread recorded of the same operations. A second's quantiles are then those of the thread
    /// that had it worse; those of the whole measurement are exact.
    pub fn add(&mut self, mut other: Recorded) {
        self.total += &other.total;
        let seconds = self.series.count.len().max(other.series.count.len());
        self.series.resize(seconds);
        other.series.resize(seconds);
        let [count, quantiles @ ..] = self.series.columns();
        let [more, others @ ..] = other.series.columns();
        for (mine, theirs) in count.iter_mut().zip(more) {
            *mine += *theirs;
        }
        for (mine, theirs) in quantiles.into_iter().zip(others) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = (*mine).max(*theirs);
            }
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
                series: Seconds::default(),
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
            let second = offset.as_secs() as usize;
            if second > inner.series.count.len() {
                inner.roll(second);
            }
            inner.second.saturating_record_n(micros, count);
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
        let length = self.window.length();
        // A last part of a second would show as a drop of the rate; what is almost a second counts as one.
        let seconds = (length.as_millis() as usize + 100) / 1_000;
        let next = seconds.max(inner.series.count.len() + 1);
        inner.roll(next);
        let mut series = inner.series.clone();
        series.resize(seconds);
        Recorded {
            name: self.name.clone(),
            total: inner.total.clone(),
            series,
        }
    }
}

impl Inner {
    /// Closes the seconds before `next`.
    fn roll(&mut self, next: usize) {
        let quantile = |at| self.second.value_at_quantile(at);
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        let row = [self.second.len(), p50, p99, self.second.max()];
        for (column, value) in self.series.columns().into_iter().zip(row) {
            column.push(value);
        }
        self.second.reset();
        self.series.resize(next);
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
        assert_eq!(recorded.series.count, [3, 0, 1, 0, 1]);
        assert!((1_900..=2_100).contains(&recorded.series.p50[0]));
        assert_eq!(recorded.total.len(), 5);
    }
}
