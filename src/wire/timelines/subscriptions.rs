//! Subscribing to many timelines at once, and what comes of it.
//!
//! Owns: where each subscription begins, and the forms of the reply. Promises: of many each begins, or is refused, for
//! itself. Must not: know what a timeline holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::message::Message;
use super::super::reasons::Reason;
use super::super::schema::rules;
use super::open_places::OpenPlaces;
use tideline_model::timelines::{Grown, SyncState as State};

/// Where one of many subscriptions begins. Neither `after` nor `rewind`: from now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = rules::not_beside("after", ["rewind"]))]
pub struct Start {
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
    /// Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only with
    /// `parts` in `with`.
    #[serde(default, skip_serializing_if = "OpenPlaces::is_empty")]
    pub open: OpenPlaces,
}

impl Start {
    /// `at` is the path of the object whose members these are, with a dot behind it.
    pub(in super::super) fn check(&self, at: &str) -> Result<(), Failure> {
        check::epoch("epoch", self.epoch.as_deref())
            .and_then(|()| match (self.after, self.rewind) {
                (Some(_), Some(_)) => Err(Failure::invalid("rewind", "either after or rewind")),
                _ => Ok(()),
            })
            .map_err(|failure| {
                let member = failure.field.clone().unwrap_or_default();
                failure.about(format!("{at}{member}"))
            })
            .and_then(|()| self.open.check(at))
    }
}

/// Timelines that are subscribed together: not more than a connection may have.
pub(in super::super) fn check_starts(
    timelines: &BTreeMap<String, Start>,
    limits: &Limits,
) -> Result<(), Failure> {
    check_count(timelines.len(), limits)?;
    timelines.iter().try_for_each(|(timeline, start)| {
        let field = format!("timelines.{timeline}");
        check::timeline_at(&field, timeline)?;
        start.check(&format!("{field}."))
    })
}

pub(in super::super) fn check_count(count: usize, limits: &Limits) -> Result<(), Failure> {
    let (limit, count) = (limits.subscriptions_max, count as u64);
    if count > limit {
        let name = "subscriptions_max";
        return Err(Failure::too_large("timelines", name, limit, count));
    }
    Ok(())
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
    pub messages: Vec<Message>,
    /// What changed at or below the position, newest form, in change order; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Message>>,
    /// Parts that came to the messages in `open`. One that is not open any more is in `changed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<Grown>,
    /// The rest up to `head` follows as pushes.
    pub more: bool,
    /// How it went.
    pub state: State,
}

/// The subscription, or of many those that fit into the reply.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "subscribe.result")]
pub enum Following {
    /// The one that was asked for.
    One(Box<Subscribed>),
    /// Of many.
    Many(SubscribedMany),
}

/// Of many subscriptions those that fit into a frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "push.subscribed")]
pub struct SubscribedMany {
    /// By timeline.
    pub timelines: BTreeMap<String, SubscribedOne>,
    /// The others follow in `subscribed` pushes.
    pub more: bool,
}

/// One of many.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SubscribedOne {
    /// As if it had been subscribed by itself.
    Subscribed(Box<Subscribed>),
    /// It is not subscribed.
    Refused {
        /// Why.
        reason: Reason,
    },
}
