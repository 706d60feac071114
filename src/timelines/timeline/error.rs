//! Everything that a call on timelines can be refused for.
//!
//! Owns: the typed reasons. Promises: all but [`StoreError::OutcomeUnknown`] mean that nothing was written. Must not:
//! know texts or codes; the gateway makes those.

use tideline_model::timelines::Outcome;
use tideline_table::{ReadError, StoreError, SubmitError};

/// Why a timeline call was refused. Everything but [`StoreError::OutcomeUnknown`] promises that nothing was written.
#[derive(Clone, Debug)]
pub enum Error {
    /// No such timeline.
    TimelineNotFound,
    /// Beyond the head or below the floor.
    MessageNotFound,
    /// `expect_head`, `expect_version` or `expect_change` did not hold; the actual number.
    ConditionFailed {
        /// What it is instead.
        actual: u64,
    },
    /// The timeline is closed.
    TimelineClosed,
    /// The message ID was taken by another entry.
    MessageIdConflict {
        /// Which of the batch.
        index: usize,
    },
    /// The call named an epoch that is not the current one.
    EpochChanged {
        /// The current one.
        actual: String,
    },
    /// The message or meta would pass a limit after the update, or the write what one may come to in the log.
    TooLarge {
        /// Name of the limit.
        limit: &'static str,
        /// Its value.
        limit_bytes: u64,
        /// What it would be.
        actual_bytes: u64,
    },
    /// The message is not open, or not any more.
    MessageClosed {
        /// How it ended; `None` = it never was open.
        outcome: Option<Outcome>,
        /// How many parts it has.
        parts: u64,
        /// Who stopped it, if somebody did.
        stopped_by: Option<String>,
    },
    /// Another text was taken as this part.
    PartConflict {
        /// How many parts the message has.
        parts: u64,
    },
    /// Only its sender may do this with the message.
    OtherSender,
    /// This column of an open message only grows; the parameter that names it.
    Grows(&'static str),
    /// The user is no member.
    MemberNotFound,
    /// The caller may read the timeline, but has no right to do this.
    NoRight,
    /// The timeline of a direct conversation has other members than its two users.
    OfOthers,
    /// The timeline's settings do not let this user do it, or not any more.
    Forbidden,
    /// A message is to be appended in the past, or further ahead than one may be scheduled.
    DeliverAt,
    /// No such scheduled message of this sender.
    ScheduledNotFound,
    /// An update of a deleted message.
    Deleted,
    /// The user is no member of the timeline, or there is none.
    ConversationNotFound,
    /// A cursor that this user was not given, in this parameter.
    WrongCursor(&'static str),
    /// The caller is not a member of the timeline.
    NotAMember,
    /// More than there may be of something.
    TooMany {
        /// The parameter that asks for it.
        field: &'static str,
        /// How many there may be.
        limit: u64,
        /// How many there would be.
        actual: u64,
    },
    /// The store could not.
    Store(StoreError),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        if error.is_panic() {
            return Error::Store(StoreError::Internal);
        }
        tracing::error!(error = error.0, "read failed");
        Error::Store(StoreError::Unavailable)
    }
}

impl From<SubmitError<Error>> for Error {
    fn from(error: SubmitError<Error>) -> Error {
        match error {
            SubmitError::Rejected(error) => error,
            SubmitError::TooLarge { limit, actual } => Error::TooLarge {
                limit: "batch_bytes_max",
                limit_bytes: limit as u64,
                actual_bytes: actual as u64,
            },
            SubmitError::Failed(error) => Error::Store(error),
        }
    }
}
