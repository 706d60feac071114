//! The conversation family: list, sync, count, get, update, hide, direct.
//!
//! Owns: parameters and results of these methods. Promises: IDs, limits, filters and attributes are checked when they
//! leave here. Must not: know who is a member of what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::{Entry, Patch};
use super::super::messages::message::Message;
use super::super::params::page_default;
use super::super::schema::rules;
pub use tideline_model::people::{Count as Counted, Filter};

/// Bytes of a cursor.
const CURSOR_BYTES_MAX: usize = 4 << 10;
/// Bytes of a user's own attributes of one conversation.
const ATTRIBUTES_BYTES_MAX: u64 = 16 << 10;

/// Asks for the caller's conversations: pinned first, then newest activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.list.params")]
pub struct List {
    /// `next` of the page before.
    #[schemars(length(max = 4096))]
    pub after: Option<String>,
    /// Conversations at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Which of them.
    #[serde(default)]
    pub filter: Filter,
    /// Only these names of the last messages.
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub columns: Option<Vec<String>>,
}

impl Check for List {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("after", self.after.as_deref(), CURSOR_BYTES_MAX)?;
        check_filter(&self.filter, limits)?;
        columns(&mut self.columns)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of conversations; may hold fewer than asked for though there are more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.list.result")]
pub struct Listed {
    /// In order.
    pub conversations: Vec<Conversation>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What to pass to `conversation.sync` to hear what has changed since: that of the first page.
    pub cursor: String,
}

/// A timeline that the caller is a member of, as they see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation")]
pub struct Conversation {
    /// The timeline's ID.
    pub timeline: String,
    /// Tells this history of the name from earlier ones.
    pub epoch: String,
    /// The timeline's meta.
    pub meta: Entry<'static>,
    /// The other user of a direct conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// The lowest sequence that the caller may see.
    pub floor: u64,
    /// The last change number, 0 if none.
    pub change_head: u64,
    /// The last message, if the caller may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<Message>,
    /// The newest activity: the last message or the caller's joining, ms since 1970.
    pub last_at: u64,
    /// How many members there are.
    pub members_count: u64,
    /// The caller's role.
    pub role: String,
    /// When the caller joined, ms since 1970.
    pub joined_at: u64,
    /// The first sequence that the caller may see by their membership.
    pub visible_from: u64,
    /// Up to here the caller has read.
    pub read: u64,
    /// Up to here the caller has received.
    pub received: u64,
    /// Messages above `read` and `floor` that are neither the caller's nor deleted nor hidden.
    pub unread: u64,
    /// Those of them that mention the caller, up to 100.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mentions: u64,
    /// Nothing at or below is shown to the caller.
    pub cleared: u64,
    /// How many messages the caller hid.
    pub hides: u64,
    /// Off the list until a message comes.
    pub hidden: bool,
    /// The caller's own, on all their devices.
    pub attributes: Entry<'static>,
    /// Of the meta.
    pub version: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Asks for every conversation that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.sync.params")]
pub struct Sync {
    /// Of the last sync or of a list; absent = all come.
    #[schemars(length(max = 4096))]
    pub cursor: Option<String>,
    /// Conversations at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Wait up to this long until there is something, ms; clamped; not in a batch.
    pub wait_ms: Option<u64>,
    /// Only these names of the last messages.
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub columns: Option<Vec<String>>,
}

impl Check for Sync {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("cursor", self.cursor.as_deref(), CURSOR_BYTES_MAX)?;
        columns(&mut self.columns)?;
        self.wait_ms = self.wait_ms.map(|wait_ms| wait_ms.min(limits.wait_ms_max));
        check::page_limit(&mut self.limit, limits)
    }
}

/// What has changed. A conversation may come again; none is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.sync.result")]
pub struct Synced {
    /// Their newest state.
    pub conversations: Vec<Conversation>,
    /// Timelines that are no conversation of the caller any more.
    pub removed: Vec<String>,
    /// What to pass next time.
    pub cursor: String,
    /// That is all; otherwise call again at once.
    pub done: bool,
    /// The cursor is too old, or of another history: all come, and what has not by `done` is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
}

/// Counts the caller's conversations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.count.params")]
pub struct Count {
    /// Which of them.
    #[serde(default)]
    pub filter: Filter,
}

impl Check for Count {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check_filter(&self.filter, limits)
    }
}

/// Asks for one conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.get.params")]
pub struct Get {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)
    }
}

/// One conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.get.result")]
pub struct Got {
    /// It.
    pub conversation: Conversation,
}

/// Makes the conversation of the caller and one other user, or finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.direct.params")]
pub struct Direct {
    /// The other user, 1 to 128 bytes.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: String,
}

impl Check for Direct {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::user("user", &self.user)
    }
}

/// The conversation of the two, which only its members may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.direct.result")]
pub struct DirectMade {
    /// Its ID, made from both names. Users make timelines whose ID begins with `direct/` by this call only.
    pub timeline: String,
    /// Its epoch.
    pub epoch: String,
    /// `false` if it was there already. A caller who had left it is a member again.
    pub created: bool,
}

/// Changes the caller's own attributes of a conversation. The server knows `pinned` (`true`) and `muted` (`true`, or
/// until when, ms since 1970).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "conversation.update.params",
    transform = rules::some_of([rules::said("set"), rules::said("remove")]),
)]
pub struct Update {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What to set. Once checked only its `put` is filled; what it removes is in `remove`.
    #[schemars(description = "What to set; `null` removes the name.")]
    #[serde(default, skip_serializing_if = "Patch::is_empty")]
    pub set: Patch,
    /// What to remove; no name that is also in `set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub remove: Vec<String>,
}

impl Check for Update {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::set_and_remove(&mut self.set, &mut self.remove, limits)
    }
}

/// The attributes were changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.update.result")]
pub struct Updated {
    /// All of them; absent only if the array that answers a batch has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Entry<'static>>,
}

/// Takes a conversation off the caller's list until a message comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "conversation.hide.params")]
pub struct Hide {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
}

impl Check for Hide {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)
    }
}

/// The conversation is off the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "conversation.hide.result")]
pub struct Hidden {
    /// `true`.
    pub hidden: bool,
}

fn check_filter(filter: &Filter, limits: &Limits) -> Result<(), Failure> {
    let attributes = Entry::from(&filter.attributes);
    attributes_size("filter.attributes", &attributes, limits)
}

fn columns(columns: &mut Option<Vec<String>>) -> Result<(), Failure> {
    if let Some(columns) = columns {
        check::name_list("columns", columns)?;
        columns.sort_unstable();
        columns.dedup();
    }
    Ok(())
}

fn attributes_size(field: &str, attributes: &Entry<'_>, limits: &Limits) -> Result<(), Failure> {
    let bytes = check::entry(field, attributes, limits)?;
    if bytes > ATTRIBUTES_BYTES_MAX {
        let (name, limit) = ("attributes_bytes_max", ATTRIBUTES_BYTES_MAX);
        return Err(Failure::too_large(field, name, limit, bytes));
    }
    Ok(())
}
