//! Settings of a timeline, as they are said and set.
//!
//! Owns: their shapes in calls, answers, the configuration's policies and rows. Promises: what nobody sets is
//! [`Default`], but for `fan_out_members_max`, whose default the timelines have. Must not: judge a number, or find a
//! policy.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The settings in force: the timeline's own, else the policy's, else the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// How much is kept; empty = everything.
    pub retention: Retention,
    /// Only members may read and write; to other users the timeline does not exist.
    pub members_only: bool,
    /// How messages reach inboxes.
    pub fan_out: FanOut,
    /// Up to how many members `auto` writes into inboxes.
    pub fan_out_members_max: u64,
    /// Who may edit and delete messages.
    pub edit: Edit,
    /// Whose open messages a user may stop; absent = everybody's.
    #[serde(default, skip_serializing_if = "is_anyone")]
    #[schemars(with = "Option<EditBy>")]
    pub stop: EditBy,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_anyone(stop: &EditBy) -> bool {
    *stop == EditBy::Anyone
}

/// A change of settings: what is left out stays, `null` goes back to the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsPatch {
    /// How much is kept; empty = everything.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Retention>")]
    pub retention: Option<Option<Retention>>,
    /// Only members may read and write; to other users the timeline does not exist.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub members_only: Option<Option<bool>>,
    /// How messages reach inboxes.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FanOut>")]
    pub fan_out: Option<Option<FanOut>>,
    /// Up to how many members `auto` writes into inboxes; 1 to 1,000,000.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000))]
    pub fan_out_members_max: Option<Option<u64>>,
    /// Who may edit and delete messages.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Edit>")]
    pub edit: Option<Option<Edit>>,
    /// Whose open messages a user may stop.
    #[serde(default, deserialize_with = "given")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<EditBy>")]
    pub stop: Option<Option<EditBy>>,
}

/// A value that is there, perhaps `null`.
fn given<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from).map(Some)
}

/// Limits of what is kept; one that is left out does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// No message is older, ms; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub age_ms: Option<u64>,
    /// No more messages; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub messages: Option<u64>,
    /// No more bytes of stored messages; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
}

/// How messages reach inboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FanOut {
    /// They don't: feeds read the source.
    #[default]
    Read,
    /// Each message is written into the inboxes of members and followers.
    Write,
    /// As `write` until there are more than `fan_out_members_max`, from then on as `read`, until configured again.
    Auto,
}

/// Who may edit and delete messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Whose messages.
    pub by: EditBy,
    /// How long after the append, ms; without it for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
}

/// Whose messages a user may edit and delete, or stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditBy {
    /// Everybody's.
    #[default]
    Anyone,
    /// Their own.
    Sender,
}
