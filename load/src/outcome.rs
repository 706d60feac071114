//! The result of a run: one JSON format for every profile.
//!
//! Owns: the format and its version. Promises: a picture needs nothing else, nor does a comparison, which reads it from
//! the file; a change that an old reader would misunderstand raises `FORMAT`. Must not: know any profile.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checks::Checked;
use crate::exit::Stop;
use crate::machine::Machine;
use crate::pace::Lateness;
use crate::recorder::in_one_line;
pub use crate::recorder::{Latency, Seconds};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// When measuring began.
    pub before: f64,
    /// When it ended.
    pub after: f64,
}

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

    /// Enters latencies: distribution, seconds, and p50, p99, p99.9 as figures in ms.
    pub(crate) fn latency(&mut self, name: &str, latency: Latency, seconds: Seconds) {
        let Latency { p50, p99, p999, .. } = latency;
        if latency.count > 0 {
            for (quantile, micros) in [("p50", p50), ("p99", p99), ("p999", p999)] {
                let (name, ms) = (format!("{name}_{quantile}"), micros as f64 / 1_000.0);
                self.figure(&name, ms, "ms", Better::Lower);
            }
        }
        self.latencies.insert(name.to_owned(), latency);
        self.series.latencies.insert(name.to_owned(), seconds);
    }

    /// No promise was broken.
    pub fn held(&self) -> bool {
        self.checks.faults == 0
    }

    /// Reads a result file.
    pub fn load(file: &Path) -> Result<Outcome, Stop> {
        let wrong = |what: &dyn Display| Stop::Usage(format!("{}: {what}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {
                serde_json::from_value(value).map_err(|error| wrong(&error))
            }
            Some(format) => Err(wrong(&format!("format {format}; this tool reads {FORMAT}"))),
            None => Err(wrong(&"not a result of a profile")),
        }
    }
}
