//! The family of methods that follow timelines: `sync`, `subscribe`, `unsubscribe`.
//!
//! Owns: parameters and results of these methods. Promises: positions are checked, no timeline is there twice, and not
//! both `after` and `rewind` are given. Must not: know what a timeline holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::check::{self, Check};
use super::failure::Failure;
use super::limits::Limits;
use super::message::Message;
use super::params::{one_of, or_default, page_default, page_limit, yes, yes_or};
use super::position::positions_at;

pub use super::positions::{Position, Positions};

/// Asks for what is new in many timelines, and may wait for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "sync.params")]
pub struct Sync {
    /// The reader's positions, by timeline.
    pub positions: Positions,
    /// Messages per timeline at most; clamped to the page limit.
    #[serde(default = "page_default", deserialize_with = "page_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Wait up to this long until there is something, ms; clamped; not in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Check for Sync {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        positions_at("positions", &self.positions, limits)?;
        self.wait_ms = self.wait_ms.map(|wait_ms| wait_ms.min(limits.wait_ms_max));
        check::page_limit(&mut self.limit, limits)
    }
}

/// What is new.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "sync.result")]
pub struct Synced {
    /// Only timelines with something after their position, or changed, or whose position is not of their history.
    pub timelines: BTreeMap<String, SyncedTimeline>,
    /// Timelines that are not shown may have news: call again.
    pub more: bool,
}

/// What is new in one timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncedTimeline {
    /// Messages above the position, without gap.
    pub messages: Vec<Message<'static>>,
    /// What changed at or below the position, newest form, in change order; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Message<'static>>>,
    /// What to pass as `after` next time.
    pub position: u64,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// The lowest readable sequence.
    pub floor: u64,
    /// What to pass as `changes_after` next time: the last change number, or while `changed` could not hold all of them
    /// (`more`) the number up to which it does.
    pub change_head: u64,
    /// The timeline's epoch; absent if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// There is more in this timeline.
    pub more: bool,
    /// How it went.
    pub state: State,
}

/// How a position was answered. An unknown one means: start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As asked.
    Ok,
    /// History before the position is gone: messages start at `floor`, and it goes on from there.
    TooOld,
    /// Another history: no messages, no subscription; start over.
    EpochChanged,
    /// No such timeline any more; only in `sync`.
    Deleted,
}

/// Resumes a timeline and follows it. Neither `after` nor `rewind`: from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "subscribe.params")]
pub struct Subscribe {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// Everything above this sequence; not with `rewind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The newest so many messages; not with `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind: Option<u64>,
    /// The epoch that `after` belongs to. If it is not the current one, the answer's `state` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
    /// Also what changed at or below `after`, above this change number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes_after: Option<u64>,
    /// Messages in the reply at most; clamped to the page limit. The rest follows as pushes.
    #[serde(default = "page_default", deserialize_with = "page_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Make the timeline if there is none; default `true`.
    #[serde(default = "yes", deserialize_with = "yes_or")]
    pub create: bool,
    /// Pushes of this subscription that come only if they are asked for.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub with: Vec<With>,
}

/// Pushes that a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum With {
    /// `signal`: what users say in passing.
    Signals,
    /// `presence`: who is online.
    Presence,
}

impl<'de> Deserialize<'de> for With {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<With, D::Error> {
        one_of(
            from,
            &[("signals", With::Signals), ("presence", With::Presence)],
        )
    }
}

impl Check for Subscribe {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())?;
        check::number("after", self.after)?;
        check::number("rewind", self.rewind)?;
        check::number("changes_after", self.changes_after)?;
        if self.after.is_some() && self.rewind.is_some() {
            return Err(Failure::invalid("rewind", "either after or rewind"));
        }
        // The server's own timelines may be read, not made.
        self.create &= !self.timeline.starts_with('$');
        check::page_limit(&mut self.limit, limits)
    }
}

/// The subscription, unless `state` says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "subscribe.result")]
pub struct Subscribed {
    /// The timeline's ID.
    pub timeline: String,
    /// Its epoch; empty if a position in a history that is gone was given and there is no such timeline now.
    pub epoch: String,
    /// The lowest readable sequence.
    pub floor: u64,
    /// The last sequence; the reader has caught up when it reaches it.
    pub head: u64,
    /// What to pass as `changes_after` when resuming: the last change number, or while `changed` could not hold all of
    /// them (`more`) the number up to which it does; the pushes of the rest carry it on.
    pub change_head: u64,
    /// Messages above the position, without gap.
    pub messages: Vec<Message<'static>>,
    /// What changed at or below the position, newest form, in change order; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Message<'static>>>,
    /// The rest up to `head` follows as pushes.
    pub more: bool,
    /// How it went.
    pub state: State,
}

/// Ends a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "unsubscribe.params")]
pub struct Unsubscribe {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub timeline: String,
    /// The epoch that is thought to be current; another one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Unsubscribe {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline(&self.timeline)?;
        check::epoch("epoch", self.epoch.as_deref())
    }
}

/// The subscription is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "unsubscribe.result")]
pub struct Unsubscribed {}
