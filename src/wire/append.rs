//! `message.append` and `message.append_batch`.
//!
//! Owns: parameters and results of these two methods. Promises: what leaves here has checked names, sizes and IDs, and
//! no message ID twice in a batch. Must not: know what is stored.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{self, Check};
use super::entry::Entry;
use super::failure::Failure;
use super::limits::Limits;
use super::params::{objects, yes, yes_or};

/// Appends one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.append.params")]
pub struct Append {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// What the message holds.
    pub entry: Entry<'static>,
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
    /// It was there already.
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
    pub entry: Entry<'static>,
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
    /// It was there already.
    pub duplicate: bool,
}
