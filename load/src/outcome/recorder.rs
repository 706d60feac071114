//! Latencies: a histogram of the whole measurement, and one line for each of its seconds.
//!
//! Owns: what counts into the measurement. Promises: nothing of the warm-up counts; a closed loop's operation counts if
//! it *ended* within the measurement, an open loop's if it was *scheduled* within it, whenever it ended. Must not: cost
//! more than tens of nanoseconds: it is in the hot loop beside the server.
//!
//! Use: `let acks = run.recorder("ack", Counts::Ended)` before the measurement, `acks.record(from, now)` for each
//! operation, also in warm-up: the recorder knows when measuring is on.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use tokio::time::Instant;

/// What belongs to the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// What ended in it: closed loops.
    Ended,
    /// What was scheduled in it, whenever it ended: open loops.
    Scheduled,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Load is on, nothing counts.
    WarmingUp,
    /// Everything counts.
    Measuring,
    /// No new operations; what is on the way is waited for.
    Ending,
}

/// When measuring is on; shared by all recorders of a run.
#[derive(Debug, Default)]
pub struct Window {
    began: OnceCell<Instant>,
    ended: OnceCell<Instant>,
}

impl Window {
    /// The measurement begins. The first time counts.
    pub fn begin(&self, now: Instant) {
        self.began.get_or_init(|| now);
    }

    /// And ends.
    pub fn end(&self, now: Instant) {
        self.ended.get_or_init(|| now);
    }

    /// Where the run is.
    pub fn phase(&self) -> Phase {
        match (self.began.get(), self.ended.get()) {
            (_, Some(_)) => Phase::Ending,
            (Some(_), None) => Phase::Measuring,
            (None, None) => Phase::WarmingUp,
        }
    }

    /// Whether the measurement has ended at this time or before.
    pub(crate) fn is_over(&self, at: Instant) -> bool {
        self.ended.get().is_some_and(|ended| at >= *ended)
    }

    /// How far into the measurement a time is; `None` outside of it.
    pub fn offset(&self, at: Instant) -> Option<Duration> {
        let since = at.checked_duration_since(*self.began.get()?);
        since.filter(|_| !self.is_over(at))
    }

    /// How long it was, or has been so far.
    pub fn length(&self) -> Duration {
        let ended = self.ended.get().copied().unwrap_or_else(Instant::now);
        let began = self.began.get();
        began.map_or(Duration::ZERO, |began| ended - *began)
    }
}

/// Latencies of one kind of operation.
#[derive(Debug)]
pub struct Recorder {
    name: String,
    counts: Counts,
    window: Rc<Window>,
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: Histogram<u64>,
    /// The second that is not yet in `seconds`.
    second: Histogram<u64>,
    seconds: Seconds,
}

/// An hour: what takes longer counts as this.
const MICROS_MAX: u64 = 3_600_000_000;

impl Recorder {
    /// A recorder over a window.
    pub fn new(name: &str, counts: Counts, window: Rc<Window>) -> Recorder {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
        let histogram = histogram.expect("constant bounds that are legal");
        Recorder {
            name: name.to_owned(),
            counts,
            window,
            inner: RefCell::new(Inner {
                total: histogram.clone(),
                second: histogram,
                seconds: Seconds::default(),
            }),
        }
    }

    /// An operation that began, or was scheduled, at `from` ended at `now`.
    pub fn record(&self, from: Instant, now: Instant) {
        self.record_many(from, now, 1);
    }

    /// As `record`, for so many operations that began together and ended together.
    pub fn record_many(&self, from: Instant, now: Instant, count: u64) {
        let ended = self.window.offset(now);
        let counts = match self.counts {
            Counts::Ended => ended.is_some(),
            Counts::Scheduled => self.window.offset(from).is_some(),
        };
        let micros = now.saturating_duration_since(from).as_micros().max(1) as u64;
        let mut inner = self.inner.borrow_mut();
        if counts {
            inner.total.saturating_record_n(micros, count);
        }
        if let Some(offset) = ended {
            let second = offset.as_secs() as usize;
            if second > inner.seconds.count.len() {
                inner.roll(second);
            }
            inner.second.saturating_record_n(micros, count);
        }
    }

