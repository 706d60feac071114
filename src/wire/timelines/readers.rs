//! `timeline.readers`: who follows a timeline now, and how far behind.
//!
//! Owns: its parameters and its result. Promises: the ID and the limit are checked when they leave here. Must not: know
//! subscriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;

/// Asks for those who are subscribed to a timeline. Needs the right to read the timeline besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.readers.params")]
pub struct Readers {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Of the slowest at most so many; clamped to 1,000.
    #[serde(default = "slowest_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Readers {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        if self.limit == 0 {
            return Err(Failure::invalid("limit", "must be at least 1"));
        }
        self.limit = self.limit.min(SLOWEST_MAX);
        Ok(())
    }
}

const SLOWEST_MAX: u64 = 1_000;
const SLOWEST_DEFAULT: u64 = 20;

fn slowest_default() -> u64 {
    SLOWEST_DEFAULT
}

/// The live subscriptions of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.readers.result")]
pub struct Read {
    /// How many there are.
    pub count: u64,
    /// Only so many of them have said how far they are; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// Of those that have said it, how many have everything.
    pub at_head: u64,
    /// Those that lag most first, then those that are furthest behind.
    pub slowest: Vec<Reader>,
}

/// A live subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline_reader")]
pub struct Reader {
    /// Its session, for `session.get`.
    pub session: String,
    /// Whose it is; absent = a back end's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The last sequence that went out to it.
    pub position: u64,
    /// For how long something newer has waited, ms; 0 = nothing does.
    pub lag_ms: u64,
}
