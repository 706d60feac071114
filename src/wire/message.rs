//! The message family: append, append_batch, get, range, update, delete; and the message itself.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names, sizes, IDs and limits, no message ID
//! twice in a batch, no name both set and removed. Must not: know what is stored.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::check::{self, Check};
use super::entry::{Entry, Patch};
use super::failure::Failure;
use super::limits::Limits;
use super::params::{objects, one_of, or_default, page_default, page_limit, yes, yes_or};

/// A message in its newest form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message")]
pub struct Message {
    /// 1, 2, 3 … without holes.
    pub sequence: u64,
    /// When it was committed, ms since 1970; never falls within a timeline.
    pub timestamp: u64,
    /// The client's ID or a UUIDv7 of the server.
    pub message_id: String,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// What it holds; absent in a tombstone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
    /// The number of its last change; absent = never changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
    /// When it was last edited, ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<u64>,
    /// `true` in a tombstone, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub deleted: bool,
}

impl Message {
    /// At most so many bytes in any encoding, inside an array: what a page counts against the outbound frame.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        // The names, punctuation and numbers of all members in JSON are 194 bytes together; MessagePack is below.
        let text = |text: &str| super::entry::text_json_bytes(text) + 5;
        200 + text(&self.message_id)
            + self.sender.as_deref().map_or(0, text)
            + self.entry.as_ref().map_or(0, Entry::encoded_bytes_max)
    }
}

/// Appends one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.append.params")]
pub struct Append {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// What the message holds.
    pub entry: Entry,
    /// Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub message_id: Option<String>,
    /// Refuse unless this is the last sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_head: Option<u64>,
    /// Make the timeline if there is none; default `true`.
    #[serde(default = "yes", deserialize_with = "yes_or")]
    pub create: bool,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Append {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::number("expect_head", self.expect_head)?;
        check::message_id(|| "message_id".to_owned(), self.message_id.as_deref())?;
        check::entry("entry", &self.entry, limits).map(|_| ())
    }
}

/// Where the message went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.append.result")]
pub struct Appended {
    /// Its number.
    pub sequence: u64,
    /// When it was committed, ms since 1970.
    pub timestamp: u64,
    /// The client's ID or the server's.
    pub message_id: String,
    /// The timeline's epoch.
    pub epoch: String,
    /// It stood already.
    pub duplicate: bool,
}

/// Appends messages, all or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.append_batch.params")]
pub struct AppendBatch {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// In order; at least one.
    #[serde(deserialize_with = "objects")]
    #[schemars(length(min = 1))]
    pub messages: Vec<BatchMessage>,
    /// Refuse unless this is the last sequence; not tested if all message IDs are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_head: Option<u64>,
    /// Make the timeline if there is none; default `true`.
    #[serde(default = "yes", deserialize_with = "yes_or")]
    pub create: bool,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

/// One message of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchMessage {
    /// What the message holds.
    pub entry: Entry,
    /// Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub message_id: Option<String>,
}

impl Check for AppendBatch {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::number("expect_head", self.expect_head)?;
        let count = self.messages.len() as u64;
        if count == 0 {
            return Err(Failure::invalid("messages", "must not be empty"));
        }
        let limit = limits.batch_messages_max;
        if count > limit {
            return Err(Failure::too_large(
                "messages",
                "batch_messages_max",
                limit,
                count,
            ));
        }
        let mut bytes = 0;
        let mut ids = HashSet::new();
        for (index, message) in self.messages.iter().enumerate() {
            bytes += check::entry(&format!("messages[{index}].entry"), &message.entry, limits)?;
            let field = || format!("messages[{index}].message_id");
            check::message_id(field, message.message_id.as_deref())?;
            if message
                .message_id
                .as_deref()
                .is_some_and(|id| !ids.insert(id))
            {
                return Err(Failure::invalid(field(), "the message ID stands twice"));
            }
        }
        if bytes > limits.batch_bytes_max {
            let limit = limits.batch_bytes_max;
            return Err(Failure::too_large(
                "messages",
                "batch_bytes_max",
                limit,
                bytes,
            ));
        }
        Ok(())
    }
}

/// Where the messages went, in the order of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.append_batch.result")]
pub struct AppendedBatch {
    /// One for each message of the call.
    pub messages: Vec<AppendedOne>,
    /// The timeline's epoch.
    pub epoch: String,
}

/// Where one message of a batch went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppendedOne {
    /// Its number.
    pub sequence: u64,
    /// When it was committed, ms since 1970.
    pub timestamp: u64,
    /// The client's ID or the server's.
    pub message_id: String,
    /// It stood already.
    pub duplicate: bool,
}

/// Asks for one message; a tombstone too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.get.params")]
pub struct Get {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
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
    pub message: Message,
}

/// In which order a range is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

impl<'de> Deserialize<'de> for Direction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Direction, D::Error> {
        one_of(
            from,
            &[
                ("forward", Direction::Forward),
                ("backward", Direction::Backward),
            ],
        )
    }
}

/// Asks for a page of messages. `from` is inclusive and `to` exclusive in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.range.params")]
pub struct Range {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// The first sequence; default: the floor forward, the head backward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Where to end; default: at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default", deserialize_with = "page_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Default `forward`.
    #[serde(default, deserialize_with = "or_default")]
    pub direction: Direction,
    /// Only these columns of each entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
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
        check::number("from", self.from)?;
        check::number("to", self.to)?;
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
#[schemars(rename = "message.update.params")]
pub struct Update {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// What to set. Once checked only its `put` is filled; what it removes is in `remove`.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Patch::is_empty"
    )]
    pub set: Patch,
    /// What to remove; no name that is also in `set`.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 128))]
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
        check::number("expect_change", self.expect_change)?;
        check::patch("set", &self.set, limits)?;
        check::name_list("remove", &self.remove)?;
        if self.set.is_empty() && self.remove.is_empty() {
            return Err(Failure::invalid(
                "set",
                "neither set nor remove says anything",
            ));
        }
        self.remove.sort_unstable();
        self.remove.dedup();
        let removed = |name: &String| self.remove.binary_search(name).is_ok();
        let mut set = self
            .set
            .put
            .iter()
            .map(|(name, _)| name)
            .chain(&self.set.remove);
        if let Some(name) = set.find(|name| removed(name)) {
            let field = format!("set.{name}");
            return Err(Failure::invalid(
                field,
                "the name is both in set and in remove",
            ));
        }
        self.remove.append(&mut self.set.remove);
        self.remove.sort_unstable();
        Ok(())
    }
}

/// Makes a message a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.delete.params")]
pub struct Delete {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
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

/// The message is a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.delete.result")]
pub struct Deleted {
    /// `false` if it was one already.
    pub deleted: bool,
}