    /// How many count so far.
    pub fn count(&self) -> u64 {
        self.inner.borrow().total.len()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it, up to now, in µs, and by the second.
    pub(crate) fn recorded(&self) -> (Histogram<u64>, Seconds) {
        let inner = &mut *self.inner.borrow_mut();
        let next = inner.seconds.count.len() + 1;
        inner.roll(next);
        // A last part of a second would show as a drop of the rate; what is almost a second counts as one.
        let whole = (self.window.length().as_millis() as usize + 100) / 1_000;
        let mut seconds = inner.seconds.clone();
        seconds.resize(whole);
        (inner.total.clone(), seconds)
    }
}

impl Inner {
    /// Closes the seconds before `next`.
    fn roll(&mut self, next: usize) {
        self.seconds.count.push(self.second.len());
        self.seconds.p99.push(self.second.value_at_quantile(0.99));
        self.second.reset();
        self.seconds.resize(next);
    }
}

/// A distribution of latencies; its quantiles are figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// (quantile, value in µs, how many up to here), closer together towards the worst: enough to draw it again.
    #[serde(serialize_with = "in_one_line")]
    pub curve: Vec<(f64, u64, u64)>,
}

impl Latency {
    /// Reads it off a histogram of µs.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        let mut up_to = 0;
        let curve = histogram.iter_quantiles(5).map(|step| {
            up_to += step.count_since_last_iteration();
            (step.quantile_iterated_to(), step.value_iterated_to(), up_to)
        });
        Latency {
            count: histogram.len(),
            curve: curve.filter(|_| !histogram.is_empty()).collect(),
        }
    }
}

/// The seconds of a measurement, one kind of operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// How many ended in each second.
    pub count: Vec<u64>,
    /// Their 99th percentile, µs.
    pub p99: Vec<u64>,
}

impl Seconds {
    /// Cuts it to so many seconds, or adds ones without operations.
    fn resize(&mut self, seconds: usize) {
        self.count.resize(seconds, 0);
        self.p99.resize(seconds, 0);
    }
}

/// For long columns: each number would have a line of its own in the file.
pub(crate) fn in_one_line<T: Serialize, S: Serializer>(
    rows: &T,
    out: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::value::to_raw_value(rows).map_err(S::Error::custom)?;
    text.serialize(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(began: Instant, millis: u64) -> Instant {
        began + Duration::from_millis(millis)
    }

    #[test]
    fn only_the_measurement_counts() {
        let window = Rc::new(Window::default());
        let ended = Recorder::new("ended", Counts::Ended, Rc::clone(&window));
        let scheduled = Recorder::new("scheduled", Counts::Scheduled, Rc::clone(&window));
        let began = Instant::now();
        let record = |from, now| {
            ended.record(at(began, from), at(began, now));
            scheduled.record(at(began, from), at(began, now));
            (ended.count(), scheduled.count())
        };
        assert_eq!(record(0, 5), (0, 0), "before the beginning");
        window.begin(at(began, 1_000));
        assert_eq!(record(900, 1_100), (1, 0), "sent in the warm-up");
        window.end(at(began, 3_000));
        assert_eq!(record(2_900, 3_100), (1, 1), "ended behind the end");
        assert_eq!(record(3_100, 3_200), (1, 1), "sent behind the end");
        let (total, _) = scheduled.recorded();
        assert!((190_000..=210_000).contains(&total.max()));
    }

    #[test]
    fn each_second_is_a_line_also_one_without_operations() {
        let window = Rc::new(Window::default());
        let recorder = Recorder::new("ack", Counts::Ended, Rc::clone(&window));
        let began = Instant::now();
        window.begin(began);
        for millis in [10, 500, 999, 2_100, 4_000] {
            recorder.record(at(began, millis - 2), at(began, millis));
        }
        window.end(at(began, 5_000));
        let (total, seconds) = recorder.recorded();
        assert_eq!(seconds.count, [3, 0, 1, 0, 1]);
        assert!((1_900..=2_100).contains(&seconds.p99[0]));
        assert_eq!(total.len(), 5);
    }
}
