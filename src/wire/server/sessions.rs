//! The session family goes on: renew, list, get, close, revoke.
//!
//! Owns: parameters and results of these methods. Promises: names and times are checked when they leave here. Must not:
//! know which sessions there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::schema::rules;
use super::super::timelines::timeline::AFTER_BYTES_MAX;
use super::key::Secret;

/// Shows a newer token of the same user, so that the session goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.renew.params")]
pub struct Renew {
    /// The token.
    #[schemars(length(max = 8192))]
    pub token: Secret,
}

impl Check for Renew {}

/// The session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.renew.result")]
pub struct Renewed {
    /// When the token ends, ms since 1970; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// What a page of a browser shows in the address of `/v1/events`, where it can set no header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.ticket.result")]
pub struct Ticket {
    /// It counts once, as this call's credential would.
    pub ticket: Secret,
    /// Until when it counts, ms since 1970.
    pub expires_at: u64,
}

/// Asks for one's own sessions; who has `observe` or `admin`, or where there is no `[auth]`, asks for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "session.list.params",
    transform = rules::only_with(rules::given("after"), rules::is_or_absent("order", "opened")),
)]
pub struct List {
    /// Only of this user.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: Option<String>,
    /// Which come first.
    #[serde(default)]
    pub order: Order,
    /// Only sessions after this: `next` of the page before. Only with the order `opened`.
    #[schemars(length(max = 64))]
    pub after: Option<String>,
    /// Sessions at most; clamped to 1,000.
    #[serde(default = "sessions_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for List {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        if let Some(user) = &self.user {
            check::user("user", user)?;
        }
        check::text_bytes("after", self.after.as_deref(), 64)?;
        if self.after.is_some() && self.order != Order::Opened {
            return Err(Failure::invalid("after", "only with the order opened"));
        }
        if self.limit == 0 {
            return Err(Failure::invalid("limit", "must be at least 1"));
        }
        self.limit = self.limit.min(SESSIONS_MAX);
        Ok(())
    }
}

/// Which sessions come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The oldest.
    #[default]
    Opened,
    /// Those that lag most.
    Lag,
    /// Those with most subscriptions.
    Subscriptions,
    /// Those with most calls that are not answered.
    InFlight,
}

/// Sessions in one answer.
const SESSIONS_MAX: u64 = 1_000;

fn sessions_default() -> u64 {
    SESSIONS_MAX
}

/// Sessions in the order that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.list.result")]
pub struct Listed {
    /// What is known of each.
    pub sessions: Vec<Session>,
    /// What to pass as `after` for the next page; absent = that was all, or the order has no pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
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
    /// The ID of its API key; absent = it has shown a token, or nothing.
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
    /// The sub-protocol that it speaks.
    pub dialect: String,
    /// Since when, ms since 1970.
    pub opened_at: u64,
    /// When its token ends, ms since 1970; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// How many timelines it is subscribed to.
    pub subscriptions: u64,
    /// Its calls that are not answered yet.
    pub in_flight: u64,
    /// For how long the oldest has waited that is still to go out to it, ms; 0 = it has everything.
    pub lag_ms: u64,
}

/// Asks for one session, and how far each of its subscriptions has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "session.get.params")]
pub struct Get {
    /// As `session.list` returned it.
    #[schemars(length(max = 64))]
    pub session: String,
    /// Only timelines after this one: `next` of the page before. As in `timeline.list`.
    #[schemars(length(max = 512))]
    pub after: Option<String>,
    /// Positions at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Get {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("session", Some(&self.session), 64)?;
        check::text_bytes("after", self.after.as_deref(), AFTER_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A session, and a page of its positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.get.result")]
pub struct Got {
    /// The session.
    pub session: Session,
    /// How far it is in the timelines that it is subscribed to, in the order of their IDs; of somebody else's session
    /// only those that the caller may read by name.
    pub positions: Vec<SessionPosition>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How far a session is in a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session_position")]
pub struct SessionPosition {
    /// The timeline's ID.
    pub timeline: String,
    /// The last sequence that went out to it.
    pub position: u64,
    /// The timeline's last sequence; absent = it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
    /// For how long something newer has waited, ms; 0 = nothing does.
    pub lag_ms: u64,
}

/// Closes a session: one's own, or as an administrator (or where there is no `[auth]`) any.
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
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub user: String,
    /// Those that were issued before (by `iat`), ms since 1970; a token that does not say it counts as old. Absent =
    /// all that were issued up to now.
    pub issued_before: Option<u64>,
}

impl Check for Revoke {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::user("user", &self.user)
    }
}

/// The user's tokens are revoked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "session.revoke.result")]
pub struct Revoked {
    /// Those that were issued before, ms since 1970. Never earlier than what an earlier call has set.
    pub issued_before: u64,
}
