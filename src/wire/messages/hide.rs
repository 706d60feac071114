//! What a member takes out of their own sight: `message.hide`, `message.hidden`, `conversation.clear`.
//!
//! Owns: parameters and results of these methods. Promises: sequences are checked and not more than may be hidden.
//! Must not: know what is stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::reasons::Reason;
use super::super::schema::rules;
pub use tideline_model::timelines::Hidden as HiddenPage;

/// Messages that a member can hide.
const HIDES_MAX: u64 = 10_000;

/// Hides messages from the user, on all devices. What the user can't see is passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.hide.params")]
pub struct Hide {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The messages' numbers; a member can hide up to 10,000 messages.
    #[schemars(length(min = 1, max = 10_000), inner(range(min = 1)))]
    pub sequences: Vec<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Hide {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        let count = self.sequences.len() as u64;
        if count > HIDES_MAX {
            let failure = Failure::new(Reason::TooMany).about("sequences");
            return Err(failure.over(HIDES_MAX, count));
        }
        if count == 0 {
            return Err(Failure::invalid("sequences", "must not be empty"));
        }
        let checked = |(index, sequence): (usize, &u64)| {
            let at = |failure: Failure| failure.about(format!("sequences[{index}]"));
            check::sequence(*sequence).map_err(at)
        };
        self.sequences.iter().enumerate().try_for_each(checked)
    }
}

/// The messages are hidden.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.hide.result")]
pub struct Hid {
    /// How many of them were not hidden before.
    pub hidden: u64,
}

/// Asks for what the user has hidden, in the order of hiding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.hidden.params")]
pub struct Hidden {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Only what was hidden after so many: `next` of the page before, or the `hides` of a conversation.
    #[serde(default)]
    pub after: u64,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Hidden {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// Clears a conversation for the user: nothing below `before` is shown to them any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.clear.params")]
pub struct Clear {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The first sequence to keep; default: none is kept.
    pub before: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Clear {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)
    }
}

/// The conversation is cleared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.clear.result")]
pub struct Cleared {
    /// Nothing at or below is shown to the user.
    pub cleared: u64,
    /// How many messages are left to be read.
    pub unread: u64,
}
