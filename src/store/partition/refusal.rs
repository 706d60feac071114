//! Errors of a partition as the tables' refusals.
//!
//! Owns: the way from this module's errors to [`Error`]. Promises: an outcome that is not known stays so. Must not:
//! lose the text of a row that can't be read; it is for the log.

use tideline_model::Error;

use super::{ReadError, StoreError, SubmitError};

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error.is_panic() {
            true => Error::Internal,
            false => Error::Unavailable(error.0),
        }
    }
}

impl From<SubmitError<Error>> for Error {
    fn from(error: SubmitError<Error>) -> Error {
        match error {
            SubmitError::Rejected(error) => error,
            SubmitError::TooLarge { limit, actual } => Error::TooLarge {
                limit,
                size: actual,
            },
            SubmitError::Failed(error) => error.into(),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Busy => Error::Busy,
            StoreError::StorageFull => Error::StorageFull,
            StoreError::OutcomeUnknown => Error::OutcomeUnknown,
            StoreError::Unavailable => Error::Unavailable("the partition has stopped".to_owned()),
            StoreError::Moved => {
                Error::Unavailable("another node of the cluster writes".to_owned())
            }
            StoreError::ShuttingDown => Error::ShuttingDown,
            StoreError::Internal => Error::Internal,
        }
    }
}
