//! The reaction family: add, remove, list, and the reactions that a message carries.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here has checked names and limits. Must not:
//! know who has reacted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check;
use super::super::check::Check;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use crate::model::json_text_bytes;

/// Bytes of the name of a reaction: an emoji with all its modifiers takes 35.
const NAME_BYTES_MAX: usize = 64;

/// Reactions by name.
pub type Reactions<'a> = BTreeMap<Cow<'a, str>, Reaction<'a>>;

/// How many users have one reaction to a message, and some of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reaction")]
pub struct Reaction<'a> {
    /// How many.
    pub count: u64,
    /// The last ten, newest first, or all if there are fewer. While there are more than 1,000, one who takes it back is
    /// not replaced until others come. In the answer to a `reaction.list` of one reaction: a page of all, by name.
    pub users: Vec<Cow<'a, str>>,
    /// The caller has it too, and is not among the users that are named. Pushes, which many share, do not say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mine: bool,
}

/// At most so many bytes in any encoding.
pub(in super::super) fn encoded_bytes_max(reactions: &Reactions<'_>) -> usize {
    let text = |text: &str| json_text_bytes(text) + 5;
    let one = |(name, reaction): (&Cow<'_, str>, &Reaction<'_>)| {
        let users: usize = reaction.users.iter().map(|user| text(user)).sum();
        56 + text(name) + users
    };
    18 + reactions.iter().map(one).sum::<usize>()
}

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
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
            pub epoch: Option<String>,
        }

        impl Check for $params {
            fn check(&mut self, _: &Limits) -> Result<(), Failure> {
                check::timeline_to_write(&self.timeline)?;
                check::epoch("epoch", self.epoch.as_deref())?;
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
    pub reactions: Option<Reactions<'static>>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub reaction: Option<String>,
    /// Only users above this one: `next` of the page before. Only with `reaction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub after: Option<String>,
    /// Users at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for List {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
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

/// The reactions to a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reaction.list.result")]
pub struct Listed {
    /// All, or the one that was asked for if there is such a one.
    pub reactions: Reactions<'static>,
    /// What to pass as `after` for the next page of users; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
