//! Messages that grow: how one is opened, `message.extend`, `message.finish`, `message.stop`.
//!
//! Owns: parameters and results of these. Promises: a column that grows is a text or not there, and a part is not
//! empty. Must not: know which parts there are.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;
use super::entry::{Entry, Patch};
use tideline_model::Value;
use tideline_model::timelines::{Message, Open, Outcome, TEXT};

/// How a message is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Opening {
    /// `true`, with the defaults; `false` = it is not.
    Flag(bool),
    /// With others.
    With(OpenWith),
}

/// What grows of a message, and when it is given up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenWith {
    /// The column that grows; a text in the entry, or not there. Default `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NAME))]
    pub column: Option<String>,
    /// Without a part for so long the server closes it as `failed`, ms; default 60,000, at most an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub idle_ms: Option<u64>,
}

/// Without a part for so long a message is abandoned, if nobody says otherwise, ms.
const IDLE_MS: u64 = 60_000;
/// The longest that can be asked for.
const IDLE_MS_MAX: u64 = 3_600_000;
impl Opening {
    /// Checks it against the entry that it is of; both with their paths.
    pub(super) fn check(
        &self,
        field: &str,
        (path, entry): (&str, &Entry<'_>),
    ) -> Result<(), Failure> {
        let Some(Open { column, idle_ms }) = self.open() else {
            return Ok(());
        };
        check::name(&|| format!("{field}.column"), &column)?;
        if !(1..=IDLE_MS_MAX).contains(&idle_ms) {
            let message = format!("from 1 to {IDLE_MS_MAX}");
            return Err(Failure::invalid(format!("{field}.idle_ms"), message));
        }
        match entry.columns.iter().find(|(name, _)| *name == column) {
            Some((_, Value::String(_))) => Ok(()),
            Some(_) => Err(Failure::invalid(
                format!("{path}.{column}"),
                "the column that grows must be a text, or not there",
            )),
            // It comes with the first part.
            None => check::names_count(path, entry.columns.len() + 1),
        }
    }

    /// What it comes to; `None` = the message is not open.
    #[must_use]
    pub fn open(&self) -> Option<Open> {
        let with = match self {
            Opening::Flag(false) => return None,
            Opening::Flag(true) => &OpenWith::default(),
            Opening::With(with) => with,
        };
        Some(Open {
            column: with.column.clone().unwrap_or_else(|| TEXT.to_owned()),
            idle_ms: with.idle_ms.unwrap_or(IDLE_MS),
        })
    }
}

/// Extends an open message by its next part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.extend.params")]
pub struct Extend {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// The part's number: 1, 2, 3 …; up to 100,000.
    #[schemars(range(min = 1))]
    pub part: u64,
    /// What comes behind the text so far; not empty. With it the entry must not pass `entry_bytes_max`.
    #[schemars(length(min = 1))]
    pub text: String,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Extend {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)?;
        if self.part == 0 {
            return Err(Failure::invalid("part", "must be at least 1"));
        }
        if self.text.is_empty() {
            return Err(Failure::invalid("text", "must not be empty"));
        }
        let (bytes, limit) = (self.text.len() as u64, limits.entry_bytes_max);
        if bytes > limit {
            return Err(Failure::too_large("text", "entry_bytes_max", limit, bytes));
        }
        Ok(())
    }
}

/// The part is there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.extend.result")]
pub struct Extended {
    /// How many parts there are.
    pub parts: u64,
    /// It was there already.
    pub duplicate: bool,
}

/// Closes an open message: its sender says that it is whole, or that it won't be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.finish.params")]
pub struct Finish {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// How many parts it has; refused if that is not so.
    pub parts: u64,
    /// How it went; default `done`.
    #[serde(default)]
    pub outcome: Outcome,
    /// What to set with it. Once checked only its `put` is filled; what it removes is in `remove`.
    #[schemars(description = "What to set with it; `null` removes the name.")]
    #[serde(default, skip_serializing_if = "Patch::is_empty")]
    pub set: Patch,
    /// What to remove with it; no name that is also in `set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub remove: Vec<String>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Finish {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)?;
        if self.set.is_empty() && self.remove.is_empty() {
            return Ok(());
        }
        check::set_and_remove(&mut self.set, &mut self.remove, limits)
    }
}

/// The message is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.finish.result")]
pub struct Finished {
    /// In its newest form.
    pub message: Message,
    /// It was closed so already.
    pub duplicate: bool,
}

/// Stops an open message: it is closed as `cancelled`, and its sender learns that from the next part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.stop.params")]
pub struct Stop {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// Why, for those who read the message: 1 to 1,024 bytes.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: Option<String>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Stop {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::sequence(self.sequence)?;
        check::reason(self.reason.as_deref())
    }
}

/// Parts of an open message, to subscriptions with `parts`: those that follow the parts that the reader has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.message.extended")]
pub struct MessageExtended<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// The message's number.
    pub sequence: u64,
    /// The first of these parts.
    pub from: u64,
    /// The last of them: how many there are now.
    pub parts: u64,
    /// Their texts, one behind the other.
    pub text: Cow<'a, str>,
}
