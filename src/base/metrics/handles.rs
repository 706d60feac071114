//! The handles through which the server counts: counters, gauges, histograms, and families of them by label.
//!
//! Owns: the kinds of handles. Promises: a handle is cheap to touch and to clone, and all clones of it are the same
//! figure. Must not: know a metric by name.

use std::marker::PhantomData;

use ::metrics::Label;

use super::registry::{Bind, Registry};
use super::{Kind, Metric};

/// Counts events.
#[derive(Clone, Debug)]
pub struct Counter(::metrics::Counter);

impl Counter {
    /// So many more.
    pub fn increment(&self, by: u64) {
        self.0.increment(by);
    }
}

/// Counts seconds. The library's counters are whole numbers, so this is one of its gauges; `registry.rs` shows it as
/// the counter that it is.
#[derive(Clone, Debug)]
pub struct Seconds(::metrics::Gauge);

impl Seconds {
    /// So many by now.
    pub(super) fn reach(&self, total: f64) {
        self.0.set(total);
    }
}

/// A figure that goes up and down.
#[derive(Clone, Debug)]
pub struct Gauge(::metrics::Gauge);

impl Gauge {
    /// It is this much.
    pub fn set(&self, to: f64) {
        self.0.set(to);
    }

    /// It is this many; exact up to 2^53.
    #[allow(clippy::cast_precision_loss)] // a gauge
    pub fn count(&self, to: u64) {
        self.0.set(to as f64);
    }

    /// More by so much.
    pub fn increment(&self, by: f64) {
        self.0.increment(by);
    }

    /// Less by so much.
    pub fn decrement(&self, by: f64) {
        self.0.decrement(by);
    }

    /// More by `count` until the guard is dropped, also by a panic.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // a gauge
    pub fn hold(&self, count: usize) -> Held {
        let (gauge, count) = (self.clone(), count as f64);
        gauge.increment(count);
        Held { gauge, count }
    }
}

/// What [`Gauge::hold`] counts.
#[derive(Debug)]
pub struct Held {
    gauge: Gauge,
    count: f64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.decrement(self.count);
    }
}

/// Counts samples by size, in buckets.
#[derive(Clone, Debug)]
pub struct Histogram(::metrics::Histogram);

impl Histogram {
    /// One sample, in the unit that the metric's name ends with.
    pub fn record(&self, sample: f64) {
        self.0.record(sample);
    }

    /// One sample that is a count; exact up to 2^53.
    #[allow(clippy::cast_precision_loss)] // a sample of a distribution
    pub fn count(&self, sample: usize) {
        self.0.record(sample as f64);
    }
}

/// Metrics of one name with different labels. [`Family::of`] costs a lock, a hash and memory for the labels: keep the
/// member where it is touched often.
#[derive(Debug)]
pub struct Family<K> {
    registry: Registry,
    metric: Metric,
    kind: PhantomData<K>,
}

impl<K: Bind> Family<K> {
    /// The member with these label values, in the order of the catalogue.
    #[must_use]
    pub fn of(&self, values: &[&'static str]) -> K {
        let names = self.metric.labels;
        assert_eq!(names.len(), values.len(), "a value for each label");
        let labels = names.iter().zip(values);
        let labels = labels.map(|(name, value)| Label::from_static_parts(name, value));
        K::bind(&self.registry, &self.metric, labels.collect())
    }
}

impl Bind for Counter {
    const KIND: Kind = Kind::Counter;
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Counter {
        Counter(registry.counter(metric, labels))
    }
}

impl Bind for Seconds {
    const KIND: Kind = Kind::Counter;
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Seconds {
        Seconds(registry.gauge(metric, labels))
    }
}

impl Bind for Gauge {
    const KIND: Kind = Kind::Gauge;
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Gauge {
        Gauge(registry.gauge(metric, labels))
    }
}

impl Bind for Histogram {
    const KIND: Kind = Kind::Histogram;
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Histogram {
        Histogram(registry.histogram(metric, labels))
    }
}

impl<K: Bind> Bind for Family<K> {
    const KIND: Kind = K::KIND;
    /// No member yet: each is bound when it is asked for.
    fn bind(registry: &Registry, metric: &Metric, _: Vec<Label>) -> Family<K> {
        Family {
            registry: registry.clone(),
            metric: *metric,
            kind: PhantomData,
        }
    }
}
