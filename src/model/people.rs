//! The vocabulary of what lies at users: what their layer gives is what clients get.
//!
//! Owns: devices and their places, and the filter and the counts of a list of conversations. Promises: a type here
//! serialises as the protocol says, and is its schema. Must not: know a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::entry::{self, Columns, Entry};

/// How far a device has stored a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The epoch that the numbers belong to.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: String,
    /// Everything up to this sequence is stored.
    pub after: u64,
    /// Every change up to this number is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes_after: Option<u64>,
}

impl Place {
    /// The place that is stored when this one is set and `stored` was there: within one history it moves forward only.
    #[must_use]
    pub fn above(self, stored: &Place) -> Place {
        if self.epoch != stored.epoch {
            return self;
        }
        Place {
            after: self.after.max(stored.after),
            changes_after: self.changes_after.max(stored.changes_after),
            epoch: self.epoch,
        }
    }
}

/// A device of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its name.
    pub device: String,
    /// Its last use, exact to a day, ms since 1970.
    pub used_at: u64,
    /// How many positions it has.
    pub positions: u64,
}

/// What the list holds. Muted conversations count by their mentions only; with a filter of `muted: false` not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.count.result")]
pub struct Count {
    /// Conversations on the list.
    pub conversations: u64,
    /// Those with something unread.
    pub unread_conversations: u64,
    /// Unread messages in all of them.
    pub unread: u64,
    /// Those that mention the caller.
    pub mentions: u64,
    /// More than 1,000 have news, and not all of them are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Which conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.filter")]
pub struct Filter {
    /// Only those with something unread; `false`: only those without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<bool>,
    /// Only those whose own attributes have all of these values.
    #[serde(default, with = "entry")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Entry<'static>>")]
    pub attributes: Columns,
    /// Only those that are muted now; `false`: only the others, so that no muted one counts at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
}
