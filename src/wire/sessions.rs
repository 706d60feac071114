//! The session family goes on: renew, list, close, revoke.
//!
//! Owns: parameters and results of these methods. Promises: names and times are checked when they leave here. Must not:
//! know which sessions there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{self, Check};
use super::failure::Failure;
use super::key::Secret;
use super::limits::Limits;

/// Shows a newer token of the same user, so that the session goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.renew.params")]
pub struct Renew {
    /// The token.
    #[schemars(length(max = 8192))]
    pub token: Secret,
}

impl Check for Renew {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        Ok(())
    }
}

/// The session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.renew.result")]
pub struct Renewed {
    /// When the token ends, ms since 1970; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Asks for one's own sessions; an administrator's asks for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.list.params")]
pub struct List {
    /// Only of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub user: Option<String>,
}

impl Check for List {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        match &self.user {
            Some(user) => check::user("user", user),
            None => Ok(()),
        }
    }
}

/// Sessions, the oldest first; at most 1,000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.list.result")]
pub struct Listed {
    /// What is known of each.
    pub sessions: Vec<Session>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session")]
pub struct Session {
    /// As `session.open` returned it.
    pub session: String,
    /// Its user; absent = a back end that acts for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The ID of its API key; absent = it has shown a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the client calls its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name and version of the client's software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Where it comes from.
    pub address: String,
    /// Since when, ms since 1970.
    pub opened_at: u64,
    /// When its token ends, ms since 1970; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Closes a session: one's own, or as an administrator any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.close.params")]
pub struct Close {
    /// As `session.list` returned it.
    #[schemars(length(max = 64))]
    pub session: String,
}

impl Check for Close {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::text_bytes("session", Some(&self.session), 64)
    }
}

/// The session is no more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.close.result")]
pub struct Closed {
    /// Whether there was one that the caller may close.
    pub closed: bool,
}

/// Takes a user's tokens back, and closes the sessions that have shown one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.revoke.params")]
pub struct Revoke {
    /// The user.
    #[schemars(length(min = 1, max = 128))]
    pub user: String,
    /// Those that were issued before (by `iat`), ms since 1970; a token that does not say it counts as old. Absent =
    /// all that were issued up to now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_before: Option<u64>,
}

impl Check for Revoke {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::user("user", &self.user)?;
        check::number("issued_before", self.issued_before)
    }
}

/// The user's tokens are revoked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.revoke.result")]
pub struct Revoked {
    /// Those that were issued before, ms since 1970. Never earlier than what an earlier call has set.
    pub issued_before: u64,
}
