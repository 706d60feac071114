//! Every metric of the server: how they are bound, moved and shown.
//!
//! Owns: the kinds of handles, the registry and its text; the list itself is `catalogue.rs`. Promises: a handle is
//! bound once and cheap to touch (an atomic or a few); a scrape waits for nobody and takes memory for the list only,
//! whatever has been recorded. Label values are texts of enums, never IDs or anything a client sent. Must not: import
//! anything of ours, open a port.

mod catalogue;
mod members;
mod process;
mod reference;

use std::sync::OnceLock;

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

pub use catalogue::*;
pub use members::*;
pub use reference::reference;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One line of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As in `/metrics`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts, and its unit.
    pub help: &'static str,
    /// What to look at when it moves.
    pub moves: &'static str,
}

/// Counts events. All clones are the same counter.
#[derive(Clone, Debug)]
pub struct Counter(prometheus::IntCounter);

impl Counter {
    /// So many more.
    pub fn increment(&self, by: u64) {
        self.0.inc_by(by);
    }
}

/// Counts seconds. All clones are the same counter.
#[derive(Clone, Debug)]
pub struct Seconds(prometheus::Counter);

impl Seconds {
    /// So many by now; it never falls.
    fn reach(&self, total: f64) {
        self.0.inc_by((total - self.0.get()).max(0.0));
    }
}

/// A figure that goes up and down. All clones are the same gauge.
#[derive(Clone, Debug)]
pub struct Gauge(prometheus::Gauge);

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
        self.0.add(by);
    }

    /// Less by so much.
    pub fn decrement(&self, by: f64) {
        self.0.sub(by);
    }
}

/// Counts samples by size, in buckets. All clones are the same histogram.
#[derive(Clone, Debug)]
pub struct Histogram(prometheus::Histogram);

impl Histogram {
    /// One sample, in the unit that the metric's name tells.
    pub fn record(&self, sample: f64) {
        self.0.observe(sample);
    }

    /// One sample that is a count; exact up to 2^53.
    #[allow(clippy::cast_precision_loss)] // a sample of a distribution
    pub fn count(&self, sample: usize) {
        self.0.observe(sample as f64);
    }
}

/// Makes one kind of handle from a line of the catalogue.
trait Bind: Sized {
    const KIND: Kind;
    fn bind(metric: &Metric) -> Self;
}

impl Bind for Counter {
    const KIND: Kind = Kind::Counter;
    fn bind(metric: &Metric) -> Counter {
        Counter(registered(prometheus::IntCounter::with_opts(opts(metric))))
    }
}

impl Bind for Seconds {
    const KIND: Kind = Kind::Counter;
    fn bind(metric: &Metric) -> Seconds {
        Seconds(registered(prometheus::Counter::with_opts(opts(metric))))
    }
}

impl Bind for Gauge {
    const KIND: Kind = Kind::Gauge;
    fn bind(metric: &Metric) -> Gauge {
        Gauge(registered(prometheus::Gauge::with_opts(opts(metric))))
    }
}

impl Bind for Histogram {
    const KIND: Kind = Kind::Histogram;
    fn bind(metric: &Metric) -> Histogram {
        let made = prometheus::Histogram::with_opts(histogram_opts(metric));
        Histogram(registered(made))
    }
}

/// Counters of one name, told apart by labels. A first look at a member costs a lock and a hash: keep the member where
/// it is touched often.
#[derive(Debug)]
pub struct Counters(IntCounterVec);

impl Counters {
    /// The counter with these label values, in the order of the catalogue.
    #[must_use]
    pub fn of(&self, values: &[&'static str]) -> Counter {
        Counter(self.0.with_label_values(values))
    }
}

impl Bind for Counters {
    const KIND: Kind = Kind::Counter;
    fn bind(metric: &Metric) -> Counters {
        let made = IntCounterVec::new(opts(metric), metric.labels);
        Counters(registered(made))
    }
}

/// Gauges of one name, told apart by labels.
#[derive(Debug)]
pub struct Gauges(prometheus::GaugeVec);

impl Gauges {
    /// The gauge with these label values, in the order of the catalogue.
    #[must_use]
    pub fn of(&self, values: &[&'static str]) -> Gauge {
        Gauge(self.0.with_label_values(values))
    }
}

impl Bind for Gauges {
    const KIND: Kind = Kind::Gauge;
    fn bind(metric: &Metric) -> Gauges {
        let made = prometheus::GaugeVec::new(opts(metric), metric.labels);
        Gauges(registered(made))
    }
}

/// Histograms of one name, told apart by labels. Keep the members, as with [`Counters`].
#[derive(Debug)]
pub struct Histograms(HistogramVec);

impl Histograms {
    /// The histogram with these label values, in the order of the catalogue.
    #[must_use]
    pub fn of(&self, values: &[&'static str]) -> Histogram {
        Histogram(self.0.with_label_values(values))
    }
}

impl Bind for Histograms {
    const KIND: Kind = Kind::Histogram;
    fn bind(metric: &Metric) -> Histograms {
        let made = HistogramVec::new(histogram_opts(metric), metric.labels);
        Histograms(registered(made))
    }
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

fn histogram_opts(metric: &Metric) -> HistogramOpts {
    HistogramOpts::new(metric.name, metric.help).buckets(buckets_of(metric.name).to_vec())
}

fn registered<C: Collector + Clone + 'static>(made: prometheus::Result<C>) -> C {
    let made =
        made.expect("the catalogue's names and buckets are well formed: a test binds them all");
    registry()
        .register(Box::new(made.clone()))
        .expect("each name stands in the catalogue once and is bound once: a test sees to it");
    made
}

/// Counts something that is held: up now, down when dropped, also by a panic.
#[derive(Debug)]
pub struct Held {
    gauge: &'static Gauge,
    count: f64,
}

impl Held {
    /// One more.
    #[must_use]
    pub fn one(gauge: &'static Gauge) -> Held {
        Held::many(gauge, 1)
    }

