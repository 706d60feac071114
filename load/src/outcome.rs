//! The result of a run: one JSON format for every profile.
//!
//! Owns: the format and its version. Promises: what a picture or a comparison needs is in it, so that both can be made
//! again from the file; a change that an old reader would misunderstand raises `FORMAT`. Must not: know any profile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checks::Checked;
use crate::exit::Stop;
use crate::machine::Machine;
use crate::pace::Lateness;
pub use crate::recorder::Seconds;
use crate::recorder::{Recorded, in_one_line};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// Everything about one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of this tool.
    pub tool: String,
    /// Which profile.
    pub profile: String,
    /// A name that the caller gave.
    pub label: Option<String>,
    /// When it began, ms since 1970.
    pub began_ms: u64,
    /// Length of the measurement.
    pub seconds: f64,
    /// Seed of texts, choices and times.
    pub seed: u64,
    /// All flags, given or default.
    pub settings: Map<String, Value>,
    /// What it ran on.
    pub machine: Machine,
    /// Whether the figures may be believed.
    pub validity: Validity,
    /// What was checked.
    pub checks: Checked,
    /// The figures, by name.
    pub figures: BTreeMap<String, Figure>,
    /// Latencies, by kind of operation.
    pub latencies: BTreeMap<String, Latency>,
    /// By the second.
    pub series: Series,
    /// The server's metrics before and after, by name with labels.
    pub metrics: BTreeMap<String, Moved>,
    /// What a profile has to say beyond that.
    pub details: Map<String, Value>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// How much.
    pub value: f64,
    /// Of what: `1/s`, `ms`, `bytes`, `s`, `1`, `%`.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is.
    Higher,
    /// Less is.
    Lower,
    /// Neither: it only tells.
    Neither,
}

/// Whether a run measured what it was to measure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Validity {
    /// No reason speaks against it.
    pub valid: bool,
    /// What does.
    pub reasons: Vec<String>,
    /// How an open loop kept to its schedule.
    pub lateness: Option<Lateness>,
}

/// A distribution of latencies, µs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub min: u64,
    /// Half are at or below this.
    pub p50: u64,
    /// Nine in ten.
    pub p90: u64,
    /// 99 in 100.
    pub p99: u64,
    /// 999 in 1,000.
    pub p999: u64,
    /// The worst.
    pub max: u64,
    /// (quantile, value, how many up to here), closer together towards the worst: enough to draw it again.
    #[serde(serialize_with = "in_one_line")]
    pub curve: Vec<(f64, u64, u64)>,
}

impl Latency {
    /// Reads them off a histogram of µs.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        let mut up_to = 0;
        let curve = histogram.iter_quantiles(5).map(|step| {
            up_to += step.count_since_last_iteration();
            (step.quantile_iterated_to(), step.value_iterated_to(), up_to)
        });
        let curve = if histogram.is_empty() {
            Vec::new()
        } else {
            curve.collect()
        };
        Latency {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            curve,
        }
    }
}

/// What changed from second to second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Operations of each second, by kind.
    pub latencies: BTreeMap<String, Seconds>,
    /// Samples, by name with the unit as its end: `server_resident_bytes`.
    pub samples: BTreeMap<String, Samples>,
}

/// Samples of something over the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Seconds since the measurement began; negative before.
    #[serde(serialize_with = "in_one_line")]
    pub at: Vec<f64>,
    /// What it was then.
    #[serde(serialize_with = "in_one_line")]
    pub value: Vec<f64>,
}

/// A metric of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// When measuring began.
    pub before: f64,
    /// When it ended.
    pub after: f64,
}

impl Outcome {
    /// Enters what a recorder holds: distribution, seconds, and p50, p99, p99.9 as figures in ms.
    pub fn latency(&mut self, recorded: Recorded) {
        let Recorded {
            name,
            total,
            series,
        } = recorded;
        let latency = Latency::of(&total);
        let quantiles = [
            ("p50", latency.p50),
            ("p99", latency.p99),
            ("p999", latency.p999),
        ];
        if latency.count > 0 {
            for (quantile, micros) in quantiles {
                let figure = Figure {
                    value: micros as f64 / 1_000.0,
                    unit: "ms".to_owned(),
                    better: Better::Lower,
                };
                self.figures.insert(format!("{name}_{quantile}"), figure);
            }
        }
        self.latencies.insert(name.clone(), latency);
        self.series.latencies.insert(name, series);
    }

    /// No promise was broken.
    #[must_use]
    pub fn held(&self) -> bool {
        self.checks.faults == 0
    }

    /// Reads a result file.
    pub fn load(file: &Path) -> Result<Outcome, Stop> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let wrong =
            |what: &dyn std::fmt::Display| Stop::Usage(format!("{}: {what}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let Format { format } = serde_json::from_str(&text)
            .map_err(|error| wrong(&format_args!("not a result of a profile: {error}")))?;
        if format != FORMAT {
            return Err(wrong(&format_args!(
                "format {format}; this tool reads {FORMAT}"
            )));
        }
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    }
}
