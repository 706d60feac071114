//! The member family: add, update, remove, get, list.
//!
//! Owns: parameters and results of these methods. Promises: users, roles, attributes and counts are checked when they
//! leave here, and nobody is named twice. Must not: know who is a member.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::{Entry, Patch};
use super::super::params::page_default;
use super::super::schema::rules;
use super::new_member::{History, attributes_size, count, new_members, role};
use tideline_model::json_bytes;
use tideline_model::timelines::NewMember;
pub use tideline_model::timelines::{ListedMembers as Listed, Member, NextMembers as Next};

/// Adds members, all or none; those who are members already stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "member.add.params")]
pub struct Add {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Who; up to 10,000, nobody twice.
    #[schemars(length(min = 1, max = 10_000))]
    pub members: Vec<NewMember>,
    /// How many earlier messages they see: `"all"` (the default), `"none"` or a number.
    pub history: Option<History>,
    /// A message that is appended behind in the same batch, if anybody was added.
    pub announce: Option<Entry<'static>>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Add {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        if self.members.is_empty() {
            return Err(Failure::invalid("members", "must not be empty"));
        }
        new_members(&self.members, limits)?;
        announcement(self.announce.as_ref(), limits)
    }
}

fn announcement(announce: Option<&Entry<'_>>, limits: &Limits) -> Result<(), Failure> {
    match announce {
        Some(entry) => check::entry("announce", entry, limits).map(|_| ()),
        None => Ok(()),
    }
}

/// Members were added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "member.add.result")]
pub struct Added {
    /// How many were no members before.
    pub added: u64,
    /// How many members there are now.
    pub members_count: u64,
    /// The version of the list of members.
    pub version: u64,
    /// The announcement's number, if it was appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// Changes a member's role and attributes: a value sets its name, `null` removes it, other names stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "member.update.params",
    transform = rules::some_of([rules::given("role"), rules::given("attributes")]),
)]
pub struct Update {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Whose, 1 to 128 bytes.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: String,
    /// The new role, 1 to 64 bytes.
    #[schemars(length(min = 1, max = 64))]
    pub role: Option<String>,
    /// What to set and remove; the whole may be up to 4 KiB.
    pub attributes: Option<AttributesPatch>,
    /// Refuse unless the member has this version.
    pub expect_version: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

/// A change of attributes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttributesPatch {
    /// New values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Entry<'static>>,
    /// Names that go away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 255), regex(pattern = rules::NAME)))]
    pub remove: Vec<String>,
}

impl Check for Update {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        check::user("user", &self.user)?;
        role(self.role.as_deref())?;
        if self.role.is_none() && self.attributes.is_none() {
            return Err(Failure::invalid("attributes", "nothing to change"));
        }
        let Some(AttributesPatch { set, remove }) = &self.attributes else {
            return Ok(());
        };
        let patch = Patch {
            put: set.iter().flat_map(|set| set.columns.to_vec()).collect(),
            remove: remove.clone(),
        };
        check::patch("attributes", &patch, limits)?;
        attributes_size(json_bytes(&patch.put) as u64)
    }
}

/// The member was changed, or was so already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "member.update.result")]
pub struct Updated {
    /// As it is now; absent only if the array that answers a batch has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
}

/// Removes members; those who are none are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "member.remove.params")]
pub struct Remove {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Who; up to 10,000, nobody twice.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL)))]
    pub users: Vec<String>,
    /// A message that is appended behind in the same batch, if anybody was removed.
    pub announce: Option<Entry<'static>>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Remove {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target_to_write(&self.timeline, &self.epoch)?;
        if self.users.is_empty() {
            return Err(Failure::invalid("users", "must not be empty"));
        }
        count("users", self.users.len())?;
        let mut seen = HashSet::with_capacity(self.users.len());
        for (index, user) in self.users.iter().enumerate() {
            let field = format!("users[{index}]");
            check::user(&field, user)?;
            if !seen.insert(user.as_str()) {
                return Err(Failure::invalid(field, "the user stands twice"));
            }
        }
        announcement(self.announce.as_ref(), limits)
    }
}

/// Members were removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "member.remove.result")]
pub struct Removed {
    /// How many were members before.
    pub removed: u64,
    /// How many members there are now.
    pub members_count: u64,
    /// The version of the list of members.
    pub version: u64,
    /// The announcement's number, if it was appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// Asks for one member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "member.get.params")]
pub struct Get {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Who, 1 to 128 bytes.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: String,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::user("user", &self.user)
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "member.get.result")]
pub struct Got {
    /// As it is now.
    pub member: Member,
}

/// Asks for the members in the order of their users' bytes, or for what changed among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "member.list.params", transform = rules::not_beside("since", ["after"]))]
pub struct List {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// Only what changed after this version; not with `after`.
    pub since: Option<u64>,
    /// Only users after this one: `next` of the page before.
    #[schemars(length(max = 128))]
    pub after: Option<String>,
    /// Only members with this role; with `since` those who changed and have another one are in `removed`.
    #[schemars(length(min = 1, max = 64))]
    pub role: Option<String>,
    /// Members at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for List {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::target(&self.timeline, &self.epoch)?;
        check::text_bytes("after", self.after.as_deref(), check::USER_BYTES_MAX)?;
        role(self.role.as_deref())?;
        if self.since.is_some() && self.after.is_some() {
            return Err(Failure::invalid("after", "not with since"));
        }
        check::page_limit(&mut self.limit, limits)
    }
}
