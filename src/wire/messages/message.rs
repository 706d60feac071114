//! The message family: get, range, update, delete, recall; append and append_batch: `append.rs`.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names, sizes and limits, no
//! name both set and removed. Must not: know what is stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use super::entry::Patch;

pub use super::append::{
    Append, AppendBatch, AppendOutcome, Appended, AppendedBatch, AppendedOne, BatchMessage,
    Scheduled,
};
pub use tideline_model::timelines::Message;

/// Asks for one message; a tombstone too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.get.params")]
pub struct Get {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)
    }
}

/// One message in its newest form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.get.result")]
pub struct Got {
    /// The message.
    pub message: Message,
}

/// In which order a range is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

/// Asks for a page of messages. `from` is inclusive and `to` exclusive in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.range.params")]
pub struct Range {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The first sequence; default: the floor forward, the head backward.
    pub from: Option<u64>,
    /// Where to end; default: at the end.
    pub to: Option<u64>,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Default `forward`.
    #[serde(default)]
    pub direction: Direction,
    /// Only these columns of each entry.
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub columns: Option<Vec<String>>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Range {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::name_list("columns", self.columns.as_deref().unwrap_or_default())?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.range.result")]
pub struct Page {
    /// In the asked order; tombstones too.
    pub messages: Vec<Message>,
    /// What to pass as `from` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// The lowest readable sequence.
    pub floor: u64,
    /// The last change number.
    pub change_head: u64,
    /// The timeline's epoch.
    pub epoch: String,
}

/// Edits a message: names in `set` get their value (`null` removes), those in `remove` go, others stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "message.update.params",
    transform = rules::some_of([rules::said("set"), rules::said("remove")]),
)]
pub struct Update {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// What to set. Once checked only its `put` is filled; what it removes is in `remove`.
    #[schemars(description = "What to set; `null` removes the name.")]
    #[serde(default, skip_serializing_if = "Patch::is_empty")]
    pub set: Patch,
    /// What to remove; no name that is also in `set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub remove: Vec<String>,
    /// Refuse unless this is the message's change number (0 = never changed).
    pub expect_change: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Update {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)?;
        check::set_and_remove(&mut self.set, &mut self.remove, limits)
    }
}

/// Makes a message a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.delete.params")]
pub struct Delete {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Delete {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)
    }
}

/// Makes a message a tombstone that says who recalled it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.recall.params")]
pub struct Recall {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// Why, for those who read the tombstone: 1 to 1,024 bytes.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: Option<String>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Recall {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)?;
        check::reason(self.reason.as_deref())
    }
}

/// The message is a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.delete.result")]
pub struct Deleted {
    /// `false` if it was one already.
    pub deleted: bool,
}
