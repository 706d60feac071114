//! What settings of a timeline may be.
//!
//! Owns: the ranges of their numbers. Promises: numbers that were checked can be stored. Must not: know a default; the
//! model and the timelines do.

use super::super::failure::Failure;
use tideline_model::timelines::SettingsPatch;

/// Refuses numbers out of range.
///
/// # Errors
/// `invalid_params` with the path of the number.
pub fn check(settings: &SettingsPatch) -> Result<(), Failure> {
    let kept = settings.retention.flatten().unwrap_or_default();
    for (field, limit) in [
        ("settings.retention.age_ms", kept.age_ms),
        ("settings.retention.messages", kept.messages),
        ("settings.retention.bytes", kept.bytes),
        (
            "settings.fan_out_members_max",
            settings.fan_out_members_max.flatten(),
        ),
    ] {
        if limit == Some(0) {
            return Err(Failure::invalid(field, "must be at least 1"));
        }
    }
    if let Some(members) = settings.fan_out_members_max.flatten()
        && members > FAN_OUT_MEMBERS_MAX
    {
        let failure = Failure::invalid("settings.fan_out_members_max", "too large");
        return Err(failure.over(FAN_OUT_MEMBERS_MAX, members));
    }
    Ok(())
}

const FAN_OUT_MEMBERS_MAX: u64 = 1_000_000;
