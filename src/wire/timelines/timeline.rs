//! The timeline family: create, configure, get, update, delete, trim, list.
//!
//! Owns: parameters and results of these methods. Promises: IDs, epochs, metas and page limits are checked when they
//! leave here. Must not: know whether a timeline exists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::{Entry, Patch};
use super::super::params::page_default;
use super::super::schema::rules;
use super::new_member::new_members;
use super::settings;
use tideline_model::timelines::{NewMember, Settings, SettingsPatch};
pub use tideline_model::timelines::{Part as Differs, TimelineInfo as Info};

/// Makes a timeline, or finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.create.params")]
pub struct Create {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Its meta, if it is made now.
    pub meta: Option<Entry<'static>>,
    /// Its settings, if it is made now; what is left out is as the policy says.
    pub settings: Option<SettingsPatch>,
    /// Its members, if it is made now; up to 10,000, nobody twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000))]
    pub members: Vec<NewMember>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Create {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        if let Some(meta) = &self.meta {
            check::entry("meta", meta, limits)?;
        }
        if let Some(settings) = &self.settings {
            settings::check(settings)?;
        }
        new_members(&self.members, limits)
    }
}

/// Changes settings: what is left out stays, `null` goes back to the policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.configure.params")]
pub struct Configure {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What to set, and what to give back.
    pub settings: SettingsPatch,
    /// Refuse unless the settings have this version; 0 = none were ever set.
    pub expect_version: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Configure {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        settings::check(&self.settings)
    }
}

/// The settings were changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.configure.result")]
pub struct Configured {
    /// Those in force now.
    pub settings: Settings,
    /// The version of the timeline's own settings; a call that changes nothing leaves it.
    pub version: u64,
}

/// The timeline is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.create.result")]
pub struct Created {
    /// Its ID.
    pub timeline: String,
    /// Its epoch.
    pub epoch: String,
    /// `false` if it was there already; its meta, settings and members are untouched then.
    pub created: bool,
    /// ms since 1970.
    pub created_at: u64,
    /// What of the call is not so in the timeline that was there already; absent = nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<Differs>,
}

/// Asks for one timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.get.params")]
pub struct Get {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)
    }
}

/// Changes the meta: a value sets its name, `null` removes it, other names stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.update.params")]
pub struct Update {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What to set and remove.
    pub meta: Patch,
    /// Refuse unless the meta has this version.
    pub expect_version: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Update {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::patch("meta", &self.meta, limits)
    }
}

/// The meta was updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.update.result")]
pub struct Updated {
    /// The whole new meta; absent only if the array that answers a batch has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Entry<'static>>,
    /// Its version.
    pub version: u64,
}

/// Deletes a timeline with all its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.delete.params")]
pub struct Delete {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Delete {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)
    }
}

/// The timeline is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.delete.result")]
pub struct Deleted {
    /// `false` if there was none.
    pub deleted: bool,
}

/// Drops the messages below a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.trim.params")]
pub struct Trim {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The first sequence to keep.
    pub before: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Trim {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)
    }
}

/// Messages below the floor are gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.trim.result")]
pub struct Trimmed {
    /// The lowest readable sequence.
    pub floor: u64,
}

/// Asks for timelines in the order of their IDs' bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.list.params")]
pub struct List {
    /// Only IDs that start with this.
    #[schemars(length(max = 255))]
    pub prefix: Option<String>,
    /// Only IDs after this one: `next` of the page before.
    #[schemars(length(max = 512))]
    pub after: Option<String>,
    /// Timelines at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for List {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("prefix", self.prefix.as_deref(), check::NAME_BYTES_MAX)?;
        check::text_bytes("after", self.after.as_deref(), AFTER_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A `next` that is no ID is longer than one.
pub(in super::super) const AFTER_BYTES_MAX: usize = 512;

/// A page of timelines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "timeline.list.result")]
pub struct Listed {
    /// In the order of their IDs' bytes. May be none although there are more.
    pub timelines: Vec<Info>,
    /// What to pass as `after` for the next page; absent = that was all. Mostly the last ID; where timelines that the
    /// caller may not see are passed over, a text that counts until the server's next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
