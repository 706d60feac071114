//! The reaction family: add, remove, list.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names and limits. Must not:
//! know who has reacted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
pub use tideline_model::timelines::ReactionPage as Listed;
use tideline_model::timelines::{Reaction, Reactions};

/// Bytes of the name of a reaction: an emoji with all its modifiers takes 35.
const NAME_BYTES_MAX: usize = 64;

fn name(field: &str, name: &str) -> Result<(), Failure> {
    check::bytes_between(field, name, NAME_BYTES_MAX)?;
    check::no_control(field, name)
}

macro_rules! reaction_params {
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
            /// The name of the reaction, mostly an emoji: 1 to 64 bytes without control characters.
            #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
            pub reaction: String,
            /// Refuse unless this is the current one.
            #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
            pub epoch: Option<String>,
        }

        impl Check for $params {
            fn check(&mut self, _: &Limits) -> Result<(), Failure> {
                check::target_to_write(&self.timeline, &self.epoch)?;
                check::sequence(self.sequence)?;
                name("reaction", &self.reaction)
            }
        }
    };
}

reaction_params! {
    /// Adds the user's reaction to a message.
    Add, "reaction.add.params"
}
reaction_params! {
    /// Takes the user's reaction to a message back.
    Remove, "reaction.remove.params"
}

/// The reactions that the message has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reaction.add.result")]
pub struct Reacted {
    /// By name; at most 64. Absent if the array that answers the batch has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Reaction>>")]
    pub reactions: Option<Reactions>,
}

/// Asks for the reactions to a message, or for all users of one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "reaction.list.params",
    transform = rules::not_without("reaction", ["after"]),
)]
pub struct List {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// All users of this one, in the order of their names; absent = every reaction with its last users.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub reaction: Option<String>,
    /// Only users above this one: `next` of the page before. Only with `reaction`.
    #[schemars(length(max = 128))]
    pub after: Option<String>,
    /// Users at most; clamped to the page limit.
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
        check::sequence(self.sequence)?;
        match &self.reaction {
            Some(reaction) => name("reaction", reaction)?,
            None if self.after.is_some() => {
                return Err(Failure::invalid("after", "only with reaction"));
            }
            None => {}
        }
        check::page_limit(&mut self.limit, limits)
    }
}
