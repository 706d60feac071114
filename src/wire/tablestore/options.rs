//! A table's options and reserved throughput, given at its making and changed later.
//!
//! Owns: what each option is and its range. Promises: times to live are forever or at least a second, versions at least
//! one, units not negative. Must not: know which options a request has to give; `table` does.

use super::failure::Failure;
use super::limits::DEVIATION_SECONDS_MAX;
use super::proto;

/// How long versions live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// Until they are deleted.
    Forever,
    /// This long after the time that the version names.
    Seconds(u32),
}

/// A table's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// How long versions live.
    pub time_to_live: TimeToLive,
    /// Versions that a column keeps, at least one.
    pub max_versions: u32,
    /// How far a version that a client gives may be from the time of the write, s.
    pub deviation_seconds: i64,
    /// Whether UpdateRow may be used.
    pub allow_update: bool,
    /// Whether an UpdateRow gives a new version to every column of its row.
    pub update_full_row: bool,
}

/// The options that an UpdateTable names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// As in [`TableOptions`].
    pub time_to_live: Option<TimeToLive>,
    /// As in [`TableOptions`].
    pub max_versions: Option<u32>,
    /// As in [`TableOptions`].
    pub deviation_seconds: Option<i64>,
    /// As in [`TableOptions`].
    pub allow_update: Option<bool>,
}

/// Reserved capacity units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    /// Of reading.
    pub read: u32,
    /// Of writing.
    pub write: u32,
}

/// Reserved capacity units of which a change may name only some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThroughputChange {
    /// Of reading.
    pub read: Option<u32>,
    /// Of writing.
    pub write: Option<u32>,
}

/// The reserved units that a message names.
pub(super) fn throughput(message: proto::ReservedThroughput) -> Result<ThroughputChange, Failure> {
    let unit = message.capacity_unit.unwrap_or_default();
    let checked = |units: Option<i32>| {
        let checked = units.map(|units| {
            u32::try_from(units).map_err(|_| {
                let text = "Capacity Unit must be nonnegative.";
                Failure::invalid(format!("Invalid Capacity Unit:{units} . {text}"))
            })
        });
        checked.transpose()
    };
    Ok(ThroughputChange {
        read: checked(unit.read)?,
        write: checked(unit.write)?,
    })
}

/// The options that a message names, each within its range.
pub(super) fn options(message: proto::TableOptions) -> Result<OptionsChange, Failure> {
    let time_to_live = match message.time_to_live {
        None => None,
        Some(-1) => Some(TimeToLive::Forever),
        Some(seconds) => match u32::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Some(TimeToLive::Seconds(seconds)),
            _ => {
                let text = "TimeToLive cannot be 0 or less than -1.";
                return Err(Failure::invalid(text));
            }
        },
    };
    let max_versions = match message.max_versions.map(u32::try_from) {
        None => None,
        Some(Ok(versions)) if versions > 0 => Some(versions),
        Some(_) => {
            let text = "The maximum versions cannot be less than or equal to 0.";
            return Err(Failure::invalid(text));
        }
    };
    let deviation_seconds = message.deviation_cell_version_in_sec;
    if deviation_seconds.is_some_and(|value| !(0..=DEVIATION_SECONDS_MAX).contains(&value)) {
        let text = "The maximum deviation must be in range [0, INT64_MAX/1000000].";
        return Err(Failure::invalid(text));
    }
    Ok(OptionsChange {
        time_to_live,
        max_versions,
        deviation_seconds,
        allow_update: message.allow_update,
    })
}
