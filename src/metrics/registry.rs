//! The registry of one server's metrics: where handles come from, and the text that Prometheus reads.
//!
//! Owns: the recorder and the buckets. Promises: nothing is shared between two registries, so that each test has its
//! own; a histogram's samples wait (16 bytes each) until [`Registry::upkeep`] or a scrape counts them into their
//! buckets, and memory is bounded by what comes between two of these. Must not: install a global recorder, open a port.

use std::sync::Arc;

use ::metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::Metric;
use super::handles::Bind;

/// One server's metrics. All clones are the same registry.
#[derive(Clone, Debug)]
pub struct Registry(Arc<PrometheusRecorder>);

impl Registry {
    pub(super) fn new() -> Registry {
        let recorder = PrometheusBuilder::new()
            .set_buckets(COUNTS)
            .and_then(|builder| builder.set_buckets_for_metric(suffix(SECONDS_SUFFIX), SECONDS))
            .and_then(|builder| builder.set_buckets_for_metric(suffix(BYTES_SUFFIX), BYTES))
            .expect("no list of buckets is empty")
            .build_recorder();
        Registry(Arc::new(recorder))
    }

    /// Binds a metric of the catalogue, and says what it is.
    pub(super) fn bind<K: Bind>(&self, metric: &Metric, labels: &[Label]) -> K {
        let (name, help) = (KeyName::from_const_str(metric.name), metric.help.into());
        // One text for a name, of whatever kind it is.
        self.0.describe_counter(name, None, help);
        K::bind(self, metric, labels.to_vec())
    }

    pub(super) fn counter(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Counter {
        self.0.register_counter(&key(metric, labels), &METADATA)
    }

    pub(super) fn gauge(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Gauge {
        self.0.register_gauge(&key(metric, labels), &METADATA)
    }

    pub(super) fn histogram(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Histogram {
        self.0.register_histogram(&key(metric, labels), &METADATA)
    }

    /// The text in Prometheus' format, sorted by name.
    pub(super) fn render(&self) -> String {
        let text = self.0.handle().render();
        // The library has no counter of fractions.
        let text = text.replace(
            "# TYPE process_cpu_seconds_total gauge",
            "# TYPE process_cpu_seconds_total counter",
        );
        // Each block begins with the line of its name.
        let mut blocks: Vec<&str> = text.split_terminator("\n\n").collect();
        blocks.sort_unstable();
        blocks.iter().flat_map(|block| [*block, "\n"]).collect()
    }

    /// Counts the waiting samples of histograms into their buckets.
    pub(super) fn upkeep(&self) {
        self.0.handle().run_upkeep();
    }
}

fn key(metric: &Metric, labels: Vec<Label>) -> Key {
    Key::from_parts(metric.name, labels)
}

/// The recorder does not use it.
const METADATA: Metadata<'static> = Metadata::new("tideline", Level::INFO, None);

fn suffix(name: &str) -> Matcher {
    Matcher::Suffix(name.to_owned())
}

/// The upper bounds of histograms' buckets, by the unit that the name ends with; "" = any other.
pub(super) const BUCKETS: [(&str, &[f64]); 3] = [
    (SECONDS_SUFFIX, SECONDS),
    (BYTES_SUFFIX, BYTES),
    ("", COUNTS),
];
const SECONDS_SUFFIX: &str = "_seconds";
const BYTES_SUFFIX: &str = "_bytes";
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
