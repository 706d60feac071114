//! One refusal as the SDKs know them: a code, its HTTP status, and the text that clients compare.
//!
//! Owns: every code and status, and the form of an error's body. Promises: each code has one status; a text stays small
//! whatever the client sent. Must not: hold the texts of single rules (`refusal`).

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use prost::Message;

use super::{plainbuffer, proto};

/// Longer texts are cut here: the names in them may be as long as a body.
const TEXT_BYTES_MAX: usize = 2048;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $code:ident $name:literal $status:literal $text:literal;)*) => {
        /// What clients switch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            /// As it is sent.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => $name),* }
            }

            /// The HTTP status it is sent with.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Code::$code => $status),* }
            }

            /// The text where none says more.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Code::$code => $text),* }
            }
        }
    };
}

codes! {
    /// The request breaks a rule of the protocol.
    ParameterInvalid "OTSParameterInvalid" 400 "Cannot deserialize the request data.";
    /// A primary key that is not the table's.
    InvalidPk "OTSInvalidPK" 400 "Primary key schema mismatch.";
    /// More data in a row than is allowed.
    OutOfRowSizeLimit "OTSOutOfRowSizeLimit" 400 "The total data size of columns in one row exceeded the limit.";
    /// More columns in a row than are allowed.
    OutOfColumnCountLimit "OTSOutOfColumnCountLimit" 400 "The number of columns in one row exceeded the limit.";
    /// Reserved throughput cannot be changed.
    ForbiddenUpdateCapacityUnit "OTSForbiddenUpdateCapacityUnit" 400 "Your instance is forbidden to update capacity unit.";
    /// A row of another partition key in an atomic batch.
    DataOutOfRange "OTSDataOutOfRange" 400 "Data out of scope of atomic.";
    /// A transaction that ended or never was.
    SessionNotExist "OTSSessionNotExist" 400 "Session not exist or may be timeout.";
    /// What is asked for is known, and not done here.
    UnsupportedOperation "OTSUnsupportOperation" 400 "Operation not supported.";
    /// Who asks is not known, or did not sign as the owner of the key would.
    AuthFailed "OTSAuthFailed" 403 "Signature mismatch.";
    /// Who asks may not.
    NoPermissionAccess "OTSNoPermissionAccess" 403 "You have no permission to access the requested resource, please contact the resource owner";
    /// The row is not as the condition demands.
    ConditionCheckFail "OTSConditionCheckFail" 403 "Condition check failed.";
    /// A quota is used up.
    QuotaExhausted "OTSQuotaExhausted" 403 "Number of tables exceeds the quota:64.";
    /// A partition key's rate is used up for now.
    CapacityUnitExhausted "OTSCapacityUnitExhausted" 403 "Capacity unit is not enough.";
    /// The reserved throughput is used up for now; SDKs try again.
    NotEnoughCapacityUnit "OTSNotEnoughCapacityUnit" 403 "Remaining capacity unit is not enough.";
    /// Reserved throughput was changed just now.
    TooFrequentReservedThroughputAdjustment "OTSTooFrequentReservedThroughputAdjustment" 403 "Capacity unit adjustment is too frequent.";
    /// No search index of this name.
    MetaNotMatch "OTSMetaNotMatch" 400 "The search index does not exist.";
    /// The session of a scan is no longer kept.
    SessionExpired "OTSSessionExpired" 400 "The session is expired.";
    /// No such table.
    ObjectNotExist "OTSObjectNotExist" 404 "Requested table does not exist.";
    /// The table is being made; SDKs try again.
    TableNotReady "OTSTableNotReady" 404 "The table is not ready.";
    /// The stream's records are gone.
    TrimmedDataAccess "OTSTrimmedDataAccess" 404 "Requested stream data is already trimmed or does not exist.";
    /// Not a POST.
    MethodNotAllowed "OTSMethodNotAllowed" 405 "Only POST method for requests is supported.";
    /// The request took too long to come in.
    RequestTimeout "OTSRequestTimeout" 408 "Request timeout.";
    /// Another write has the row; SDKs try again.
    RowOperationConflict "OTSRowOperationConflict" 409 "Data is being modified by the other request.";
    /// There is such a table.
    ObjectAlreadyExist "OTSObjectAlreadyExist" 409 "Requested table already exists.";
    /// The body is longer than any request may be.
    RequestBodyTooLarge "OTSRequestBodyTooLarge" 413 "The size of POST data is too large.";
    /// More requests than are allowed.
    FlowControl "OTSFlowControl" 429 "The requests have been throttled.";
    /// A fault of the server.
    InternalServerError "OTSInternalServerError" 500 "Internal server error.";
    /// The server has too much to do; SDKs try again.
    ServerBusy "OTSServerBusy" 503 "Server is busy.";
    /// The partition is not there yet; SDKs try again.
    PartitionUnavailable "OTSPartitionUnavailable" 503 "The partition is not available.";
    /// The outcome is not known; SDKs try reads again, not writes.
    Timeout "OTSTimeout" 503 "Operation timeout.";
    /// The server cannot; SDKs try reads again, not writes.
    ServerUnavailable "OTSServerUnavailable" 503 "Server is not available.";
}

/// Why a request, or one row of a batch, was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What clients switch on.
    pub code: Code,
    /// What clients show, and tests compare.
    pub message: Cow<'static, str>,
}

impl Failure {
    /// The code with the text it has by itself.
    #[must_use]
    pub fn new(code: Code) -> Failure {
        Failure {
            code,
            message: Cow::Borrowed(code.text()),
        }
    }

    /// The code with a text that says more.
    #[must_use]
    pub fn with(code: Code, message: impl Into<Cow<'static, str>>) -> Failure {
        let mut message = message.into();
        if message.len() > TEXT_BYTES_MAX {
            let end = message.floor_char_boundary(TEXT_BYTES_MAX);
            message = Cow::Owned(message[..end].to_owned());
        }
        Failure { code, message }
    }

    /// `OTSParameterInvalid` with its text.
    #[must_use]
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::with(Code::ParameterInvalid, message)
    }

    /// The HTTP status of an answer that is this failure.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// The body of an answer that is this failure.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.message().encode_to_vec().into()
    }

    /// As protobuf message: in a body, or in the place of a batch's row.
    #[must_use]
    pub fn message(&self) -> proto::Error {
        proto::Error {
            code: self.code.name().to_owned(),
            message: Some(self.message.clone().into_owned()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for Failure {}

impl From<plainbuffer::Error> for Failure {
    fn from(error: plainbuffer::Error) -> Failure {
        Failure::invalid(error.to_string())
    }
}

impl From<prost::DecodeError> for Failure {
    fn from(_: prost::DecodeError) -> Failure {
        Failure::invalid("Parse PBMessage from RawString failed.")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_named_once_and_have_a_status() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!((400..600).contains(&code.status()));
            assert!(code.name().starts_with("OTS") && !code.text().is_empty());
        }
    }

    #[test]
    fn a_body_is_the_code_and_the_text() {
        let failure = Failure::new(Code::ConditionCheckFail);
        let body = proto::Error::decode(failure.body()).unwrap();
        assert_eq!(body.code, "OTSConditionCheckFail");
        assert_eq!(body.message(), "Condition check failed.");
        assert_eq!(failure.status(), 403);
    }

    #[test]
    fn a_text_stays_small() {
        let failure = Failure::invalid(format!("Invalid column name: '{}'.", "ä".repeat(9000)));
        assert!(failure.message.len() <= TEXT_BYTES_MAX);
    }
}
