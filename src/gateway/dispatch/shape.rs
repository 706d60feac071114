//! What answers have beside the vocabulary that all layers share.
//!
//! Owns: the few forms that are the wire's alone, and how much a page may hold. Promises: moves, never copies, what a
//! message holds. Must not: decide anything.

use tideline_timelines::timeline::{self, Refused};
use tideline_wire::messages::schedule::Scheduled;
use tideline_wire::{Failure, Limits, Reason};

/// A scheduled message.
pub fn scheduled(from: timeline::Scheduled) -> Scheduled {
    let refused = from.refused;
    Scheduled {
        scheduled: from.message_id,
        deliver_at: from.deliver_at,
        expires_in_ms: from.expires_in_ms,
        entry: from.entry.into(),
        reason: refused.map(|(reason, _)| match reason {
            Refused::TimelineNotFound => Reason::TimelineNotFound,
            Refused::EpochChanged => Reason::EpochChanged,
            Refused::Closed => Reason::TimelineClosed,
            Refused::Forbidden => Reason::Forbidden,
        }),
        refused_at: refused.map(|(_, at_ms)| at_ms),
    }
}

/// The change number that a reader of this page may store: what it was sent reaches that far, not always to the last
/// one.
pub(super) fn change_head(from: &timeline::Changed) -> u64 {
    match from.state {
        // Of the other history, which the reader is to start anew.
        timeline::ResumeState::EpochChanged => from.head.change_head,
        timeline::ResumeState::Ok | timeline::ResumeState::TooOld => from.change_position,
    }
}

/// What an entry may not pass after an update.
pub(super) fn entry_limits(limits: &Limits) -> timeline::EntryLimits {
    timeline::EntryLimits {
        entry_bytes_max: limits.entry_bytes_max,
        entry_names_max: ENTRY_NAMES_MAX,
    }
}

/// Names in one entry; part of the protocol, not of the configuration.
const ENTRY_NAMES_MAX: u64 = 128;

/// A limit as a length in memory.
pub(in super::super) fn size(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// About how many bytes of stored messages make a reply that stays below the outbound frame.
pub(in super::super) fn page_bytes(limits: &Limits) -> usize {
    size(limits.outbound_frame_bytes_max) / 4
}

/// An answer that should hold one thing and holds none: an error of ours.
pub(in super::super) fn missing() -> Failure {
    Reason::InternalError.into()
}
