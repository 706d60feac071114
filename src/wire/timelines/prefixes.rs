//! `timeline.prefixes`: one level of the names of timelines, as a file system shows a directory.
//!
//! Owns: its parameters and its result. Promises: texts and the page limit are checked when they leave here. Must not:
//! know which timelines there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::timeline::AFTER_BYTES_MAX;

/// Asks for one level of the IDs that start with a prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.prefixes.params")]
pub struct Prefixes {
    /// Only IDs that start with this; the level begins behind it.
    #[schemars(length(max = 255))]
    pub prefix: Option<String>,
    /// What ends a level; `/` if it is left out.
    #[schemars(length(min = 1, max = 16))]
    pub delimiter: Option<String>,
    /// Only what comes behind this: `next` of the page before.
    #[schemars(length(max = 512))]
    pub after: Option<String>,
    /// Entries at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Prefixes {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("prefix", self.prefix.as_deref(), check::NAME_BYTES_MAX)?;
        if let Some(delimiter) = &self.delimiter {
            check::bytes_between("delimiter", delimiter, DELIMITER_BYTES_MAX)?;
        }
        check::text_bytes("after", self.after.as_deref(), AFTER_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// Bytes of a delimiter.
const DELIMITER_BYTES_MAX: usize = 16;

/// A page of one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.prefixes.result")]
pub struct Level {
    /// In the order of their names' bytes. May be none although there are more.
    pub entries: Vec<LevelEntry>,
    /// What to pass as `after` for the next page; absent = that was all. As in `timeline.list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A timeline of the level, or all timelines whose IDs go on behind the delimiter. One name may be both, once with the
/// delimiter at its end and once without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "level_entry")]
pub struct LevelEntry {
    /// The timeline's ID, or the prefix of the next level, up to its delimiter.
    pub name: String,
    /// It is a timeline.
    pub timeline: bool,
    /// It is the prefix of one or more timelines: pass it as `prefix` to see them.
    pub below: bool,
}
