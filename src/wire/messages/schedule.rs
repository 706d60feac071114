//! The schedule family: `schedule.list`, `schedule.cancel`.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names, IDs and limits. Must
//! not: know what is stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::reasons::Reason;
use super::super::schema::rules;
use super::entry::Entry;

/// Asks for the messages that the caller has scheduled in a timeline with `message.append {deliver_at}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "schedule.list.params")]
pub struct List {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What the page before gave as `next`.
    #[schemars(length(min = 1, max = 64))]
    pub after: Option<String>,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for List {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::message_id(|| "after".to_owned(), self.after.as_deref())?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A message that waits for its time, or that was refused when it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduled {
    /// Its message ID.
    pub scheduled: String,
    /// When it is appended, ms since 1970.
    pub deliver_at: u64,
    /// How long its entry will be shown from then on, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// What it holds.
    pub entry: Entry<'static>,
    /// Why it was not appended: `timeline_not_found` (deleted, or the sender was no member of it any more) or
    /// `epoch_changed` (made again). Absent = it still waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When it was refused, ms since 1970; it is listed for 7 days from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<u64>,
}

/// A page of scheduled messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "schedule.list.result")]
pub struct Listed {
    /// In the order of their IDs (UUIDs behind the others).
    pub scheduled: Vec<Scheduled>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Takes back a message that the caller has scheduled, or a refused one off the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "schedule.cancel.params")]
pub struct Cancel {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message ID that `message.append` gave as `scheduled`.
    #[schemars(length(min = 1, max = 64))]
    pub scheduled: String,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Cancel {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::message_id(|| "scheduled".to_owned(), Some(&self.scheduled))
    }
}

/// It will not be appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "schedule.cancel.result")]
pub struct Cancelled {}
