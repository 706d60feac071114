//! The result of a run: one JSON format for every profile.
//!
//! Owns: the format and its version. Promises: a picture needs nothing else, nor does a comparison, which reads it from
//! the file; a change that an old reader would misunderstand raises `FORMAT`. Must not: know any profile.

pub mod checks;
pub mod compare;
pub mod figures;
pub mod pictures;
pub mod recorder;
pub mod report;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::pace::Lateness;
use crate::exit::{Stop, Verdict};
use crate::run::machine::Machine;
use checks::Checked;
use recorder::in_one_line;
pub use recorder::{Latency, Seconds};

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
    /// Flags that say what was run, given or default.
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
    #[serde(serialize_with = "in_one_line")]
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
    pub at: Vec<f64>,
    /// What it was then.
    pub value: Vec<f64>,
}

/// A metric of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// When measuring began.
    pub before: f64,
    /// When it ended.
    pub after: f64,
}

/// The quantiles that are figures. The maximum is one event, which proves nothing.
const QUANTILES: [(&str, f64, Better); 4] = [
    ("p50", 0.5, Better::Lower),
    ("p99", 0.99, Better::Lower),
    ("p999", 0.999, Better::Lower),
    ("max", 1.0, Better::Neither),
];

impl Outcome {
    /// Enters a figure.
    pub fn figure(&mut self, name: &str, value: f64, unit: &str, better: Better) {
        let unit = unit.to_owned();
        let figure = Figure {
            value,
            unit,
            better,
        };
        self.figures.insert(name.to_owned(), figure);
    }

    /// Enters latencies, measured in µs: distribution and seconds, and as figures their count and quantiles.
    pub(crate) fn latency(&mut self, name: &str, total: &Histogram<u64>, seconds: Seconds) {
        let count = total.len() as f64;
        self.figure(&format!("{name}_count"), count, "1", Better::Neither);
        for (quantile, at, better) in QUANTILES {
            let ms = total.value_at_quantile(at) as f64 / 1_000.0;
            if count > 0.0 {
                self.figure(&format!("{name}_{quantile}"), ms, "ms", better);
            }
        }
        self.latencies.insert(name.to_owned(), Latency::of(total));
        self.series.latencies.insert(name.to_owned(), seconds);
    }

    /// No promise was broken.
    pub fn held(&self) -> bool {
        self.checks.faults == 0
    }

    /// What the run is worth.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.held(), self.validity.valid)
    }

    /// Profile and label, for people.
    pub(crate) fn title(&self) -> String {
        match &self.label {
            Some(label) if *label != self.profile => format!("{} ({label})", self.profile),
            _ => self.profile.clone(),
        }
    }

    /// Reads a result file.
    pub fn load(file: &Path) -> Result<Outcome, Stop> {
        let read = fs::read(file).and_then(|text| Ok(serde_json::from_slice(&text)?));
        let wrong = |what: &dyn Display| Stop::Usage(format!("{}: {what}", file.display()));
        let outcome: Outcome = read.map_err(|error| wrong(&error))?;
        match outcome.format {
            FORMAT => Ok(outcome),
            other => Err(wrong(&format!("format {other}; this tool reads {FORMAT}"))),
        }
    }
}
