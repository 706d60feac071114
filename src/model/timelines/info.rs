//! What is known of a timeline.
//!
//! Owns: [`TimelineInfo`], and [`Head`], those of its numbers that move. Promises: every number says its unit. Must
//! not: know how it is found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::entry::{self, Columns, Entry};

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

/// What is known of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.get.result")]
pub struct TimelineInfo {
    /// Its ID.
    pub timeline: String,
    /// Tells this history of the name from earlier ones.
    pub epoch: String,
    /// Its meta.
    #[serde(with = "entry")]
    #[schemars(with = "Entry<'static>")]
    pub meta: Columns,
    /// Of the meta: 1 at creation, one more by each update.
    pub version: u64,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// The lowest readable sequence; `head` + 1 if nothing is kept.
    pub floor: u64,
    /// The last change number, 0 if none.
    pub change_head: u64,
    /// ms since 1970.
    pub created_at: u64,
    /// When the meta was last updated, ms since 1970.
    pub updated_at: u64,
    /// The timestamp of the last message, ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<u64>,
    /// `true` = nothing is appended any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// The settings in force.
    pub settings: Settings,
    /// The version of the timeline's own settings; 0 = none were ever set.
    pub settings_version: u64,
    /// How many members there are; 0 = it is no conversation.
    pub members_count: u64,
}

impl TimelineInfo {
    /// Its moving numbers.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            epoch: self.epoch.clone(),
            head: self.head,
            floor: self.floor,
            change_head: self.change_head,
        }
    }
}
