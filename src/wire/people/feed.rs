//! The feed family: follow, unfollow, following, followers, range.
//!
//! Owns: parameters and results of these methods. Promises: IDs, limits and counts are checked when they leave here.
//! Must not: know whether a message comes from an inbox or from its timeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
pub use tideline_model::timelines::FeedMessage;

/// Earlier messages of a timeline that a feed takes over if the client does not say.
const COPY_DEFAULT: u64 = 100;
/// Bytes of a cursor.
const CURSOR_BYTES_MAX: usize = 4 << 10;

fn copy_default() -> u64 {
    COPY_DEFAULT
}

/// Brings a timeline into the caller's feed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "feed.follow.params")]
pub struct Follow {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// So many of its last messages come into the feed too; clamped to the page limit.
    #[serde(default = "copy_default")]
    pub copy: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Follow {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        self.copy = self.copy.min(limits.page_messages_max);
        Ok(())
    }
}

/// The timeline is followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "feed.follow.result")]
pub struct Followed {
    /// `true`.
    pub following: bool,
    /// The first sequence that is in the feed. A second follow gives that of the first.
    pub from: u64,
}

/// Takes a timeline out of the caller's feed, with all its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "feed.unfollow.params")]
pub struct Unfollow {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
}

impl Check for Unfollow {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)
    }
}

/// The timeline is not followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "feed.unfollow.result")]
pub struct Unfollowed {
    /// `false`.
    pub following: bool,
}

/// Asks for the timelines that the caller follows, in the order of their IDs' bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "feed.following.params")]
pub struct Following {
    /// Only IDs after this one: `next` of the page before.
    #[schemars(length(max = 255))]
    pub after: Option<String>,
    /// Timelines at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Following {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("after", self.after.as_deref(), check::NAME_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of followed timelines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "feed.following.result")]
pub struct FollowingPage {
    /// In the order of their IDs' bytes.
    pub timelines: Vec<FollowedTimeline>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A timeline that the caller follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "followed")]
pub struct FollowedTimeline {
    /// Its ID.
    pub timeline: String,
    /// The first sequence that is in the feed.
    pub from: u64,
}

/// Asks for the users who follow a timeline, in the order of their bytes. Who has just followed is there soon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "feed.followers.params")]
pub struct Followers {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Only users after this one: `next` of the page before.
    #[schemars(length(max = 128))]
    pub after: Option<String>,
    /// Users at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Followers {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::text_bytes("after", self.after.as_deref(), check::USER_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of a timeline's followers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "feed.followers.result")]
pub struct FollowersPage {
    /// In the order of their bytes.
    pub users: Vec<String>,
    /// How many follow it in all.
    pub followers_count: u64,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Asks for the messages of all timelines that the caller follows, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "feed.range.params")]
pub struct Range {
    /// `next` of the page before.
    #[schemars(length(max = 4096))]
    pub before: Option<String>,
    /// Messages at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Range {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("before", self.before.as_deref(), CURSOR_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of a feed; may hold fewer than asked for though there are more. It ends 30 days ago.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "feed.range.result")]
pub struct Page {
    /// Newest first; no tombstones, and none that the caller has hidden.
    pub messages: Vec<FeedMessage>,
    /// What to pass as `before` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
