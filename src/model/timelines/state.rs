//! How calls on timelines went, what a subscription asks for, and why it ends.
//!
//! Owns: these words of the protocol. Must not: decide on one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a position was answered. An unknown one means: start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "State")]
pub enum SyncState {
    /// As asked.
    Ok,
    /// History before the position is gone: messages start at `floor`, and it goes on from there.
    TooOld,
    /// Another history: no messages, no subscription; start over.
    EpochChanged,
    /// No such timeline for this user any more: deleted, or hidden by `members_only`; only in `sync`.
    Deleted,
    /// The device has no position in this conversation: its newest messages; only in `sync` by device.
    New,
    /// The caller has no right to read it, whether there is one or not: keep what you have, and ask again later; only
    /// in `sync`.
    Forbidden,
}

/// A part of a `timeline.create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "timeline.differs")]
pub enum Part {
    /// A name in the meta is missing or has another value.
    Meta,
    /// Other settings are in force.
    Settings,
    /// Others are members too, or one is missing or has another role.
    Members,
}

/// What the user has hidden and could see otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "message.hidden.result")]
pub struct Hidden {
    /// In the order of hiding.
    pub sequences: Vec<u64>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Pushes that a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "With")]
pub enum Lane {
    /// `signal`: what users say in passing.
    Signals,
    /// `presence`: who is online.
    Presence,
    /// `member.changed`: who is a member.
    Members,
    /// `receipt`: how far members have read.
    Receipts,
    /// `message.extended`: parts of the open messages that the subscription was told of.
    Parts,
}

impl Lane {
    /// Those that are never stored.
    pub const ALL: [Lane; 4] = [Lane::Signals, Lane::Presence, Lane::Members, Lane::Receipts];
}

/// Why a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The timeline was deleted.
    Deleted,
    /// Its history was replaced.
    EpochChanged,
    /// A trim overtook a slow reader.
    TooOld,
    /// The user may no longer read it.
    Forbidden,
    /// It was subscribed as one of the user's conversations, and is none any more.
    NotAMember,
    /// The store can't serve it now.
    Unavailable,
}

impl Ended {
    /// Whether to subscribe again, from the start or from the last position.
    #[must_use]
    pub fn resubscribe(self) -> bool {
        matches!(
            self,
            Ended::EpochChanged | Ended::TooOld | Ended::Unavailable
        )
    }
}
