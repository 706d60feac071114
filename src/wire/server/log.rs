//! The log family, for operators: the newest lines.
//!
//! Owns: parameters and results of these methods. Promises: limits and times are checked when they leave here. Must
//! not: know what is logged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;

/// Asks for lines of the server's log. It keeps the newest 2,000. Those of the target `audit` are for administrators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "log.tail.params")]
pub struct Tail {
    /// Only lines above this number: `next` of the answer before. Absent = from the oldest one that is kept.
    pub after: Option<u64>,
    /// Only lines of this level and worse; absent = all.
    pub level: Option<Level>,
    /// How long to wait for a line if there is none, ms; absent = not at all; clamped; not in a batch.
    pub wait_ms: Option<u64>,
    /// Lines at most.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Tail {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        self.wait_ms = self.wait_ms.map(|wait_ms| wait_ms.min(limits.wait_ms_max));
        check::page_limit(&mut self.limit, limits)
    }
}

/// How bad what a line says is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "log_level")]
pub enum Level {
    /// It needs a human.
    Error,
    /// It is odd, but was handled.
    Warn,
    /// A step in the server's life.
    Info,
    /// A request.
    Debug,
    /// Less than that.
    Trace,
}

/// Lines of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "log.tail.result")]
pub struct Tailed {
    /// In the order in which they were written.
    pub lines: Vec<Line>,
    /// Where to go on: `after` of the next call.
    pub next: u64,
    /// Lines above `after`, of any level, that are not kept any more.
    pub dropped: u64,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "log_line")]
pub struct Line {
    /// Higher than that of the line before, also after a restart.
    pub number: u64,
    /// When it was written, ms since 1970.
    pub at: u64,
    /// How bad it is.
    pub level: Level,
    /// Which part of the server wrote it.
    pub target: String,
    /// What it says; above 2,000 bytes it is cut, and says so.
    pub message: String,
    /// Of what: texts, numbers (as texts from 2^53 on) and booleans by name. A text above 2,000 bytes is cut and says
    /// so, as are the last ones when all take more than 8,000.
    pub fields: Map<String, Value>,
}
