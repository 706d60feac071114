//! Users who are to become members, in `member.add` and `timeline.create`.
//!
//! Owns: their shape, and the limits of all that is said of a member. Promises: users, roles, attributes and counts
//! are checked when they leave here, and nobody is named twice. Must not: know who is a member.

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, IntoDeserializer as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::check;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::Entry;
use super::super::reasons::Reason;
use tideline_model::json_bytes;
use tideline_model::timelines::NewMember;

/// Members that one call adds or removes.
const MEMBERS_MAX: usize = 10_000;
/// Bytes of a role.
const ROLE_BYTES_MAX: usize = 64;
/// Bytes of a member's attributes.
const ATTRIBUTES_BYTES_MAX: u64 = 4 << 10;

/// Members of a call that adds some.
pub(in super::super) fn new_members(members: &[NewMember], limits: &Limits) -> Result<(), Failure> {
    count("members", members.len())?;
    let mut seen = HashSet::with_capacity(members.len());
    for (index, member) in members.iter().enumerate() {
        let within = |failure: Failure| {
            let field = failure.field.clone().unwrap_or_default();
            failure.about(format!("members[{index}].{field}"))
        };
        check_one(member, limits).map_err(within)?;
        if !seen.insert(member.user.as_str()) {
            let field = format!("members[{index}].user");
            return Err(Failure::invalid(field, "the user stands twice"));
        }
    }
    Ok(())
}

fn check_one(member: &NewMember, limits: &Limits) -> Result<(), Failure> {
    check::user("user", &member.user)?;
    role(member.role.as_deref())?;
    if member.visible_from == Some(0) {
        return Err(Failure::invalid("visible_from", "sequences start at 1"));
    }
    check::entry("attributes", &Entry::from(&member.attributes), limits)?;
    attributes_size(json_bytes(&member.attributes) as u64)
}

pub(in super::super) fn attributes_size(bytes: u64) -> Result<(), Failure> {
    if bytes > ATTRIBUTES_BYTES_MAX {
        let limit = ATTRIBUTES_BYTES_MAX;
        let failure = Failure::too_large("attributes", "member_attributes_bytes_max", limit, bytes);
        return Err(failure);
    }
    Ok(())
}

pub(in super::super) fn role(role: Option<&str>) -> Result<(), Failure> {
    if role == Some("") {
        return Err(Failure::invalid("role", "must not be empty"));
    }
    check::text_bytes("role", role, ROLE_BYTES_MAX)
}

pub(in super::super) fn count(field: &'static str, count: usize) -> Result<(), Failure> {
    if count > MEMBERS_MAX {
        let failure = Failure::new(Reason::TooMany).about(field);
        return Err(failure.over(MEMBERS_MAX as u64, count as u64));
    }
    Ok(())
}

/// How many earlier messages new members see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum History {
    /// The last so many.
    Last(u64),
    /// In a word.
    Word(HistoryWord),
}

// A derived decoder of an untagged enumeration first copies the value into a buffer of serde's. What reads from that is
// not strict.
impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<History, D::Error> {
        struct NumberOrWord;
        impl Visitor<'_> for NumberOrWord {
            type Value = History;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number, `all` or `none`")
            }

            fn visit_u64<E>(self, count: u64) -> Result<History, E> {
                Ok(History::Last(count))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<History, E> {
                HistoryWord::deserialize(word.into_deserializer()).map(History::Word)
            }
        }
        from.deserialize_any(NumberOrWord)
    }
}

/// All or none of the earlier messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryWord {
    /// All.
    All,
    /// None.
    None,
}
