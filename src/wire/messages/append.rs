//! `message.append` and `message.append_batch`.
//!
//! Owns: parameters and results of these two methods. Promises: what leaves here has checked names, sizes and IDs, and
//! no message ID twice in a batch. Must not: know what is stored.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::yes;
use super::super::schema::rules;
use super::entry::Entry;
use super::grow::Opening;

/// Appends one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "message.append.params",
    transform = rules::not_beside("deliver_at", ["expect_head", "open"]),
)]
pub struct Append {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What the message holds.
    pub entry: Entry<'static>,
    /// Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7.
    #[schemars(length(min = 1, max = 64))]
    pub message_id: Option<String>,
    /// Refuse unless this is the last sequence.
    pub expect_head: Option<u64>,
    /// So long from now nobody is shown the entry any more, and the server makes the message a tombstone; up to 100
    /// years.
    #[schemars(range(min = 1, max = 3_153_600_000_000_u64))]
    pub expires_in_ms: Option<u64>,
    /// Append the message at this time, ms since 1970, by the rights that the caller has then; up to 366 days ahead,
    /// up to 100 messages of a user in a timeline. `expires_in_ms` counts from then on. Not together with
    /// `expect_head`.
    pub deliver_at: Option<u64>,
    /// Append it open: its text grows by `message.extend` until `message.finish`. `true`, or how. Not together with
    /// `deliver_at`.
    pub open: Option<Opening>,
    /// Make the timeline if there is none, also if the message comes later; default `true`.
    #[serde(default = "yes")]
    pub create: bool,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Append {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::message_id(|| "message_id".to_owned(), self.message_id.as_deref())?;
        check::expires_in(|| "expires_in_ms".to_owned(), self.expires_in_ms)?;
        if self.deliver_at.is_some() && self.expect_head.is_some() {
            let failure = Failure::invalid("expect_head", "not together with deliver_at");
            return Err(failure);
        }
        if let Some(open) = &self.open {
            if self.deliver_at.is_some() {
                return Err(Failure::invalid("open", "not together with deliver_at"));
            }
            open.check("open", ("entry", &self.entry))?;
        }
        check::entry("entry", &self.entry, limits).map(|_| ())
    }
}

/// What became of the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "message.append.result")]
pub enum AppendOutcome {
    /// It is in the timeline.
    Appended(Appended),
    /// It waits for its time.
    Scheduled(Scheduled),
}

/// When the message will be appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduled {
    /// Its message ID, the client's or the server's: what `schedule.cancel` takes.
    pub scheduled: String,
    /// When, ms since 1970.
    pub deliver_at: u64,
    /// It was scheduled already.
    pub duplicate: bool,
}

/// Where the message went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Appended {
    /// Its number.
    pub sequence: u64,
    /// When it was committed, ms since 1970.
    pub timestamp: u64,
    /// The client's ID or the server's.
    pub message_id: String,
    /// The timeline's epoch.
    pub epoch: String,
    /// It was there already.
    pub duplicate: bool,
    /// How many parts it has; only if it was to be open. Absent from a duplicate of one that never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
}

/// Appends messages, all or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.append_batch.params")]
pub struct AppendBatch {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// In order; at least one.
    #[schemars(length(min = 1))]
    pub messages: Vec<BatchMessage>,
    /// Refuse unless this is the last sequence; not tested if all message IDs are known.
    pub expect_head: Option<u64>,
    /// Make the timeline if there is none; default `true`.
    #[serde(default = "yes")]
    pub create: bool,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

/// One message of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchMessage {
    /// What the message holds.
    pub entry: Entry<'static>,
    /// Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub message_id: Option<String>,
    /// So long from now nobody is shown the entry any more, and the server makes the message a tombstone; up to 100
    /// years.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_153_600_000_000_u64))]
    pub expires_in_ms: Option<u64>,
    /// Append it open: its text grows by `message.extend` until `message.finish`. `true`, or how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<Opening>,
}

impl Check for AppendBatch {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        let count = self.messages.len() as u64;
        if count == 0 {
            return Err(Failure::invalid("messages", "must not be empty"));
        }
        let limit = limits.batch_messages_max;
        if count > limit {
            let name = "batch_messages_max";
            return Err(Failure::too_large("messages", name, limit, count));
        }
        let mut bytes = 0;
        let mut ids = HashSet::new();
        for (index, message) in self.messages.iter().enumerate() {
            bytes += check::entry(&format!("messages[{index}].entry"), &message.entry, limits)?;
            let field = || format!("messages[{index}].message_id");
            check::message_id(field, message.message_id.as_deref())?;
            let field_of_time = || format!("messages[{index}].expires_in_ms");
            check::expires_in(field_of_time, message.expires_in_ms)?;
            if let Some(open) = &message.open {
                let entry = (&*format!("messages[{index}].entry"), &message.entry);
                open.check(&format!("messages[{index}].open"), entry)?;
            }
            if message
                .message_id
                .as_deref()
                .is_some_and(|id| !ids.insert(id))
            {
                return Err(Failure::invalid(field(), "the message ID stands twice"));
            }
        }
        if bytes > limits.batch_bytes_max {
            let (name, limit) = ("batch_bytes_max", limits.batch_bytes_max);
            return Err(Failure::too_large("messages", name, limit, bytes));
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
    /// It was there already.
    pub duplicate: bool,
    /// How many parts it has; only if it was to be open. Absent from a duplicate of one that never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
}
