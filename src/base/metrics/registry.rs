//! The registry of one server's metrics: where handles come from, and the text that Prometheus reads.
//!
//! Owns: the recorders and the buckets. Each partition has a recorder of its own, which is dropped with the partition:
//! the library can't remove single figures. Promises: nothing is shared between two registries, so that each test has
//! its own; a histogram's samples wait (16 bytes each) until [`Registry::upkeep`] or a scrape counts them into their
//! buckets, and memory is bounded by what comes between two of these. Must not: install a global recorder, open a port.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ::metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::{Kind, Metric, PARTITION};

/// One server's metrics. All clones are the same registry.
#[derive(Clone, Debug)]
pub struct Registry {
    main: Arc<PrometheusRecorder>,
    /// By the value of the label `partition`.
    of_partitions: Arc<RwLock<Partitions>>,
}

type Partitions = BTreeMap<String, Arc<PrometheusRecorder>>;

/// Makes one kind of handle from a line of the catalogue.
pub trait Bind {
    /// The kind.
    const KIND: Kind;
    /// The handle. Asking again with the same labels gives the same figure.
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Self;
}

impl Registry {
    pub(super) fn new() -> Registry {
        Registry {
            main: Arc::new(recorder()),
            of_partitions: Arc::default(),
        }
    }

    /// Binds a metric of the catalogue, and says what it is.
    pub(super) fn bind<K: Bind>(&self, metric: &Metric, labels: &[Label]) -> K {
        K::bind(self, metric, labels.to_vec())
    }

    pub(super) fn counter(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Counter {
        self.recorder(metric, &labels)
            .register_counter(&key(metric, labels), &METADATA)
    }

    pub(super) fn gauge(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Gauge {
        self.recorder(metric, &labels)
            .register_gauge(&key(metric, labels), &METADATA)
    }

    pub(super) fn histogram(&self, metric: &Metric, labels: Vec<Label>) -> ::metrics::Histogram {
        self.recorder(metric, &labels)
            .register_histogram(&key(metric, labels), &METADATA)
    }

    /// Forgets the figures of a partition. What handles that still exist count is not shown.
    pub(super) fn forget(&self, partition: u16) {
        let mut all = self
            .of_partitions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let forgotten = all.remove(&partition.to_string());
        drop(all);
        drop(forgotten);
    }

    /// The text in Prometheus' format, sorted by name.
    pub(super) fn render(&self) -> String {
        let texts: Vec<String> = self.all().iter().map(|one| one.handle().render()).collect();
        // Each block begins with the lines that say what the metric is.
        let mut blocks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for block in texts.iter().flat_map(|text| text.split_terminator("\n\n")) {
            let lines = block.split_inclusive('\n');
            let about = lines.take_while(|line| line.starts_with('#'));
            let (about, figures) = block.split_at(about.map(str::len).sum());
            blocks.entry(about).or_default().push(figures);
        }
        let mut text = String::new();
        for (about, figures) in blocks {
            text.push_str(about);
            for lines in figures {
                text.push_str(lines);
                text.push('\n');
            }
        }
        // The library has no counter of fractions.
        text.replace(
            "# TYPE process_cpu_seconds_total gauge",
            "# TYPE process_cpu_seconds_total counter",
        )
    }

    /// Counts the waiting samples of histograms into their buckets.
    pub(super) fn upkeep(&self) {
        self.all().iter().for_each(|one| one.handle().run_upkeep());
    }

    fn all(&self) -> Vec<Arc<PrometheusRecorder>> {
        let of_partitions = self
            .of_partitions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut all = vec![Arc::clone(&self.main)];
        all.extend(of_partitions.values().map(Arc::clone));
        all
    }

    /// The recorder of a figure with these labels, which then knows what the metric is.
    fn recorder(&self, metric: &Metric, labels: &[Label]) -> Arc<PrometheusRecorder> {
        let partition = labels.iter().find(|label| label.key() == PARTITION);
        let recorder = partition.map_or_else(
            || Arc::clone(&self.main),
            |partition| self.of_partition(partition.value()),
        );
        let (name, help) = (KeyName::from_const_str(metric.name), metric.help.into());
        // One text for a name, of whatever kind it is.
        recorder.describe_counter(name, None, help);
        recorder
    }

    fn of_partition(&self, number: &str) -> Arc<PrometheusRecorder> {
        let mut all = self
            .of_partitions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(number.to_owned());
        Arc::clone(known.or_insert_with(|| Arc::new(recorder())))
    }
}

fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new()
        .set_buckets(COUNTS)
        .and_then(|builder| builder.set_buckets_for_metric(suffix(SECONDS_SUFFIX), SECONDS))
        .and_then(|builder| builder.set_buckets_for_metric(suffix(BYTES_SUFFIX), BYTES))
        .expect("no list of buckets is empty")
        .build_recorder()
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
