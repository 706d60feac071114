//! The pin family: add, remove, list.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names and limits. Must not:
//! know what is pinned.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use super::message::Message;

macro_rules! pin_params {
    ($(#[$doc:meta])* $params:ident, $name:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = $name)]
        pub struct $params {
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

        impl Check for $params {
            fn check(&mut self, _: &Limits) -> Result<(), Failure> {
                check::target_to_write(&self.timeline, &self.epoch)?;
                check::sequence(self.sequence)
            }
        }
    };
}

pin_params! {
    /// Pins a message for all; up to 100 of a timeline.
    Add, "pin.add.params"
}
pin_params! {
    /// Takes the pin of a message away.
    Remove, "pin.remove.params"
}

/// The message is pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "pin.add.result")]
pub struct Added {
    /// `false` if it was already.
    pub added: bool,
}

/// The message is not pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "pin.remove.result")]
pub struct Removed {
    /// `false` if it was not.
    pub removed: bool,
}

/// Asks for the pinned messages of a timeline, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "pin.list.params")]
pub struct List {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Only those above this sequence: `next` of the page before.
    pub after: Option<u64>,
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
        check::page_limit(&mut self.limit, limits)
    }
}

/// Pinned messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "pin.list.result")]
pub struct Listed {
    /// In the order of their numbers.
    pub messages: Vec<Message>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
