//! Everything that a call on tables can be refused for.
//!
//! Owns: the typed reasons, each with what the documented messages need. Promises: all but [`StoreError::OutcomeUnknown`]
//! mean that nothing was written. Must not: know texts or status codes; the wire makes those.

use crate::ids::TableId;
use crate::partition::{ReadError, StoreError, SubmitError};

use super::key_value::{Existence, KeyType, KeyValue};

/// Why a call on tables was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A table's name is empty, too long or has characters that names don't have.
    InvalidTableName(String),
    /// A column's name is empty, too long or begins with `#`.
    InvalidColumnName(String),
    /// A primary key has one to four columns.
    KeyColumnCount(usize),
    /// Two primary key columns have one name.
    DuplicateKeyColumn(String),
    /// Only integers can be numbered by the server.
    AutoIncrementNotInteger,
    /// More than one primary key column is to be numbered by the server.
    AutoIncrementCount,
    /// The first primary key column can't be numbered by the server.
    AutoIncrementFirst {
        /// The table.
        table: String,
    },
    /// More defined columns than allowed.
    DefinedColumnCount(usize),
    /// Two defined columns have one name.
    DuplicateDefinedColumn(String),
    /// A defined column that is to be deleted is not there.
    NoDefinedColumn(String),
    /// The time to live is neither -1 nor positive.
    InvalidTimeToLive,
    /// Fewer versions than one.
    InvalidMaxVersions,
    /// The offset of versions from now is negative or too large.
    InvalidMaxOffset,
    /// Reserved throughput is out of its range.
    InvalidCapacityUnit(i64),
    /// An update of a table that changes nothing.
    NoOptions,
    /// What can be chosen only when a table is created.
    OnlyAtCreation,
    /// The table is there already.
    TableExists,
    /// There is no such table.
    TableNotFound,
    /// So many tables are all there may be.
    TableQuota(usize),
    /// The table belongs to the server: it can only be read.
    ReadOnlyTable,
    /// Not as many primary key columns as the table has.
    KeySize {
        /// As given.
        input: usize,
        /// As in the table.
        table: usize,
    },
    /// A primary key column has another name at this place.
    KeyName {
        /// As given.
        input: String,
        /// As in the table.
        table: String,
    },
    /// A primary key column has another type.
    KeyType {
        /// As given.
        input: KeyType,
        /// As in the table.
        table: KeyType,
    },
    /// A value that can't stand in a primary key here: a bound of ranges, or a place to be numbered in a table that
    /// numbers nothing there.
    KeyValue(KeyValue),
    /// A primary key column's value is too long.
    KeyTooLong {
        /// The column.
        column: String,
        /// The most bytes.
        max: usize,
        /// The given bytes.
        length: usize,
    },
    /// A place to be numbered makes no sense in a read.
    AutoIncrementInRead,
    /// A place to be numbered makes no sense in a delete.
    AutoIncrementInDelete,
    /// A row that is to be numbered can't be expected to exist or not.
    AutoIncrementExpect(Existence),
    /// In a table that numbers rows, a given number means a row that exists.
    AutoIncrementExpectGiven(Existence),
    /// A row that is to be numbered has no columns to make conditions on.
    AutoIncrementCondition,
    /// An update without a change.
    AttributeMissing,
    /// An attribute column is named like a primary key column.
    DuplicateWithKey(String),
    /// A value is too long.
    ValueTooLong {
        /// The column.
        column: String,
        /// The most bytes.
        max: usize,
        /// The given bytes.
        length: usize,
    },
    /// More columns in a request than allowed.
    ColumnCount {
        /// The most columns.
        limit: usize,
        /// The given ones.
        count: usize,
    },
    /// A request is too large.
    TooLarge {
        /// The most bytes.
        limit: usize,
        /// The given ones.
        size: usize,
    },
    /// The row would become larger than any row may be.
    RowTooLarge,
    /// The rows before it took all that one answer may hold.
    AnswerTooLarge,
    /// A version is no time that there is.
    VersionOutOfRange,
    /// A version is too far from now, or over already.
    InvalidVersion {
        /// The column.
        column: String,
    },
    /// Only integers can be incremented.
    IncrementType {
        /// The column.
        column: String,
    },
    /// The sum is no 64-bit integer.
    IncrementOverflow {
        /// The column.
        column: String,
    },
    /// An incremented column is changed in another way too, or twice in a batch.
    IncrementMixed {
        /// The column.
        column: String,
    },
    /// A column that was not incremented can't be returned.
    ReturnColumn(String),
    /// The row is not as the condition wants it.
    ConditionFailed,
    /// The row changed while a costly condition was looked at: try again.
    RowConflict,
    /// The table does not take updates.
    UpdateForbidden,
    /// A limit below 1.
    InvalidLimit,
    /// The start of a range does not lie before its end.
    RangeForward,
    /// The start of a backward range does not lie behind its end.
    RangeBackward,
    /// Neither versions nor a time range are asked for.
    NoVersions,
    /// Fewer versions asked than one.
    InvalidVersionsAsked(i64),
    /// More rows than a batch may have.
    RowCount {
        /// The most rows.
        limit: usize,
    },
    /// An atomic batch has rows of more than one partition key.
    OutOfAtomic {
        /// The first row's.
        atomic: KeyValue,
        /// Another row's.
        data: KeyValue,
    },
    /// An atomic batch has rows of two tables.
    OutOfAtomicTables,
    /// Another row of the same atomic batch was refused.
    BatchRefused,
    /// The store could not.
    Store(StoreError),
    /// A row can't be read. The text is for the log.
    Unavailable(String),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error.is_panic() {
            true => Error::Store(StoreError::Internal),
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
            SubmitError::Failed(error) => Error::Store(error),
        }
    }
}

/// The error of a catalog row that can't be read.
pub(super) fn damaged_catalog(table: TableId, what: &str) -> ReadError {
    ReadError(format!("table {}: {what}", table.0))
}
