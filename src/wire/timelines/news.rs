//! What happened to a timeline, as subscribers and back ends are told.
//!
//! Owns: the shapes that pushes of subscriptions and changes of streams have in common. Must not: decide who gets them,
//! or when.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::messages::entry::Entry;
use super::super::messages::message::Message;
use super::member::Member;
use tideline_model::timelines::Reaction;
use tideline_model::timelines::reaction::{by_name, encoded_bytes_max};

/// New messages of a subscription: every sequence above the last one of the reply, once, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.message")]
pub struct Messages<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// In order, without gap.
    pub messages: Vec<Cow<'a, Message>>,
    /// The last sequence.
    pub head: u64,
}

/// Edits and deletions of anything up to the subscription's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.message.changed")]
pub struct Changed<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// Newest form, in change order.
    pub messages: Vec<Cow<'a, Message>>,
    /// What to pass as `changes_after` when resuming: up to this change number everything was sent.
    pub change_head: u64,
}

/// Reactions to anything up to the subscription's position that was not changed otherwise. They are gathered: at most
/// one a second and timeline, and one beside a `message.changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.reaction")]
pub struct Reacted<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Its epoch.
    pub epoch: Cow<'a, str>,
    /// In change order, each once.
    pub messages: Vec<ReactedMessage<'a>>,
    /// What to pass as `changes_after` when resuming: up to this change number everything was sent.
    pub change_head: u64,
}

/// The reactions to one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reacted_message")]
pub struct ReactedMessage<'a> {
    /// The message's number.
    pub sequence: u64,
    /// The number of its last change.
    pub change: u64,
    /// All reactions to it now, by name; empty = none is left.
    #[serde(with = "by_name")]
    #[schemars(with = "BTreeMap<String, Reaction>")]
    pub reactions: Cow<'a, [Reaction]>,
}

impl ReactedMessage<'_> {
    /// At most so many bytes in any encoding, inside an array.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        64 + encoded_bytes_max(&self.reactions)
    }
}

/// The meta was updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.timeline.changed")]
pub struct TimelineChanged<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// The whole new meta.
    pub meta: Entry<'a>,
    /// Its version.
    pub version: u64,
}

/// Members who came, changed or went since the push before, at most once a second. `members` and `removed` are there
/// together or not at all: after more than 100 changes, and where this connection was too slow for pushes before, there
/// are only the numbers. Then ask `member.list` with the version that you know as `since`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.member.changed")]
pub struct MemberChanged<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Those who came or changed, as they are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<Member>>,
    /// Those who went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<Cow<'a, str>>>,
    /// The version of the list of members.
    pub version: u64,
    /// How many members there are.
    pub members_count: u64,
}

/// How far members have read, of those who did since the push before; at most once a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.receipt")]
pub struct Receipts<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// One for each member who has read; absent = this connection was too slow for some, so ask `member.list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts: Option<Vec<Receipt<'a>>>,
}

/// How far a member has read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt<'a> {
    /// The member.
    pub user: Cow<'a, str>,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received.
    pub received: u64,
}
