//! The position family: set, list, remove.
//!
//! Owns: parameters and results of these methods. Promises: every position has an epoch, no timeline is there twice,
//! and what is stored fits into one answer. Must not: know what a timeline holds.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;

pub use super::positions::Positions;
pub use tideline_model::people::{Device, Place};

/// Stores how far a device is. A position moves forward only, unless it is of another epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "position.set.params")]
pub struct Set {
    /// The device's name, 1 to 64 bytes. One that is new is added; a user has up to 100.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: String,
    /// Positions by timeline; up to 10,000 of a device.
    #[schemars(with = "BTreeMap<String, Place>", transform = rules::timelines)]
    pub positions: Positions,
    /// Also backwards, and without a change number where none is given.
    #[serde(default)]
    pub force: bool,
}

impl Check for Set {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::device("device", &self.device)?;
        places("positions", &self.positions, limits)?;
        let answer = |position: super::positions::Position<'_>| {
            let epoch = position.epoch.map_or(0, str::len);
            ESCAPED * position.timeline.len() + epoch + PLACE_BYTES
        };
        let bytes = self.positions.iter().map(answer).sum::<usize>() as u64 + PLACE_BYTES as u64;
        let limit = limits.outbound_frame_bytes_max;
        if bytes > limit {
            let failure = Failure::too_large("positions", "outbound_frame_bytes_max", limit, bytes);
            return Err(failure.saying("the answer would pass outbound_frame_bytes_max"));
        }
        Ok(())
    }
}

/// Names and numbers around a position in an answer.
const PLACE_BYTES: usize = 80;
/// A quotation mark or backslash is a byte and becomes two.
const ESCAPED: usize = 2;

/// Positions that are to be stored: each of an epoch, and no timeline twice.
pub(in super::super) fn places(
    field: &str,
    positions: &Positions,
    limits: &Limits,
) -> Result<(), Failure> {
    positions_at(field, positions, limits)?;
    if let Some(position) = positions.iter().find(|position| position.open.is_some()) {
        let field = format!("{field}.{}.open", position.timeline);
        return Err(Failure::invalid(field, "only in the positions of a sync"));
    }
    match positions.iter().find(|position| position.epoch.is_none()) {
        Some(position) => {
            let field = format!("{field}.{}.epoch", position.timeline);
            Err(Failure::invalid(field, "a stored position has an epoch"))
        }
        None => Ok(()),
    }
}

/// Positions by timeline: names, numbers, and no timeline twice.
pub(in super::super) fn positions_at(
    field: &str,
    positions: &Positions,
    limits: &Limits,
) -> Result<(), Failure> {
    let count = positions.len() as u64;
    let limit = limits.sync_positions_max;
    if count > limit {
        let name = "sync_positions_max";
        return Err(Failure::too_large(field, name, limit, count));
    }
    let mut seen = HashSet::with_capacity_and_hasher(positions.len(), RandomState::default());
    for position in positions.iter() {
        let timeline = position.timeline;
        let valid =
            check::timeline_at("", timeline).and_then(|()| check::epoch(".epoch", position.epoch));
        let valid = valid.and_then(|()| position.open.map_or(Ok(()), |open| open.check(".")));
        if let Err(failure) = valid {
            let within = failure.field.clone().unwrap_or_default();
            return Err(failure.about(format!("{field}.{timeline}{within}")));
        }
        if !seen.insert(timeline) {
            let field = format!("{field}.{timeline}");
            return Err(Failure::invalid(field, "the timeline stands twice"));
        }
    }
    Ok(())
}

/// What is stored now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "position.set.result")]
pub struct Stored {
    /// Of the timelines that were named; one that was ahead of the call stays there. Absent in a JSON-RPC batch whose
    /// answers would pass the outbound frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<BTreeMap<String, Place>>,
}

/// Asks for a device's positions, or for the devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "position.list.params",
    transform = rules::not_without("device", ["after"]),
)]
pub struct List {
    /// The device's name; without it the devices are listed.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: Option<String>,
    /// Only timelines after this one: `next` of the page before.
    #[schemars(length(max = 255))]
    pub after: Option<String>,
}

impl Check for List {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        if let Some(device) = &self.device {
            check::device("device", device)?;
        } else if self.after.is_some() {
            return Err(Failure::invalid("after", "only with a device"));
        }
        check::text_bytes("after", self.after.as_deref(), check::NAME_BYTES_MAX)
    }
}

/// Positions of a device, or the devices that were used in the last 90 days.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "position.list.result")]
pub struct Listed {
    /// By timeline; none of a device that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<BTreeMap<String, Place>>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// In the order of their names; only if none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<Device>>,
}

/// Forgets a device and its positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "position.remove.params")]
pub struct Remove {
    /// The device's name, 1 to 64 bytes.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NO_CONTROL))]
    pub device: String,
}

impl Check for Remove {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::device("device", &self.device)
    }
}

/// The device is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "position.remove.result")]
pub struct Removed {
    /// `false` if there was none.
    pub removed: bool,
}
