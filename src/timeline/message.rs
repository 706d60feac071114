//! What goes in and out of the timeline layer, as types.
//!
//! Owns: arguments, answers, limits and the layer's [`Error`]. Promises: every number says its unit, every answer
//! carries the epoch that its positions are of. Must not: hold a rule, touch rows, or know how anything of it looks on
//! the wire.

use super::marks::Reactions;
use super::members::Configured;
use crate::access::Asker;
use crate::model::{Value, json_bytes, json_text_bytes};

/// A column name and its value; names are unique within an entry, sorted bytewise when they come out of the store.
pub type Columns = Vec<(String, Value)>;
/// The meta of a timeline.
pub type Meta = Columns;
/// The user who appends; empty = nobody in particular.
pub type Sender = String;

/// Which timeline a call is about, and who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The timeline's ID.
    pub timeline: String,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
    /// Who calls, and for what; a user may see only some of it.
    pub asker: Asker,
}

/// A back end's call, of whatever epoch.
impl From<&str> for Target {
    fn from(timeline: &str) -> Target {
        Target {
            timeline: timeline.to_owned(),
            epoch: None,
            asker: Asker::default(),
        }
    }
}

/// One message to append.
#[derive(Clone, Debug, Default)]
pub struct AppendOne {
    /// Columns, unique names, no nulls (the caller has checked names and sizes).
    pub entry: Columns,
    /// Chosen by the client; `None` = the server makes a UUIDv7 and keeps no ID row.
    pub message_id: Option<String>,
    /// So long after the call its time is over, ms; if it is to be appended later: so long after that.
    pub expires_in_ms: Option<u64>,
    /// Append it at this time (ms), not now; only where it is the append's one message.
    pub deliver_at: Option<u64>,
}

/// An append of one or more messages, all or none.
#[derive(Clone, Debug)]
pub struct Append {
    /// Where.
    pub timeline: String,
    /// Who appends: their name is stamped on each message.
    pub asker: Asker,
    /// In order; at least one; no message ID twice.
    pub messages: Vec<AppendOne>,
    /// Refuse unless the head is this, tested after message IDs.
    pub expect_head: Option<u64>,
    /// Make the timeline if it is not there.
    pub create: bool,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
}

/// What became of one appended message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub sequence: u64,
    /// Commit time of the first append, ms.
    pub timestamp: u64,
    /// The client's or the server's ID.
    pub message_id: String,
    /// It was there already.
    pub duplicate: bool,
    /// It waits until this time (ms): number and timestamp are not known yet and 0 here.
    pub scheduled: Option<u64>,
}

/// What an entry or a meta may grow to. Only an update needs the store for it: it alone sees the merged columns.
#[derive(Clone, Copy, Debug)]
pub struct EntryLimits {
    /// Of the compact JSON text (see [`crate::model::json_bytes`]).
    pub entry_bytes_max: u64,
    /// Names in one entry.
    pub entry_names_max: u64,
}

/// An edit of one message.
#[derive(Clone, Debug)]
pub struct UpdateMessage {
    /// Who asks.
    pub asker: Asker,
    /// Where.
    pub timeline: String,
    /// Which message.
    pub sequence: u64,
    /// Columns that get a new value, unique names.
    pub set: Columns,
    /// Names that go away; none of them is in `set`. Unknown ones are no error.
    pub remove: Vec<String>,
    /// Refuse unless this is the number of the message's last change (0 = never changed).
    pub expect_change: Option<u64>,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
    /// Refuse what would be larger than this.
    pub limits: EntryLimits,
}

/// An update of a timeline's meta: columns are merged into what is there.
#[derive(Clone, Debug)]
pub struct UpdateMeta {
    /// Who asks.
    pub asker: Asker,
    /// Where.
    pub timeline: String,
    /// Columns that get a new value, unique names.
    pub set: Meta,
    /// Names that go away (`null` in the request); none of them is in `set`. Unknown ones are no error.
    pub remove: Vec<String>,
    /// Refuse unless this is the meta's version.
    pub expect_version: Option<u64>,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
    /// Refuse what would be larger than this.
    pub limits: EntryLimits,
}

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
    /// Its time was over.
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
    /// When its time is over, ms; a tombstone keeps it.
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

/// What `timeline.get` returns.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineInfo {
    /// The timeline's ID.
    pub timeline: String,
    /// Epoch, head, floor, change head.
    pub head: Head,
    /// Its meta.
    pub meta: Meta,
    /// 1 at creation, then one more by each update of the meta.
    pub version: u64,
    /// ms.
    pub created_at: u64,
    /// Of the meta, ms.
    pub updated_at: u64,
    /// Timestamp of the last message.
    pub last_at: Option<u64>,
    /// The settings in force.
    pub configured: Configured,
    /// How many members there are.
    pub members: u64,
}

/// Which timelines a list should hold.
#[derive(Clone, Debug)]
pub struct List {
    /// Who asks.
    pub asker: Asker,
    /// Only names that begin with this.
    pub prefix: String,
    /// Only names above this.
    pub after: Option<String>,
    /// Timelines at most (already clamped).
    pub limit: usize,
    /// Approximate bytes of JSON at most; at least one timeline is returned all the same.
    pub bytes_max: usize,
}

/// A page of timelines in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Those that exist; the server's own (names in `$`) are not shown.
    pub timelines: Vec<TimelineInfo>,
    /// What goes into `after` for the next page, if there is more: the last of these names. If there is none, a name
    /// that may be hidden, and must not be shown.
    pub next: Option<String>,
}

/// Which messages a page should hold. `from` inclusive and `to` exclusive in both directions.
#[derive(Clone, Debug)]
pub struct Range {
    /// Who asks.
    pub asker: Asker,
    /// Where.
    pub timeline: String,
    /// Default: the floor forward, the head backward.
    pub from: Option<u64>,
    /// Default: to the end.
    pub to: Option<u64>,
    /// Messages at most (already clamped).
    pub limit: usize,
    /// Approximate bytes at most; at least one message is returned all the same.
    pub bytes_max: usize,
    /// Newest first.
    pub backward: bool,
    /// Only these columns of each entry; `None` = all.
    pub columns: Option<Vec<String>>,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
}

/// A page of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In the asked order.
    pub messages: Vec<Message>,
    /// Where the next page starts, if there is more.
    pub next: Option<u64>,
    /// As of the page's view.
    pub head: Head,
}

/// Limits of the timeline layer. Units are in the names.
#[derive(Clone, Debug)]
pub struct Limits {
    /// An ID is remembered while its message is younger than this …
    pub message_id_window_ms: u64,
    /// … or among this many newest of its timeline.
    pub message_id_window_count: u64,
    /// How many timelines' heads are kept in memory.
    pub heads_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_id_window_ms: 7 * 86_400_000,
            message_id_window_count: 10_000,
            heads_max: 1_000_000,
        }
    }
}

/// Something that happened to a timeline in one batch, as the feed sees it.
#[derive(Clone, Debug)]
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
