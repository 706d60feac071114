//! The numbers that SDKs know: of errors, of disconnects, of ended subscriptions.
//!
//! Owns: which of ours is which of theirs. Promises: an error has a text; a disconnect has one that is not JSON, or
//! SDKs misread it. Must not: decide what is refused.

use std::borrow::Cow;

use super::super::reasons::Reason;
use super::replies::{Error, Unsubscribe};
use crate::close::Close;
use crate::failure::Failure;
use crate::push::Ended;

/// An error that every SDK knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Internal = 100,
    Unauthorized = 101,
    UnknownChannel = 102,
    PermissionDenied = 103,
    MethodNotFound = 104,
    AlreadySubscribed = 105,
    LimitExceeded = 106,
    BadRequest = 107,
    NotAvailable = 108,
    TokenExpired = 109,
    TooManyRequests = 111,
    Unrecoverable = 112,
}

impl Code {
    fn message(self) -> &'static str {
        match self {
            Code::Internal => "internal server error",
            Code::Unauthorized => "unauthorized",
            Code::UnknownChannel => "unknown channel",
            Code::PermissionDenied => "permission denied",
            Code::MethodNotFound => "method not found",
            Code::AlreadySubscribed => "already subscribed",
            Code::LimitExceeded => "limit exceeded",
            Code::BadRequest => "bad request",
            Code::NotAvailable => "not available",
            Code::TokenExpired => "token expired",
            Code::TooManyRequests => "too many requests",
            Code::Unrecoverable => "unrecoverable position",
        }
    }

    /// The reason that it is counted under.
    pub fn reason(self) -> Reason {
        match self {
            Code::Internal => Reason::Unavailable,
            Code::Unauthorized | Code::TokenExpired => Reason::Unauthenticated,
            Code::UnknownChannel => Reason::TimelineNotFound,
            Code::PermissionDenied => Reason::Forbidden,
            Code::MethodNotFound | Code::NotAvailable => Reason::MethodNotFound,
            Code::AlreadySubscribed => Reason::AlreadySubscribed,
            Code::LimitExceeded => Reason::TooLarge,
            Code::BadRequest => Reason::InvalidParams,
            Code::TooManyRequests => Reason::RateLimited,
            Code::Unrecoverable => Reason::EpochChanged,
        }
    }

    /// The one for a refusal of a command.
    pub fn of(reason: Reason) -> Code {
        use Reason as R;
        match reason {
            R::ParseError
            | R::InvalidRequest
            | R::InvalidParams
            | R::ConditionFailed
            | R::TimelineClosed
            | R::MessageIdConflict
            | R::MessageClosed
            | R::PartConflict => Code::BadRequest,
            R::MethodNotFound | R::NotConfigured | R::SearchOff => Code::NotAvailable,
            R::InternalError
            | R::Busy
            | R::Unavailable
            | R::ShuttingDown
            | R::OutcomeUnknown
            | R::StorageFull => Code::Internal,
            R::Unauthenticated => Code::Unauthorized,
            R::Forbidden | R::NotAMember => Code::PermissionDenied,
            R::TimelineNotFound
            | R::MessageNotFound
            | R::MemberNotFound
            | R::ConversationNotFound
            | R::SessionNotFound
            | R::TableNotFound
            | R::CursorNotFound
            | R::WebhookNotFound
            | R::DeadLetterNotFound
            | R::PartitionNotFound
            | R::ScheduledNotFound => Code::UnknownChannel,
            R::EpochChanged | R::PositionLost | R::NoStream => Code::Unrecoverable,
            R::AlreadySubscribed => Code::AlreadySubscribed,
            R::TooLarge | R::TooMany => Code::LimitExceeded,
            R::RateLimited => Code::TooManyRequests,
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Error {
        Error {
            code: code as u32,
            message: code.message().to_owned(),
            temporary: matches!(code, Code::Internal | Code::TooManyRequests),
        }
    }
}

/// The refusal of an RPC: the class of the reason as HTTP has it, and the reason in the text.
pub fn rpc_error(failure: &Failure) -> Error {
    let reason = failure.reason;
    if reason == Reason::MethodNotFound {
        return Code::NotAvailable.into();
    }
    let code = u32::try_from(reason.code()).ok();
    let at = failure.field.as_ref();
    let at = at.map_or_else(String::new, |field| format!(" ({field})"));
    Error {
        // Ours are JSON-RPC's negative ones or HTTP's; SDKs take 400 to 1999 for an application's.
        code: code.unwrap_or(match reason {
            Reason::InternalError => 500,
            _ => 400,
        }),
        message: format!("{}: {}{at}", reason.name(), failure.message),
        temporary: reason.retry(),
    }
}

/// Why a connection is closed. SDKs come back after codes below 3500 and from 4000 to 4499.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect {
    pub code: u16,
    /// Neither empty nor JSON.
    pub reason: Cow<'static, str>,
}

/// One with a fixed text.
const fn disconnect(code: u16, reason: &'static str) -> Disconnect {
    Disconnect {
        code,
        reason: Cow::Borrowed(reason),
    }
}

impl Disconnect {
    pub const EXPIRED: Disconnect = disconnect(3005, "connection expired");
    pub const INSUFFICIENT_STATE: Disconnect = disconnect(3010, "insufficient state");
    pub const INVALID_TOKEN: Disconnect = disconnect(3500, "invalid token");
    pub const BAD_REQUEST: Disconnect = disconnect(3501, "bad request");
    pub const STALE: Disconnect = disconnect(3502, "stale");
    pub const FORCED: Disconnect = disconnect(3503, "force disconnect");
    pub const NOT_AVAILABLE: Disconnect = disconnect(3508, "not available");

    /// What one of our own closes is to SDKs.
    pub fn of(close: Close) -> Disconnect {
        match close {
            Close::Draining | Close::GoingAway => disconnect(3001, "shutdown"),
            Close::InternalError => disconnect(3004, "internal server error"),
            Close::SlowConsumer => disconnect(3008, "slow"),
            Close::Idle => disconnect(3012, "no pong"),
            Close::Overloaded | Close::SlowRequest => disconnect(3013, "too many requests"),
            Close::Unauthenticated => Disconnect::INVALID_TOKEN,
            Close::ProtocolError | Close::InvalidText | Close::UnsupportedData => {
                Disconnect::BAD_REQUEST
            }
            Close::Policy => disconnect(3507, "permission denied"),
            Close::Normal | Close::TooBig => disconnect(close.code(), close.reason()),
        }
    }
}

impl Unsubscribe {
    fn with(code: u32, reason: &str) -> Unsubscribe {
        Unsubscribe {
            code,
            reason: reason.to_owned(),
        }
    }

    /// The server has ended it.
    pub fn by_server() -> Unsubscribe {
        Unsubscribe::with(2000, "server unsubscribe")
    }

    /// Its token has expired; SDKs subscribe again.
    pub fn expired() -> Unsubscribe {
        Unsubscribe::with(2501, "subscription expired")
    }

    /// SDKs subscribe again from where they are.
    pub(crate) fn insufficient_state() -> Unsubscribe {
        Unsubscribe::with(2500, "insufficient state")
    }
}

impl From<Ended> for Unsubscribe {
    fn from(why: Ended) -> Unsubscribe {
        match why.resubscribe() {
            true => Unsubscribe::insufficient_state(),
            false => Unsubscribe::by_server(),
        }
    }
}
