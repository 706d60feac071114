//! The family of methods that follow timelines: `sync`, `subscribe`, `unsubscribe`.
//!
//! Owns: parameters and results of these methods. Promises: positions are checked, no timeline is there twice, and not
//! both `after` and `rewind` are given. Must not: know what a timeline holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::message::Message;
use super::super::params::{page_default, yes};
use super::super::people::position::{Place, places, positions_at};

pub use super::super::people::positions::{Position, Positions};
use super::super::schema::rules;
pub use super::open_places::OpenPlaces;
pub use super::subscriptions::{Following, Start, Subscribed, SubscribedMany, SubscribedOne};
use super::subscriptions::{check_count, check_starts};
pub use tideline_model::timelines::{Grown, Lane as With, SyncState as State};

/// Asks for what is new in many timelines, and may wait for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "sync.params",
    transform = rules::one_of([rules::given("positions"), rules::given("device")]),
    transform = rules::not_without("device", ["ack", "rewind"]),
)]
pub struct Sync {
    /// The reader's positions, by timeline; or `device`.
    pub positions: Option<Positions>,
    /// The user's device whose stored positions count, in all of the user's conversations; 1 to 64 bytes.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: Option<String>,
    /// Positions that the device has stored: they are set first, as by `position.set`. Nothing else moves them.
    #[schemars(with = "Option<BTreeMap<String, Place>>", transform = rules::timelines)]
    pub ack: Option<Positions>,
    /// So many of the newest messages of a conversation in which the device has no position; default 20.
    pub rewind: Option<u64>,
    /// Messages per timeline at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Wait up to this long until there is something, ms; clamped; not in a batch.
    pub wait_ms: Option<u64>,
}

impl Check for Sync {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        match (&self.positions, &self.device) {
            (Some(positions), None) => {
                positions_at("positions", positions, limits)?;
                let only_by_device = match (&self.ack, self.rewind) {
                    (Some(_), _) => Some("ack"),
                    (None, Some(_)) => Some("rewind"),
                    (None, None) => None,
                };
                if let Some(field) = only_by_device {
                    return Err(Failure::invalid(field, "only with a device"));
                }
            }
            (None, Some(device)) => {
                check::device("device", device)?;
                if let Some(ack) = &self.ack {
                    places("ack", ack, limits)?;
                }
            }
            _ => return Err(Failure::invalid("positions", "either positions or device")),
        }
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
    pub messages: Vec<Message>,
    /// What changed at or below the position, newest form, in change order; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Message>>,
    /// Parts that came to the messages in `open`. One that is not open any more is in `changed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<Grown>,
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

/// Resumes a timeline and follows it, or many. Neither `after` nor `rewind`: from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "subscribe.params",
    transform = rules::one_of(
        [rules::given("timeline"), rules::given("timelines"), rules::given("conversations")]
    ),
    transform = rules::not_beside("after", ["rewind"]),
    transform = rules::not_without("timeline", ["after", "epoch", "changes_after", "open"]),
    transform = rules::not_beside("rewind", ["timelines"]),
    transform = rules::not_without("conversations", ["device"]),
    transform = rules::only_with(rules::given("conversations"), rules::lacks("with", "presence")),
    transform = rules::only_with(rules::given("window_ms"), rules::has("with", "parts")),
)]
pub struct Subscribe {
    /// The timeline's ID, 1 to 255 bytes; or `timelines`.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: Option<String>,
    /// Many at once, each for itself: where it begins, by timeline.
    #[schemars(transform = rules::timelines)]
    pub timelines: Option<BTreeMap<String, Start>>,
    /// All conversations of the user, also those that they join later; `subscribed` pushes tell those with news.
    #[schemars(extend("enum" = [true, null]))]
    pub conversations: Option<bool>,
    /// With `conversations`: from the positions of this device; else from now.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: Option<String>,
    /// Everything above this sequence; not with `rewind`, and not with `timelines`, which have their own.
    pub after: Option<u64>,
    /// The newest so many messages; not with `after`. With `device` of conversations where it has no position (default
    /// 20).
    pub rewind: Option<u64>,
    /// The epoch that `after` belongs to. If it is not the current one, the answer's `state` says so.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
    /// Also what changed at or below `after`, above this change number.
    pub changes_after: Option<u64>,
    /// Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only with
    /// `parts` in `with`.
    #[serde(default, skip_serializing_if = "OpenPlaces::is_empty")]
    pub open: OpenPlaces,
    /// Messages of a timeline in the reply at most; clamped to the page limit. The rest follows as pushes.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Make a timeline if there is none; default `true`.
    #[serde(default = "yes")]
    pub create: bool,
    /// Pushes of this subscription that come only if they are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<With>,
    /// Parts of open messages may gather for so long before they are pushed, those of a message together, ms; clamped
    /// to 1,000; default 0. Only with `parts` in `with`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
}

