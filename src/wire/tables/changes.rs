//! Changes as back ends get them: in pushes of streams.
//!
//! Owns: the list of kinds, and their shapes. Promises: what a subscription is pushed too has the same members here;
//! new kinds may come. Must not: decide who gets them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::messages::entry::{Entry, OneValue};
use super::super::timelines::news::{
    Changed, MemberChanged, Messages, Reacted, Receipts, TimelineChanged,
};
use tideline_model::timelines::Settings;

/// Changes of a stream, and the position behind them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "push.stream.changes")]
pub struct StreamChanges<'a> {
    /// The stream's number on this connection.
    pub stream: u64,
    /// In the order of their commits, each once. Perhaps none: then only the position moved.
    pub changes: Vec<Change<'a>>,
    /// What to commit, or to pass as `position`, to go on behind them.
    pub position: String,
    /// There was more when this was read; `false` = the reader has caught up.
    pub more: bool,
}

/// A change. Ignore kinds that you don't know.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind")]
#[schemars(rename = "stream_change")]
pub enum Change<'a> {
    /// `message`: messages were appended; in their newest form as of that commit.
    #[serde(rename = "message")]
    Message(Messages<'a>),
    /// `message.changed`: messages were edited, deleted or pinned; newest form, without reactions, which are changes of
    /// their own.
    #[serde(rename = "message.changed")]
    MessageChanged(Changed<'a>),
    /// `reaction`: the reactions to messages changed.
    #[serde(rename = "reaction")]
    Reaction(Reacted<'a>),
    /// `timeline.created`: a timeline was made.
    #[serde(rename = "timeline.created")]
    TimelineCreated(TimelineCreated<'a>),
    /// `timeline.changed`: the meta was updated.
    #[serde(rename = "timeline.changed")]
    TimelineChanged(TimelineChanged<'a>),
    /// `timeline.configured`: the settings were changed.
    #[serde(rename = "timeline.configured")]
    TimelineConfigured(TimelineConfigured<'a>),
    /// `timeline.deleted`: a timeline was deleted.
    #[serde(rename = "timeline.deleted")]
    TimelineDeleted(TimelineDeleted<'a>),
    /// `member.changed`: members came, changed or went.
    #[serde(rename = "member.changed")]
    MemberChanged(MemberChanged<'a>),
    /// `receipt`: members have read.
    #[serde(rename = "receipt")]
    Receipt(Receipts<'a>),
    /// `row.put`: a row became these columns and nothing else.
    #[serde(rename = "row.put")]
    RowPut(Row<'a>),
    /// `row.updated`: some columns of a row changed.
    #[serde(rename = "row.updated")]
    RowUpdated(Row<'a>),
    /// `row.deleted`: a row was deleted.
    #[serde(rename = "row.deleted")]
    RowDeleted(Row<'a>),
}

/// A timeline was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline_created")]
pub struct TimelineCreated<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// Its meta.
    pub meta: Entry<'a>,
    /// The meta's version.
    pub version: u64,
    /// When, ms.
    pub created_at: u64,
}

/// The settings of a timeline were changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline_configured")]
pub struct TimelineConfigured<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// Those in force.
    pub settings: Settings,
    /// Their version.
    pub version: u64,
}

/// A timeline was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline_deleted")]
pub struct TimelineDeleted<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// The epoch that ended.
    pub epoch: Cow<'a, str>,
}

/// A change of a table's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row_change")]
pub struct Row<'a> {
    /// The table.
    pub table: Cow<'a, str>,
    /// When it was committed, ms.
    pub timestamp: u64,
    /// The primary key, name to value.
    pub key: Entry<'a>,
    /// What changed: columns in the order of their names, versions newest first.
    pub columns: Vec<RowColumn<'a>>,
    /// What the stream's original columns held before; absent = nothing, or it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<Vec<RowColumn<'a>>>,
}

/// A version of a column, or its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row_column")]
pub struct RowColumn<'a> {
    /// The column's name.
    pub name: Cow<'a, str>,
    /// The version, ms mostly; absent = all versions were deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Its value; absent = deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<OneValue<'a>>,
}
