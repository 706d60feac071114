//! The receipt family: `read.set`, `receipt.list`.
//!
//! Owns: parameters and results of these methods. Promises: what leaves here names timelines in one of the two ways,
//! none twice, and says something of each. Must not: know the head.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::{by_timeline, page_default};
use super::super::reasons::Reason;
use super::super::schema::rules;
pub use tideline_model::timelines::{Receipt, Receipts as Listed};

/// Timelines of one `read.set`.
const POSITIONS_MAX: u64 = 1_000;

/// Says how far the user has read and received: of one timeline, or of several in `positions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "read.set.params",
    transform = rules::one_of([rules::given("timeline"), rules::said("positions")]),
    transform = rules::only_with(rules::given("timeline"), rules::any_given(["read", "received"])),
    transform = rules::not_without("timeline", ["read", "received", "epoch"]),
)]
pub struct ReadSet {
    /// The timeline's ID, 1 to 255 bytes; not with `positions`.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: Option<String>,
    /// Up to here the user has read; clamped to the head.
    pub read: Option<u64>,
    /// Up to here the user's devices have received; clamped to the head, and never below `read`.
    pub received: Option<u64>,
    /// Refuse unless this is the current one.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
    /// The same by timeline; up to 1,000.
    #[serde(
        default,
        deserialize_with = "by_timeline",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(transform = rules::timelines)]
    pub positions: BTreeMap<String, ReadPosition>,
    /// Set it back too: what was read is unread again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// How far the user has come in one timeline; at least one of `read` and `received`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = rules::some_of([rules::given("read"), rules::given("received")]))]
pub struct ReadPosition {
    /// Up to here the user has read; clamped to the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// Up to here the user's devices have received; clamped to the head, and never below `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Refuse unless this is the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    pub epoch: Option<String>,
}

impl Check for ReadSet {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        let Some(timeline) = &self.timeline else {
            if self.read.or(self.received).is_some() || self.epoch.is_some() {
                return Err(Failure::invalid("timeline", "missing"));
            }
            return self.check_positions();
        };
        if !self.positions.is_empty() {
            return Err(Failure::invalid(
                "positions",
                "either timeline or positions",
            ));
        }
        check::timeline(timeline)?;
        let position = ReadPosition {
            read: self.read,
            received: self.received,
            epoch: self.epoch.clone(),
        };
        position.check("")
    }
}

impl ReadSet {
    fn check_positions(&self) -> Result<(), Failure> {
        let count = self.positions.len() as u64;
        if count > POSITIONS_MAX {
            let failure = Failure::new(Reason::TooMany).about("positions");
            return Err(failure.over(POSITIONS_MAX, count));
        }
        if count == 0 {
            return Err(Failure::invalid(
                "positions",
                "neither timeline nor positions",
            ));
        }
        for (timeline, position) in &self.positions {
            let at = format!("positions.{timeline}");
            check::timeline_at(&at, timeline)?;
            position.check(&format!("{at}."))?;
        }
        Ok(())
    }
}

impl ReadPosition {
    fn check(&self, within: &str) -> Result<(), Failure> {
        let field = |name| format!("{within}{name}");
        check::epoch(&field("epoch"), self.epoch.as_deref())?;
        if self.read.or(self.received).is_none() {
            let message = "neither read nor received says anything";
            return Err(Failure::invalid(field("read"), message));
        }
        Ok(())
    }
}

/// How far the user has come, by timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "read.set.result")]
pub struct ReadStates {
    /// Each timeline that was named; one that was refused does not hinder the others.
    pub timelines: BTreeMap<String, ReadState>,
}

/// How far the user has come in one timeline, or why it was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReadState {
    /// As it is now.
    Set {
        /// Up to here the user has read.
        read: u64,
        /// Up to here the user's devices have received.
        received: u64,
        /// How many messages are left to be read.
        unread: u64,
    },
    /// Nothing was changed there.
    Refused {
        /// Why.
        reason: Reason,
    },
}

/// Asks who has received and read a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "receipt.list.params")]
pub struct List {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// The message's number.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// Only users after this one: `next` of the page before.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub after: Option<String>,
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
        check::sequence(self.sequence)?;
        if let Some(after) = &self.after {
            check::user("after", after)?;
        }
        check::page_limit(&mut self.limit, limits)
    }
}
