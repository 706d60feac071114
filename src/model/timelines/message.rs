//! A message, as everybody above the rows has it: what a read gives, and what goes out.
//!
//! Owns: its fields, how it becomes a tombstone, and the most bytes that it takes. Promises: clients get it as it
//! serialises. Must not: know its row, or who may see it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::growth::{Open, Outcome, Shown, open_flag};
use super::reaction::{Reaction, Reactions, has_none};
use crate::entry::{self, Columns, Entry};
use crate::{json_bytes, json_text_bytes};
use tideline_base::trace::TraceParent;

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
    // Empty = nobody in particular.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub sender: String,
    /// What it holds; absent in a tombstone, and (with `sender`, without `deleted`) in the answer to a
    /// `message.update` if the array that answers its batch has no room for it.
    #[serde(default, with = "entry::some")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Entry<'static>>")]
    pub entry: Option<Columns>,
    /// The number of its last change; absent = never changed.
    // That of a reaction too; 0 = never.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<u64>")]
    pub change: u64,
    /// When it was last edited, ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<u64>,
    /// `true` in the tombstone that a user gets in place of a message that they have hidden, or of an inbox's entry
    /// that names a timeline which they may not read; else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub hidden: bool,
    /// `true` in a tombstone, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub deleted: bool,
    /// In the tombstone of a message that was recalled: by whom; empty = by nobody in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recalled_by: Option<String>,
    /// The reason that they gave, or the one who stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `true` in the tombstone of a message whose time was over, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub expired: bool,
    /// `true` if it is pinned, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub pinned: bool,
    /// The reactions to it, by name; absent = none.
    // `None` = it never had any, or is a tombstone.
    #[serde(default, skip_serializing_if = "has_none")]
    #[schemars(with = "Option<BTreeMap<String, Reaction>>")]
    pub reactions: Option<Box<Reactions>>,
    /// From then on nobody is shown its entry, ms since 1970.
    // A tombstone keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// `true` while it is open: its text grows by `message.extend`; `{"column": …}` if that is not the column `text`;
    /// else absent.
    #[serde(default, with = "open_flag", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Shown>")]
    pub open: Option<Box<Open>>,
    /// By how many parts its text has grown; absent unless it was appended open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
    /// How it ended, if it was open once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Of one that was stopped: by whom; empty = by nobody in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// `true` if the server closed it because no part came any more, else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub abandoned: bool,
    /// The `traceparent` of the call that appended it: in a push or a webhook's POST within a minute of that, else
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub traceparent: Option<Box<TraceParent>>,
}

/// Bytes of a `traceparent` with its name, as JSON.
const TRACED: usize = 72;
/// The same of `open`, `parts`, `outcome`, `abandoned` and the name of `stopped_by`.
const GROWN: usize = 88;

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How a message becomes a tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Burial {
    /// It is deleted.
    #[default]
    Deleted,
    /// It is recalled.
    Recalled {
        /// By whom; empty = nobody in particular.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
    },
    /// It has expired.
    Expired,
}

impl Message {
    /// Makes it a tombstone.
    pub fn bury(&mut self, burial: Burial) {
        (self.entry, self.deleted) = (None, true);
        self.forget_growth();
        match burial {
            Burial::Deleted => {}
            Burial::Recalled { by, reason } => {
                (self.recalled_by, self.reason) = (Some(by), reason);
            }
            Burial::Expired => self.expired = true,
        }
    }

    /// Hides it from its reader, who gets a tombstone in its place.
    pub fn hide(&mut self) {
        (self.entry, self.deleted, self.hidden) = (None, true, true);
        self.forget_growth();
    }

    /// Leaves out what is said of one that was open.
    fn forget_growth(&mut self) {
        (self.open, self.parts, self.outcome) = (None, None, None);
        if self.stopped_by.take().is_some() {
            self.reason = None;
        }
        self.abandoned = false;
    }

    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// Whether nothing but its reactions changed after a change number.
    #[must_use]
    pub fn is_reacted(&self, since: u64) -> bool {
        let reactions = self.reactions.as_ref();
        self.change > since && reactions.is_some_and(|all| all.entry_change <= since)
    }

    /// The most bytes that it takes as compact JSON, integers as numbers. Pages are measured with it.
    #[must_use]
    pub fn json_bytes_max(&self) -> usize {
        // Member names, punctuation, four numbers below 2^53, `deleted`, `hidden`.
        const FRAME: usize = 190;
        // The same of what only a recall says; what an expiry says is shorter.
        const RECALLED: usize = 28;
        let buried = match &self.recalled_by {
            Some(by) => RECALLED + json_text_bytes(by) + json_text_bytes(self.reason()),
            None if self.expired => RECALLED,
            None => 0,
        };
        FRAME
            + json_text_bytes(&self.message_id)
            + json_text_bytes(&self.sender)
            + self.entry.as_deref().map_or(0, json_bytes)
            + buried
            + self.grown_bytes_max()
            + self.expires_at.map_or(0, |_| 32)
            + self.traceparent.as_ref().map_or(0, |_| TRACED)
            + if self.pinned { 14 } else { 0 }
            + self
                .reactions
                .as_deref()
                .map_or(0, Reactions::json_bytes_max)
    }

    fn grown_bytes_max(&self) -> usize {
        let by = self.stopped_by.as_deref().map_or(0, |by| {
            json_text_bytes(by) + json_text_bytes(self.reason()) + 16
        });
        let column = self.open.as_deref().map_or(0, |open| {
            json_text_bytes(&open.column) + r#"{"column":}"#.len()
        });
        self.parts.map_or(0, |_| GROWN + by + column)
    }

    /// At most so many bytes in any encoding, inside an array: what a frame counts.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        // The names, punctuation and numbers of all members in JSON are 208 bytes together; MessagePack is below.
        let text = |text: &str| json_text_bytes(text) + 5;
        let own =
            |name: usize, own: &Option<String>| own.as_deref().map_or(0, |own| name + text(own));
        let sender = Some(&self.sender).filter(|sender| !sender.is_empty());
        let entry = self.entry.as_ref().map(Entry::from);
        let reactions = self.reactions.as_deref();
        let reactions = reactions.filter(|all| !all.by_name.is_empty());
        214 + text(&self.message_id)
            + sender.map_or(0, |sender| text(sender))
            + own(16, &self.recalled_by)
            + own(11, &self.reason)
            + self.grown_bytes_max()
            + if self.expired { 16 } else { 0 }
            + if self.pinned { 15 } else { 0 }
            + reactions.map_or(0, Reactions::encoded_bytes_max)
            + self.expires_at.map_or(0, |_| 32)
            + self.traceparent.as_ref().map_or(0, |_| TRACED)
            + entry.map_or(0, |entry| entry.encoded_bytes_max())
    }
}

/// A message of a feed: as it is in its timeline now, and which that is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "feed.message")]
pub struct FeedMessage {
    /// The timeline's ID.
    pub timeline: String,
    /// The timeline's epoch.
    pub epoch: String,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
}

impl FeedMessage {
    /// The most bytes that it takes as JSON.
    #[must_use]
    pub fn json_bytes_max(&self) -> usize {
        64 + 2 * self.timeline.len() + self.message.json_bytes_max()
    }
}
