//! Errors of the timelines, as clients get them.
//!
//! Owns: the one place that turns a timeline's error into a refusal, and the texts that its reason has not. Must not:
//! decide.

use tideline_table::StoreError;
use tideline_timelines::timeline::Error;
use tideline_wire::{Actual, Closed, Failure, Reason};

/// Every error of the timelines as a refusal.
pub(in super::super) fn refusal(error: Error) -> Failure {
    match error {
        Error::TimelineNotFound => Reason::TimelineNotFound.into(),
        Error::MessageNotFound => Reason::MessageNotFound.into(),
        Error::MemberNotFound => Reason::MemberNotFound.into(),
        Error::NoRight => Failure::new(Reason::Forbidden).saying(NO_RIGHT),
        Error::Forbidden => Failure::new(Reason::Forbidden).saying(NOT_EDITED),
        Error::OfOthers => Failure::new(Reason::Forbidden).saying(OF_OTHERS),
        Error::ConversationNotFound => Reason::ConversationNotFound.into(),
        Error::WrongCursor(field) => {
            Failure::invalid(field, "not a cursor that this user was given")
        }
        Error::Deleted => Failure::new(Reason::MessageNotFound).saying("the message is deleted"),
        Error::ScheduledNotFound => Reason::ScheduledNotFound.into(),
        Error::DeliverAt => Failure::invalid(
            "deliver_at",
            "must not be in the past, nor more than 366 days ahead",
        ),
        Error::ConditionFailed { actual } => {
            Failure::new(Reason::ConditionFailed).actual(Actual::Number(actual))
        }
        Error::MessageClosed {
            outcome,
            parts,
            stopped_by,
        } => Failure::new(Reason::MessageClosed).actual(Actual::Closed(Box::new(Closed {
            outcome,
            parts,
            stopped_by,
        }))),
        Error::PartConflict { parts } => {
            Failure::new(Reason::PartConflict).actual(Actual::Number(parts))
        }
        Error::OtherSender => Failure::new(Reason::Forbidden).saying(OTHER_SENDER),
        Error::Grows(field) => Failure::invalid(field, GROWS),
        Error::TimelineClosed => Reason::TimelineClosed.into(),
        Error::MessageIdConflict { index } => {
            Failure::new(Reason::MessageIdConflict).about(format!("messages[{index}].message_id"))
        }
        Error::EpochChanged { actual } => {
            Failure::new(Reason::EpochChanged).actual(Actual::Text(actual))
        }
        Error::TooLarge {
            limit,
            limit_bytes,
            actual_bytes,
        } => Failure::too_large("entry", limit, limit_bytes, actual_bytes),
        Error::NotAMember => Reason::NotAMember.into(),
        Error::TooMany {
            field,
            limit,
            actual,
        } => Failure::new(Reason::TooMany)
            .about(field)
            .over(limit, actual),
        Error::Store(error) => match error {
            StoreError::Busy => Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS),
            StoreError::StorageFull => Reason::StorageFull.into(),
            StoreError::OutcomeUnknown => Reason::OutcomeUnknown.into(),
            StoreError::Unavailable | StoreError::Moved => Reason::Unavailable.into(),
            StoreError::ShuttingDown => Reason::ShuttingDown.into(),
            StoreError::Internal => Reason::InternalError.into(),
        },
    }
}

/// The answer to a caller that may know of a timeline, but not do what it asks for.
pub(in super::super) const NO_RIGHT: &str = "you have no right to do this here";

/// The answer to a caller that extends or finishes the message of another sender.
const OTHER_SENDER: &str = "only its sender extends and finishes a message";

/// The answer to an edit of the column that grows.
const GROWS: &str = "this column grows until the message is closed: extend or finish it";

/// The answer to a caller that asks for a direct conversation, while a timeline with other members has its ID.
const OF_OTHERS: &str = "what is in this conversation's place has other members than you two";

/// The answer to an edit that the timeline's settings do not let this user make.
const NOT_EDITED: &str =
    "the timeline's settings do not let you change this message, or not any more";

/// About how long a full queue takes to empty.
pub(super) const BUSY_RETRY_MS: u32 = 200;
