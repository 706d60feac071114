//! The registry of one server's metrics: where handles come from, what they show now, and the text that Prometheus
//! reads.
//!
//! Owns: every figure, by its metric and its labels. Promises: nothing is shared between two registries, so that each
//! test has its own; who counts takes no lock; the text is sorted by name, then by labels. Must not: keep samples: a
//! histogram is its buckets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::{Kind, Metric, PARTITION};

/// One server's metrics. All clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<RwLock<Figures>>);

/// By the name of the metric, then by labels.
type Figures = BTreeMap<&'static str, (Metric, BTreeMap<Vec<Label>, Arc<Figure>>)>;

/// A label's name and value.
pub(super) type Label = (&'static str, Cow<'static, str>);

/// Makes one kind of handle from a line of the catalogue.
pub trait Bind {
    /// The kind.
    const KIND: Kind;
    /// The handle. Asking again with the same labels gives the same figure.
    fn bind(registry: &Registry, metric: &Metric, labels: Vec<Label>) -> Self;
}

/// What is counted of a metric under some labels.
#[derive(Debug)]
pub(super) struct Figure {
    /// A whole number, or the bits of a fraction; of a histogram the sum of its samples.
    pub(super) value: AtomicU64,
    is_fraction: bool,
    /// The upper bounds of a histogram's buckets, and the samples in each; the last one is above all bounds.
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
}

/// A figure as it is now.
#[derive(Clone, Debug)]
pub struct Line {
    labels: Vec<Label>,
    /// Of a histogram the sum of its samples.
    pub value: f64,
}

impl Figure {
    fn new(metric: &Metric, is_fraction: bool) -> Figure {
        let of = |(suffix, _): &&(&str, _)| metric.name.ends_with(suffix);
        let buckets = BUCKETS.iter().find(of);
        let buckets = buckets.filter(|_| metric.kind == Kind::Histogram);
        let bounds = buckets.map_or(&[][..], |(_, bounds)| bounds);
        Figure {
            value: AtomicU64::new(0),
            is_fraction,
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// More by so much, of a fraction.
    pub(super) fn add(&self, by: f64) {
        let more = |bits| Some((f64::from_bits(bits) + by).to_bits());
        let _ = self.value.fetch_update(Relaxed, Relaxed, more);
    }

    /// One sample of a histogram.
    pub(super) fn record(&self, sample: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < sample);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.add(sample);
    }

    #[allow(clippy::cast_precision_loss)] // exact up to 2^53
    fn now(&self) -> f64 {
        let value = self.value.load(Relaxed);
        match self.is_fraction {
            true => f64::from_bits(value),
            false => value as f64,
        }
    }

    fn show(&self, out: &mut String, metric: &Metric, labels: &[Label]) {
        let mut line = |suffix: &str, le: Option<&dyn Display>, value: &dyn Display| {
            let labels = labels.iter().map(|(name, value)| (*name, value as _));
            let labels = labels.chain(le.map(|le| ("le", le)));
            let labels: Vec<String> = labels
                .map(|(name, value): (&str, &dyn Display)| format!("{name}=\"{value}\""))
                .collect();
            let labels = match labels[..] {
                [] => String::new(),
                _ => format!("{{{}}}", labels.join(",")),
            };
            let _ = writeln!(out, "{}{suffix}{labels} {value}", metric.name);
        };
        match (metric.kind, self.is_fraction) {
            (Kind::Histogram, _) => {}
            (_, true) => return line("", None, &self.now()),
            (_, false) => return line("", None, &self.value.load(Relaxed)),
        }
        let mut count = 0;
        let bounds = self.bounds.iter().map(|bound| bound as _);
        let bounds = bounds.chain([&"+Inf" as &dyn Display]);
        for (bound, samples) in bounds.zip(&self.counts) {
            count += samples.load(Relaxed);
            line("_bucket", Some(bound), &count);
        }
        line("_sum", None, &self.now());
        line("_count", None, &count);
    }
}

impl Line {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(own, _)| *own == name);
        label.map(|(_, value)| &**value)
    }

    /// Its labels in a text, to tell it from others of its name.
    #[must_use]
    pub fn labels(&self) -> String {
        let labels = self.labels.iter();
        labels
            .flat_map(|(name, value)| [name, "=", value, ","])
            .collect()
    }
}

impl Registry {
    /// Binds a metric of the catalogue, and says what it is.
    pub(super) fn bind<K: Bind>(&self, metric: &Metric, labels: &[Label]) -> K {
        K::bind(self, metric, labels.to_vec())
    }

    /// The figure of a metric with these labels.
    pub(super) fn figure(
        &self,
        metric: &Metric,
        labels: Vec<Label>,
        is_fraction: bool,
    ) -> Arc<Figure> {
        if let Some((_, of)) = self.figures().get(metric.name)
            && let Some(figure) = of.get(&labels)
        {
            return Arc::clone(figure);
        }
        let mut figures = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (_, of) = figures
            .entry(metric.name)
            .or_insert((*metric, BTreeMap::new()));
        let made = || Arc::new(Figure::new(metric, is_fraction));
        Arc::clone(of.entry(labels).or_insert_with(made))
    }

    /// Forgets the figures of a partition. What handles that still exist count is not shown.
    pub(super) fn forget(&self, partition: u16) {
        let of = (PARTITION, partition.to_string().into());
        let mut figures = self.0.write().unwrap_or_else(PoisonError::into_inner);
        figures.retain(|_, (_, figures)| {
            figures.retain(|labels, _| !labels.contains(&of));
            !figures.is_empty()
        });
    }

    /// The text in Prometheus' format.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        for (name, (metric, figures)) in &*self.figures() {
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            for (labels, figure) in figures {
                figure.show(&mut out, metric, labels);
            }
            out.push('\n');
        }
        out
    }

    /// All of a name. What there is none of is 0 in every sum, so a figure that does not exist yet needs no case of its
    /// own.
    #[must_use]
    pub fn each(&self, name: &str) -> Vec<Line> {
        let figures = self.figures();
        let of = figures.get(name).into_iter().flat_map(|(_, of)| of);
        let line = |(labels, figure): (&Vec<Label>, &Arc<Figure>)| Line {
            labels: labels.clone(),
            value: figure.now(),
        };
        of.map(line).collect()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self, name: &str) -> f64 {
        self.each(name).iter().map(|line| line.value).sum()
    }

    /// The largest of them.
    #[must_use]
    pub fn max(&self, name: &str) -> f64 {
        let all = self.each(name);
        all.iter().fold(0.0, |max, line| line.value.max(max))
    }

    /// The sum of those with this value of a label.
    #[must_use]
    pub fn of(&self, name: &str, label: &str, value: &str) -> f64 {
        let mut all = self.each(name);
        all.retain(|line| line.label(label) == Some(value));
        all.iter().map(|line| line.value).sum()
    }

    /// The upper bounds of a histogram's buckets, and the samples in each; the last one is above all bounds.
    #[must_use]
    pub fn buckets(&self, name: &str, label: Label) -> (&'static [f64], Vec<u64>) {
        let figures = self.figures();
        let figure = figures.get(name).and_then(|(_, of)| of.get(&vec![label]));
        figure.map_or((&[], Vec::new()), |figure| {
            let counts = figure.counts.iter().map(|count| count.load(Relaxed));
            (figure.bounds, counts.collect())
        })
    }

    fn figures(&self) -> RwLockReadGuard<'_, Figures> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
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
