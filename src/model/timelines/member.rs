//! Members of timelines.
//!
//! Owns: what is said of them, of those who are to become members, and of how far members have read. Promises: each
//! list says its order. Must not: decide who is a member.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NO_CONTROL;
use crate::entry::{self, Columns, Entry};

/// The role of a member that was added without one.
pub const DEFAULT_ROLE: &str = "member";

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Who.
    pub user: String,
    /// Free text.
    pub role: String,
    /// The app's.
    #[serde(with = "entry")]
    #[schemars(with = "Entry<'static>")]
    pub attributes: Columns,
    /// The first sequence that they may see.
    pub visible_from: u64,
    /// When they became a member, ms since 1970.
    pub joined_at: u64,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received; not below `read`.
    pub received: u64,
    /// The list's version at the last change of this member.
    pub version: u64,
}

/// A user who is to become a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Who, 1 to 128 bytes.
    #[schemars(length(min = 1, max = 128), regex(pattern = NO_CONTROL))]
    pub user: String,
    /// Free text, 1 to 64 bytes; default `member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub role: Option<String>,
    /// The app's, up to 4 KiB.
    #[serde(default, with = "entry")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Entry<'static>>")]
    pub attributes: Columns,
    /// The first sequence that they may see; without it as `history` says. Clamped to `head` + 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub visible_from: Option<u64>,
    /// Up to here they have read; without it all that is there when they join. Clamped to `head`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
}

impl NewMember {
    /// A user, with everything else at its default.
    #[must_use]
    pub fn plain(user: &str) -> NewMember {
        NewMember {
            user: user.to_owned(),
            role: None,
            attributes: Columns::new(),
            visible_from: None,
            read: None,
        }
    }

    /// The role that they get.
    #[must_use]
    pub fn role(&self) -> &str {
        self.role.as_deref().unwrap_or(DEFAULT_ROLE)
    }
}

/// A page of members, or of what changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "member.list.result")]
pub struct ListedMembers {
    /// In the order of their users' bytes; with `since` in the order of their changes.
    pub members: Vec<Member>,
    /// With `since`: users who left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<String>>,
    /// The version of the list. That of the first page of a whole list is what to pass as `since` once all pages are
    /// there.
    pub version: u64,
    /// What to pass as `after` for the next page, or as `since` if that was given; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextMembers>,
    /// How many members there are.
    pub members_count: u64,
    /// `since` is older than 30 days, or of another history: this is the whole list from its start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
}

/// Where the next page of members starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Next")]
pub enum NextMembers {
    /// Goes into `since`.
    Since(u64),
    /// Goes into `after`.
    After(String),
}

/// Who has received a message. Counts are of all members who can see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "receipt.list.result")]
pub struct Receipts {
    /// How many members have read it.
    pub read_count: u64,
    /// How many have received it.
    pub received_count: u64,
    /// Those who have received it, by user.
    pub members: Vec<Receipt>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How far one member has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Who.
    pub user: String,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received.
    pub received: u64,
}
