//! The message family: get, range, update, delete, recall, the message itself; append and append_batch: `append.rs`.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names, sizes and limits, no
//! name both set and removed. Must not: know what is stored.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check;
use super::super::check::Check;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use super::entry::{Entry, Patch};
use super::reaction;
use super::reaction::Reactions;
use crate::model::json_text_bytes;

pub use super::append::{
    Append, AppendBatch, AppendOutcome, Appended, AppendedBatch, AppendedOne, BatchMessage,
    Scheduled,
};

/// A message in its newest form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message")]
pub struct Message<'a> {
    /// 1, 2, 3 … without holes.
    pub sequence: u64,
    /// When it was committed, ms since 1970; never falls within a timeline.
    pub timestamp: u64,
    /// The client's ID or a UUIDv7 of the server.
    pub message_id: Cow<'a, str>,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Cow<'a, str>>,
    /// What it holds; absent in a tombstone, and (with `sender`, without `deleted`) in the answer to a
    /// `message.update` if the array that answers its batch has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry<'a>>,
    /// The number of its last change; absent = never changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
    /// When it was last edited, ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<u64>,
    /// `true` in the tombstone that a user gets in place of a message that they have hidden, or of an inbox's entry
    /// that names a timeline which they may not read; else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub hidden: bool,
    /// `true` in a tombstone, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub deleted: bool,
    /// In the tombstone of a message that was recalled: by whom; empty = by nobody in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recalled_by: Option<Cow<'a, str>>,
    /// The reason that they gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// `true` in the tombstone of a message whose time was over, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub expired: bool,
    /// `true` if it is pinned, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub pinned: bool,
    /// The reactions to it, by name; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reactions: Option<Reactions<'a>>,
    /// From then on nobody is shown its entry, ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl Message<'_> {
    /// At most so many bytes in any encoding, inside an array: what a page counts against the outbound frame.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        // The names, punctuation and numbers of all members in JSON are 208 bytes together; MessagePack is below.
        let text = |text: &str| json_text_bytes(text) + 5;
        let own = |name: usize, own: &Option<Cow<'_, str>>| {
            own.as_deref().map_or(0, |own| name + text(own))
        };
        214 + text(&self.message_id)
            + own(0, &self.sender)
            + own(16, &self.recalled_by)
            + own(11, &self.reason)
            + if self.expired { 16 } else { 0 }
            + if self.pinned { 15 } else { 0 }
            + self
                .reactions
                .as_ref()
                .map_or(0, reaction::encoded_bytes_max)
            + self.expires_at.map_or(0, |_| 32)
            + self.entry.as_ref().map_or(0, Entry::encoded_bytes_max)
    }
}

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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::sequence(self.sequence)
    }
}

/// One message in its newest form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.get.result")]
pub struct Got {
    /// The message.
    pub message: Message<'static>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Where to end; default: at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Default `forward`.
    #[serde(default)]
    pub direction: Direction,
    /// Only these columns of each entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub columns: Option<Vec<String>>,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Range {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::name_list("columns", self.columns.as_deref().unwrap_or_default())?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.range.result")]
pub struct Page {
    /// In the asked order; tombstones too.
    pub messages: Vec<Message<'static>>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_change: Option<u64>,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Update {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Delete {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub reason: Option<String>,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Recall {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::sequence(self.sequence)?;
        match &self.reason {
            Some(reason) => check::bytes_between("reason", reason, REASON_BYTES_MAX),
            None => Ok(()),
        }
    }
}

/// Bytes of the reason of a recall.
const REASON_BYTES_MAX: usize = 1_024;

/// The message is a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.delete.result")]
pub struct Deleted {
    /// `false` if it was one already.
    pub deleted: bool,
}
