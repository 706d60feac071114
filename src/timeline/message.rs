//! Messages, heads and what a batch did to a timeline, as everybody above the rows sees them.
//!
//! Owns: these types, and the most bytes that a message takes as JSON. Promises: every number says its unit. Must not:
//! hold a rule, touch rows, or encode.

use super::marks::Reactions;
use crate::model::{Value, json_bytes, json_text_bytes};

/// A column name and its value; names are unique within an entry, sorted bytewise when they come out of the store.
pub type Columns = Vec<(String, Value)>;
/// The meta of a timeline.
pub type Meta = Columns;
/// The user who appends; empty = nobody in particular.
pub type Sender = String;

/// How a message became a tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Burial {
    /// It was deleted.
    #[default]
    Deleted,
    /// It was recalled.
    Recalled {
        /// By whom; empty = nobody in particular.
        by: String,
        /// Why, in their words; empty = they said nothing.
        reason: String,
    },
    /// It has expired.
    Expired,
}

/// A stored message in its newest form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// 1, 2, 3 …
    pub sequence: u64,
    /// Commit time, ms; never falls within a timeline.
    pub timestamp: u64,
    /// Unique per (timeline, sender) within the window.
    pub message_id: String,
    /// Empty = none.
    pub sender: Sender,
    /// `None` = a tombstone.
    pub entry: Option<Columns>,
    /// How it became a tombstone; `None` as long as it has an entry.
    pub burial: Option<Burial>,
    /// The reader has hidden it, and gets a tombstone in its place.
    pub hidden: bool,
    /// The number of its last change, reactions included; 0 = never changed.
    pub change: u64,
    /// When it was last edited, ms.
    pub edited_at: Option<u64>,
    /// When it expires, ms; a tombstone keeps it.
    pub expires_at: Option<u64>,
    /// It is pinned for all.
    pub pinned: bool,
    /// `None` = it never had any, or is a tombstone.
    pub reactions: Option<Box<Reactions>>,
}

impl Message {
    /// Whether nothing but its reactions changed after a change number.
    #[must_use]
    pub fn is_reacted(&self, since: u64) -> bool {
        let reactions = self.reactions.as_ref();
        self.change > since && reactions.is_some_and(|all| all.entry_change <= since)
    }

    /// The most bytes that the message takes as compact JSON, integers as numbers. Pages are measured with it.
    #[must_use]
    pub fn json_bytes_max(&self) -> usize {
        // Member names, punctuation, four numbers below 2^53, `deleted`, `hidden`.
        const FRAME: usize = 190;
        // The same of what only a recall says; what an expiry says is shorter.
        const RECALLED: usize = 28;
        let entry = self.entry.as_deref().map_or(0, json_bytes);
        let burial = match &self.burial {
            Some(Burial::Recalled { by, reason }) => {
                RECALLED + json_text_bytes(by) + json_text_bytes(reason)
            }
            Some(Burial::Expired) => RECALLED,
            Some(Burial::Deleted) | None => 0,
        };
        const EXPIRES: usize = 32;
        let expires = self.expires_at.map_or(0, |_| EXPIRES);
        const PINNED: usize = 14;
        let pinned = if self.pinned { PINNED } else { 0 };
        let reactions = self
            .reactions
            .as_ref()
            .map_or(0, |all| all.json_bytes_max());
        let texts = json_text_bytes(&self.message_id) + json_text_bytes(&self.sender);
        FRAME + texts + entry + burial + expires + pinned + reactions
    }
}

/// The moving numbers of a timeline, as of one view or one publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Tells this history of the name from earlier ones; opaque text, 1 to 32 of `[A-Za-z0-9]`.
    pub epoch: String,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// The lowest readable sequence; `head + 1` if nothing is kept.
    pub floor: u64,
    /// The last change number, 0 if none.
    pub change_head: u64,
}

/// How many members a timeline has, and the last version of a change of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Of which history of the timeline's name; later ones are larger.
    pub incarnation: u64,
    /// 0 = there was none.
    pub version: u64,
    /// How many.
    pub members: u64,
}

/// Something that happened to a timeline in one batch, as the feed sees it.
#[derive(Clone, Debug, Default)]
pub struct TimelineEvent {
    /// Which timeline.
    pub timeline: String,
    /// Its state after the batch; `None` = deleted.
    pub head: Option<Head>,
    /// Its members behind the batch; 0 of a deleted one.
    pub members: Standing,
    /// The version of its meta, if the batch changed it.
    pub meta_version: Option<u64>,
    /// Messages that the batch appended, in order.
    pub appended: Vec<Message>,
    /// Sequences that the batch edited or deleted.
    pub changed: Vec<u64>,
    /// The batch added reactions or took some back.
    pub reacted: bool,
    /// The batch changed settings: perhaps others may read it now.
    pub configured: bool,
}
