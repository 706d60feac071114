//! What goes in and out of the calls of timelines and messages, as types.
//!
//! Owns: arguments, answers, limits. Promises: every number says its unit, every answer carries the epoch that its
//! positions are of, or it is returned beside the answers, as of appends. Must not: hold a rule, touch rows, or know
//! how anything of it looks on the wire.

use super::event::{Columns, Head, Message, Meta};
use tideline_model::access::Asker;
use tideline_model::timelines::Open;
pub use tideline_model::timelines::TimelineInfo;

/// Which timeline a call is about, and its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The timeline's ID.
    pub timeline: String,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
    /// The caller, and what it asks for; a user may see only some of it.
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
    /// So long after the call it expires, ms; if it is to be appended later: so long after that.
    pub expires_in_ms: Option<u64>,
    /// Append it at this time (ms), not now; only where it is the append's one message.
    pub deliver_at: Option<u64>,
    /// Append it open, to grow in a column that has a text or is not there; not where it is appended later.
    pub open: Option<Open>,
}

/// An append of one or more messages, all or none.
#[derive(Clone, Debug)]
pub struct Append {
    /// Where.
    pub timeline: String,
    /// The sender, whose name is stamped on each message.
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
    /// How many parts it has, if it was to be open.
    pub parts: Option<u64>,
}

/// What an entry or a meta may grow to. Only an update needs the store for it: it alone sees the merged columns.
#[derive(Clone, Copy, Debug)]
pub struct EntryLimits {
    /// Of the compact JSON text (see [`tideline_model::json_bytes`]).
    pub entry_bytes_max: u64,
    /// Names in one entry.
    pub entry_names_max: u64,
}

/// An edit of one message.
#[derive(Clone, Debug)]
pub struct UpdateMessage {
    /// The asker.
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
    /// The asker.
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

/// Which timelines a list should hold.
#[derive(Clone, Debug)]
pub struct List {
    /// The asker.
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
    /// The asker.
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
    /// Nothing is appended any more.
    pub closed: bool,
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