    /// So many more.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // a gauge
    pub fn many(gauge: &'static Gauge, count: usize) -> Held {
        let count = count as f64;
        gauge.increment(count);
        Held { gauge, count }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.decrement(self.count);
    }
}

/// What `/metrics` shows.
#[derive(Clone, Copy, Debug)]
pub struct Exposition(());

impl Exposition {
    /// The text in Prometheus' format. Reads some files of `/proc`, nothing else that could wait.
    #[must_use]
    pub fn render(self) -> String {
        process::observe();
        // Only metrics without a name or with one told twice can fail, and registering has refused those.
        TextEncoder::new()
            .encode_to_string(&registry().gather())
            .expect("the registry holds well-formed metrics only")
    }
}

/// Binds all handles, so that a metric is at `/metrics` from the start and not from its first event. In one process
/// (tests) all servers share one registry.
#[must_use]
pub fn install() -> Exposition {
    members::bind_all();
    build_info()
        .of(&[env!("CARGO_PKG_VERSION"), std::env::consts::ARCH])
        .set(1.0);
    Exposition(())
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::new)
}

/// The upper bounds of a histogram's buckets, by its unit.
fn buckets_of(name: &str) -> &'static [f64] {
    match name {
        name if name.ends_with("_seconds") => SECONDS,
        name if name.ends_with("_bytes") => BYTES,
        _ => COUNTS,
    }
}

const SECONDS: &[f64] = &[
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0, 30.0,
];
const BYTES: &[f64] = &[
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];
const COUNTS: &[f64] = &[
    0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
    10_000.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut seen = std::collections::HashSet::new();
        for metric in catalogue() {
            let name = metric.name;
            assert!(seen.insert(name), "{name} stands twice");
            assert!(name.starts_with("tideline_") || name.starts_with("process_"));
            let total = name.ends_with("_total");
            assert_eq!(total, metric.kind == Kind::Counter, "{name}");
            for scaled in ["_ms", "_millis", "_micros", "_kb", "_mb", "_percent"] {
                assert!(!name.contains(scaled), "{name} is not in a base unit");
            }
            assert!(metric.help.ends_with('.') && metric.moves.ends_with('.'));
            for foreign in ["user", "timeline", "sender", "connection"] {
                assert!(!metric.labels.contains(&foreign), "{name} by {foreign}");
            }
        }
    }

    #[test]
    fn everything_is_rendered_from_the_start() {
        let exposition = install();
        // Set by the server, from its configuration.
        limit().of(&["reads_max"]).count(1);
        let text = exposition.render();
        for metric in catalogue() {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let name = metric.name;
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
            let shown = |line: &str| line.starts_with(name);
            assert!(text.lines().any(shown), "{name} has no sample");
        }
    }

    #[test]
    fn a_sample_is_in_its_bucket_and_memory_does_not_grow_with_samples() {
        let exposition = install();
        request_seconds().of(&["ping"]).record(0.0003);
        let before = exposition.render();
        assert!(before.contains("tideline_request_seconds_bucket{method=\"ping\",le=\"0.0005\"}"));
        for _ in 0..100_000 {
            commit().sync_seconds.record(0.0003);
        }
        let after = exposition.render();
        assert_eq!(before.lines().count(), after.lines().count());
    }

    #[test]
    fn what_is_held_is_given_back() {
        let gauge = &feed().waits;
        let before = gauge.0.get();
        let held = Held::one(gauge);
        assert!(gauge.0.get() >= before + 1.0);
        drop(held);
        assert!(gauge.0.get() < before + 1.0);
    }
}
