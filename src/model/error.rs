//! Everything that a call on rows or tables can be refused for.
//!
//! Owns: the typed reasons, each with what its documented text needs. Promises: all but `OutcomeUnknown` mean that
//! nothing was written. Must not: know texts or status codes; `wire/tablestore/refusal.rs` makes those.

use super::search::InvalidSearch;
use super::series::InvalidSeries;
use super::{Existence, InvalidMapping, KeyType, KeyValue, TooCostly};

/// Why a call on tables was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A table's name is empty, too long or has characters that names don't have.
    InvalidTableName(String),
    /// A column's name is empty, too long or begins with `#`.
    InvalidColumnName(String),
    /// A primary key has one to four columns.
    KeyColumnCount,
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
    DefinedColumnCount,
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
    /// A stream's changes are kept for less than an hour or more than a week.
    InvalidStreamHours,
    /// More columns whose values before a change are wanted than allowed.
    StreamColumnCount,
    /// There is no such stream.
    StreamNotFound,
    /// The stream has no such shard.
    ShardNotFound,
    /// A text that names no place in a stream.
    InvalidIterator,
    /// The changes at this place in a stream are gone.
    StreamTrimmed,
    /// The table is there already.
    TableExists,
    /// There is no such table.
    TableNotFound,
    /// So many tables are all there may be.
    TableQuota(usize),
    /// The table belongs to the server: it can only be read.
    ReadOnlyTable,
    /// An index has one to four key columns of its own.
    IndexKeyCount,
    /// More columns than an index's rows may hold.
    IndexColumnCount,
    /// A column of this type orders no index.
    IndexKeyType(String),
    /// A local index begins with its table's partition key.
    IndexNotLocal,
    /// So many indexes are all a table may have.
    IndexQuota(usize),
    /// A table with indexes has one version of each column.
    IndexedVersions,
    /// In a table with indexes a time to live and updates of parts of rows exclude each other.
    IndexedTimeToLive,
    /// An index needs the column.
    ColumnIndexed(String),
    /// There is no such index.
    IndexNotFound,
    /// An index's rows are written by writing its table.
    IndexWrite,
    /// An index is changed by changing its table.
    IndexChange,
    /// Rows from before the index are being brought in.
    IndexBuilding,
    /// The row of an index would be too large.
    IndexRowTooLarge,
    /// A search index, or a search in one, is not as it can be.
    Search(InvalidSearch),
    /// A request of time series is not as it can be.
    Series(InvalidSeries),
    /// A mapping of the table for SQL is not as it can be.
    Mapping(InvalidMapping),
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
        /// The given bytes.
        length: usize,
    },
    /// A place to be numbered makes no sense in a read.
    AutoIncrementInRead,
    /// A place to be numbered makes no sense in a delete, or in an update that only deletes.
    AutoIncrementInDelete,
    /// So many places to be numbered in one key.
    AutoIncrementTwice(usize),
    /// A row that is to be numbered can't be expected to exist or not.
    AutoIncrementExpect(Existence),
    /// In a table that numbers rows, a given number means a row that exists.
    AutoIncrementExpectGiven(Existence),
    /// A row that is to be numbered has no columns to make conditions on.
    AutoIncrementCondition,
    /// An attribute column is named like a primary key column.
    DuplicateWithKey(String),
    /// A value is too long.
    ValueTooLong {
        /// The column.
        column: String,
        /// The given bytes.
        length: usize,
    },
    /// Not a number can't be stored.
    NotANumber,
    /// Neither can an infinity.
    Infinite,
    /// A write of so many cells.
    ColumnCount(usize),
    /// A read that names so many columns.
    ColumnsAsked(usize),
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
    /// The expressions of a filter or condition would look at too much text.
    ExpressionsTooCostly {
        /// The most.
        limit: u64,
        /// What they would come to.
        size: u64,
    },
    /// A version is no time that there is.
    VersionOutOfRange,
    /// A version is too far from now, or has expired.
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
    /// The start of a range does not lie before its end.
    RangeForward,
    /// The start of a backward range does not lie behind its end.
    RangeBackward,
    /// Fewer versions asked than one.
    InvalidVersionsAsked(i64),
    /// An atomic batch has rows of more than one partition key.
    OutOfAtomic {
        /// The first row's.
        atomic: KeyValue,
        /// Another row's.
        data: KeyValue,
    },
    /// An atomic batch has rows of two tables.
    OutOfAtomicTables,
    /// A row of another partition key than the transaction's.
    OutOfTransaction {
        /// The transaction's.
        transaction: KeyValue,
        /// The row's.
        data: KeyValue,
    },
    /// A row of another table than the transaction's.
    OutOfTransactionTable,
    /// The transaction has ended, or never was.
    TransactionNotFound,
    /// The data that a transaction writes is too large.
    TransactionTooLarge {
        /// All of it, about.
        size: usize,
    },
    /// The table was made without local transactions.
    TransactionsDisabled,
    /// Too much is queued: try again.
    Busy,
    /// The disk is full.
    StorageFull,
    /// The write may or may not have taken effect.
    OutcomeUnknown,
    /// The partition has stopped, or a row can't be read. The text is for the log.
    Unavailable(String),
    /// The server is going down.
    ShuttingDown,
    /// An error of the server: the same call meets it again.
    Internal,
}

impl From<TooCostly> for Error {
    fn from(TooCostly { limit, size }: TooCostly) -> Error {
        Error::ExpressionsTooCostly { limit, size }
    }
}