/// Parts gather for so long at most.
const WINDOW_MS_MAX: u64 = 1_000;

impl Subscribe {
    /// Where the one timeline begins.
    #[must_use]
    pub fn start(&self) -> Start {
        Start {
            after: self.after,
            rewind: self.rewind,
            epoch: self.epoch.clone(),
            changes_after: self.changes_after,
            open: self.open.clone(),
        }
    }
}

impl Check for Subscribe {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        one_of_three(&self.timeline, &self.timelines, self.conversations)?;
        self.start().check("")?;
        let own = Start {
            rewind: self.rewind.filter(|_| self.conversations.is_some()),
            ..Start::default()
        };
        if self.timeline.is_none() && self.start() != own {
            let message =
                "each of many timelines has its own after, rewind, epoch, changes_after, open";
            return Err(Failure::invalid("timelines", message));
        }
        if let Some(timelines) = &self.timelines {
            check_starts(timelines, limits)?;
        }
        match &self.device {
            Some(_) if self.conversations.is_none() => {
                return Err(Failure::invalid("device", "only with conversations"));
            }
            Some(device) => check::device("device", device)?,
            None => {}
        }
        if self.conversations.is_some() && self.with.contains(&With::Presence) {
            return Err(Failure::invalid(
                "with",
                "presence is not for all conversations",
            ));
        }
        let starts = self.timelines.iter().flat_map(BTreeMap::values);
        let asks = !self.open.is_empty() || starts.into_iter().any(|start| !start.open.is_empty());
        if asks && !self.with.contains(&With::Parts) {
            return Err(Failure::invalid("open", "only with parts in with"));
        }
        if self.window_ms.is_some() && !self.with.contains(&With::Parts) {
            return Err(Failure::invalid("window_ms", "only with parts in with"));
        }
        self.window_ms = self.window_ms.map(|window_ms| window_ms.min(WINDOW_MS_MAX));
        check::page_limit(&mut self.limit, limits)
    }
}

/// Checks the one timeline, and that there is nothing else beside it.
fn one_of_three<T>(
    one: &Option<String>,
    many: &Option<T>,
    conversations: Option<bool>,
) -> Result<(), Failure> {
    match (one, many, conversations) {
        (Some(one), None, None) => check::timeline(one),
        (None, Some(_), None) | (None, None, Some(true)) => Ok(()),
        (None, None, Some(false)) => Err(Failure::invalid("conversations", "true or absent")),
        _ => {
            let message = "one of timeline, timelines and conversations";
            Err(Failure::invalid("timeline", message))
        }
    }
}

/// Ends a subscription, or many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "unsubscribe.params",
    transform = rules::one_of(
        [rules::given("timeline"), rules::given("timelines"), rules::given("conversations")]
    ),
    transform = rules::not_without("timeline", ["epoch"]),
)]
pub struct Unsubscribe {
    /// The timeline's ID, 1 to 255 bytes; or `timelines`.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: Option<String>,
    /// Many at once.
    #[schemars(inner(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL)))]
    pub timelines: Option<Vec<String>>,
    /// All conversations, as they were subscribed.
    #[schemars(extend("enum" = [true, null]))]
    pub conversations: Option<bool>,
    /// The epoch that is thought to be current; another one is refused. Only with `timeline`.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Unsubscribe {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        one_of_three(&self.timeline, &self.timelines, self.conversations)?;
        if self.epoch.is_some() && self.timeline.is_none() {
            return Err(Failure::invalid("epoch", "only with timeline"));
        }
        if let Some(timelines) = &self.timelines {
            check_count(timelines.len(), limits)?;
            for (index, timeline) in timelines.iter().enumerate() {
                check::timeline_at(&format!("timelines[{index}]"), timeline)?;
            }
        }
        check::epoch("epoch", self.epoch.as_deref())
    }
}

/// The subscription is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "unsubscribe.result")]
pub struct Unsubscribed {}
