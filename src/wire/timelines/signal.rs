//! The family of what is never stored: `signal` and `presence.get`.
//!
//! Owns: parameters and results of these methods. Promises: a signal is an object as an entry is, of at most 4 KiB; the
//! timelines of a `presence.get` are few and none is there twice. Must not: know who is online.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::Entry;
use super::super::params::page_default;
use super::super::reasons::Reason;
use super::super::schema::rules;

/// Sends something in passing to those who subscribe with `signals`. It is never stored and may be dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "signal.params")]
pub struct Signal {
    /// The timeline's ID, 1 to 255 bytes.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL))]
    pub timeline: String,
    /// What to say: names and values as in an entry, up to 4 KiB as compact JSON text.
    pub signal: Entry<'static>,
}

impl Check for Signal {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::timeline_to_write(&self.timeline)?;
        check::small_entry("signal", &self.signal, "signal_bytes_max", SIGNAL_BYTES_MAX)
    }
}

/// Bytes of one signal.
const SIGNAL_BYTES_MAX: u64 = 4 << 10;

/// The signal was taken. Who gets it, and whether anybody does, is not said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "signal.result")]
pub struct Signalled {}

/// Asks who is online in some timelines: whose connections subscribe to them, and for 5 s after, or with `anywhere`
/// which of their members are connected at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "presence.get.params")]
pub struct Get {
    /// The timelines' IDs, up to 100, none twice.
    #[schemars(length(max = 100), inner(length(min = 1, max = 255), regex(pattern = rules::NO_CONTROL)))]
    pub timelines: Vec<String>,
    /// Users per timeline at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Members who have a connection, whatever it subscribes to, in place of those who subscribe to the timeline.
    /// Devices are not named then, and of a timeline with more than 1,000 members the answer is `too_many`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anywhere: bool,
}

impl Check for Get {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        let count = self.timelines.len();
        if count > TIMELINES_MAX {
            let failure = Failure::invalid("timelines", format!("more than {TIMELINES_MAX}"));
            return Err(failure.over(TIMELINES_MAX as u64, count as u64));
        }
        let mut seen = HashSet::with_capacity(count);
        for (index, timeline) in self.timelines.iter().enumerate() {
            let field = || format!("timelines[{index}]");
            check::timeline_at("", timeline).map_err(|failure| failure.about(field()))?;
            if !seen.insert(timeline) {
                return Err(Failure::invalid(field(), "the timeline is there twice"));
            }
        }
        check::page_limit(&mut self.limit, limits)
    }
}

const TIMELINES_MAX: usize = 100;

/// Who is online.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "presence.get.result")]
pub struct Got {
    /// Each timeline that was asked for.
    pub timelines: BTreeMap<String, Presence>,
}

/// Who is online in one timeline, or why that is not said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Presence {
    /// Who is online.
    Online(Online),
    /// The timeline is refused.
    Refused(Refused),
}

/// Whose connections subscribe to the timeline, and for 5 s after; with `anywhere` which members are connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Online {
    /// How many users; one with many connections counts once, connections without a user do not.
    pub online: u64,
    /// The first of them by name; fewer than `limit` too where the reply would become too long.
    pub users: Vec<User>,
}

/// A user who is online.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Their name.
    pub user: String,
    /// The names of their devices, up to 100; those of connections that named none are missing.
    pub devices: Vec<String>,
}

/// Why a timeline is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// As in an error.
    pub reason: Reason,
}
