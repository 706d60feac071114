//! Every [`Error`] as a refusal of the protocol: its code and its literal text, which clients compare.
//!
//! Owns: the texts of all rules of rows and tables; what is wrong with a message or its cells alone has its text where
//! it is decoded. Promises: only `OTSTimeout` leaves open whether a write took effect; what SDKs may safely try again
//! has a code that they try again at. Must not: tell a client what broke inside; that is for the log.

use std::borrow::Cow;
use std::fmt::Display;

use super::failure::{Code, Failure};
use tideline_model::limits::{
    CAPACITY_UNITS_MAX, COLUMNS_MAX, INDEX_ROW_BYTES_MAX, KEY_VALUE_BYTES_MAX,
    TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX,
};
use tideline_model::{Error, Existence, KeyType, KeyValue};

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::KeySize { input, table } => mismatch("size", input, table),
            Error::KeyName { input, table } => mismatch("name", input, table),
            Error::KeyType { input, table } => mismatch("type", type_name(input), type_name(table)),
            Error::TableExists => Failure::new(Code::ObjectAlreadyExist),
            Error::TableNotFound => Failure::new(Code::ObjectNotExist),
            Error::TableQuota(most) => {
                let text = format!("Number of tables exceeds the quota:{most}.");
                Failure::with(Code::QuotaExhausted, text)
            }
            Error::IndexNotFound => {
                Failure::with(Code::ObjectNotExist, "Requested index does not exist.")
            }
            Error::ReadOnlyTable => Failure::with(
                Code::NoPermissionAccess,
                "The table shows timelines and can only be read.",
            ),
            Error::StreamNotFound => {
                Failure::with(Code::ObjectNotExist, "Requested stream does not exist.")
            }
            Error::ShardNotFound => Failure::with(
                Code::ObjectNotExist,
                "Requested stream shard does not exist.",
            ),
            Error::StreamTrimmed => Failure::new(Code::TrimmedDataAccess),
            Error::ConditionFailed => Failure::new(Code::ConditionCheckFail),
            Error::RowConflict => Failure::new(Code::RowOperationConflict),
            Error::RowTooLarge => Failure::new(Code::OutOfRowSizeLimit),
            Error::AnswerTooLarge => Failure::with(
                Code::OutOfRowSizeLimit,
                "The rows before this one fill the answer; ask for it in another request.",
            ),
            Error::OutOfAtomic { atomic, data } => {
                let (atomic, data) = (shown(&atomic), shown(&data));
                let text = format!(
                    "Data out of scope of atomic. Atomic PartKey:{atomic}. Data PartKey:{data}"
                );
                Failure::with(Code::DataOutOfRange, text)
            }
            Error::OutOfAtomicTables => Failure::with(
                Code::DataOutOfRange,
                "Data out of scope of atomic. The rows are of more than one table.",
            ),
            Error::OutOfTransaction { transaction, data } => {
                let (transaction, data) = (shown(&transaction), shown(&data));
                let text = format!(
                    "Data out of scope of transaction. Transaction PartKey:{transaction}. Data \
                     PartKey:{data}"
                );
                Failure::with(Code::DataOutOfRange, text)
            }
            Error::OutOfTransactionTable => Failure::with(
                Code::DataOutOfRange,
                "Data out of scope of transaction. The row is of another table.",
            ),
            Error::TransactionNotFound => Failure::new(Code::SessionNotExist),
            Error::Search(why) => why.into(),
            Error::Series(why) => Failure::invalid(super::series::text(why)),
            Error::Busy => Failure::new(Code::ServerBusy),
            Error::ShuttingDown => Failure::with(Code::ServerBusy, "The server is shutting down."),
            Error::StorageFull => Failure::with(Code::ServerUnavailable, "The disk is full."),
            Error::OutcomeUnknown => Failure::new(Code::Timeout),
            Error::Internal => Failure::new(Code::InternalServerError),
            Error::Unavailable(_) => Failure::new(Code::ServerUnavailable),
            parameter => Failure::invalid(of_definition(parameter)),
        }
    }
}

/// What is wrong with a table's definition or options.
fn of_definition(error: Error) -> Cow<'static, str> {
    let text = match error {
        Error::InvalidTableName(name) => format!("Invalid table name: '{name}'."),
        Error::InvalidColumnName(name) => format!("Invalid column name: '{name}'."),
        Error::KeyColumnCount => {
            return "The number of primary key columns must be in range: [1, 4].".into();
        }
        Error::DuplicateKeyColumn(name) => format!("Duplicated primary key name: '{name}'."),
        Error::AutoIncrementNotInteger => {
            return "AUTO_INCREMENT primary key must be integer.".into();
        }
        Error::AutoIncrementCount => return "AUTO_INCREMENT primary key count must <= 1.".into(),
        Error::AutoIncrementFirst { table } => {
            format!("First primary key can't be auto increment, table: {table}.")
        }
        Error::DefinedColumnCount => {
            return "The number of defined columns must be in range: [0, 32].".into();
        }
        Error::DuplicateDefinedColumn(name) => {
            format!("Duplicated defined column name: '{name}'.")
        }
        Error::NoDefinedColumn(name) => format!("Column does not exist:{name}."),
        Error::InvalidTimeToLive => return "TimeToLive cannot be 0 or less than -1.".into(),
        Error::InvalidMaxVersions => {
            return "The maximum versions cannot be less than or equal to 0.".into();
        }
        Error::InvalidMaxOffset => {
            return "The maximum deviation must be in range [0, INT64_MAX/1000000].".into();
        }
        Error::InvalidCapacityUnit(units) => {
            let reason = match units < 0 {
                true => "be nonnegative".to_owned(),
                false => format!("be in range [0, {CAPACITY_UNITS_MAX}]"),
            };
            format!("Invalid Capacity Unit:{units} . Capacity Unit must {reason}.")
        }
        Error::InvalidStreamHours => return "Invalid stream expiration time.".into(),
        Error::StreamColumnCount => {
            return "The number of original columns of a stream must be in range: [0, 32].".into();
        }
        Error::InvalidIterator => return "Invalid shard iterator.".into(),
        Error::NoOptions => return "No parameter is specified in table options.".into(),
        Error::ExpressionsTooCostly { limit, size } => format!(
            "The total data size that the regular expressions of the filter look at exceeds the limit, limit size: \
             {limit}, data size: {size}."
        ),
        Error::TransactionsDisabled => {
            return "Try to call method using explicit transaction on explicit-transaction-disabled \
                    table."
                .into();
        }
        Error::TransactionTooLarge { size } => format!(
            "The total data size of the transaction exceeds the limit, limit size: \
             {TRANSACTION_BYTES_MAX}, data size: {size}."
        ),
        Error::UpdateForbidden => {
            return "UpdateRow is forbidden: allow_update of the table is false.".into();
        }
        other => return of_index(other),
    };
    text.into()
}

/// What is wrong with an index.
fn of_index(error: Error) -> Cow<'static, str> {
    let text = match error {
        Error::IndexKeyCount => {
            "The number of primary key columns must be in range: [1, 4] in index."
        }
        Error::IndexColumnCount => {
            "The number of attribute columns must be in range: [0, 32] in index."
        }
        Error::IndexKeyType(name) => {
            let text = format!("Invalid type of primary key column in index: '{name}'.");
            return text.into();
        }
        Error::IndexNotLocal => {
            "The first primary key column of a local index must be that of its table."
        }
        Error::IndexQuota(most) => {
            return format!("Number of index per table exceeds the quota:{most}.").into();
        }
        Error::IndexedVersions => "Max versions must be 1 in a table with indexes.",
        Error::IndexedTimeToLive => {
            "A table with indexes can have a time to live only if it does not allow updates."
        }
        Error::ColumnIndexed(name) => return format!("Column is used by an index:{name}.").into(),
        Error::IndexWrite => "Can't write index table directly.",
        Error::IndexChange => "Can't change index table directly.",
        Error::IndexBuilding => "Disallow read index table in building base state",
        Error::IndexRowTooLarge => {
            let most = INDEX_ROW_BYTES_MAX;
            return format!("The row of an index exceeds the limit, limit size: {most}.").into();
        }
        other => return of_row(other),
    };
    text.into()
}

/// What is wrong with a row, a cell or a range.
fn of_row(error: Error) -> Cow<'static, str> {
    let text = match error {
        Error::KeyValue(value) => invalid_key_type(value_type(&value)),
        Error::KeyTooLong { column, length } => {
            too_long("primary key", &column, KEY_VALUE_BYTES_MAX, length)
        }
        Error::ValueTooLong { column, length } => {
            too_long("attribute", &column, VALUE_BYTES_MAX, length)
        }
        Error::NotANumber => return "NaN can't be set to double value.".into(),
        Error::Infinite => return "Infinity can't be set to double value.".into(),
        Error::DuplicateWithKey(name) => {
            format!("Duplicated attribute column name with primary key column: {name}.")
        }
        Error::ColumnCount(count) => format!(
            "The number of attribute columns exceeds the limit, limit count: {COLUMNS_MAX}, \
             column count: {count}."
        ),
        Error::ColumnsAsked(count) => format!(
            "The number of columns from the request exceeds the limit, limit count: \
             {COLUMNS_MAX}, column count: {count}."
        ),
        Error::TooLarge { limit, size } => format!(
            "The total data size of the request exceeds the limit, limit size: {limit}, data size: \
             {size}."
        ),
        Error::VersionOutOfRange => {
            return "Timestamp must be in range [0, INT64_MAX/1000).".into();
        }
        Error::InvalidVersion { column } => format!("Invalid timestamp. Cell:{column}."),
        Error::IncrementType { column } => {
            format!("Only integers can be incremented. Cell:{column}.")
        }
        Error::IncrementOverflow { column } => {
            format!("The incremented value is out of range. Cell:{column}.")
        }
        Error::IncrementMixed { column } => {
            format!("Only one operation can be given for incremented column:{column}.")
        }
        Error::ReturnColumn(column) => {
            format!("Invalid return column: {column}. Only incremented columns can be returned.")
        }
        Error::RangeForward => return "Begin key must less than end key in FORWARD".into(),
        Error::RangeBackward => return "Begin key must more than end key in BACKWARD".into(),
        Error::InvalidVersionsAsked(asked) => {
            format!("Invalid max versions: {asked} . Reason: Max versions must be positive.")
        }
        other => return of_numbered(other),
    };
    text.into()
}

/// What is wrong with a row whose key the server numbers.
fn of_numbered(error: Error) -> Cow<'static, str> {
    match error {
        Error::AutoIncrementInRead => "PKAutoIncr can't be used for read operations.".into(),
        Error::AutoIncrementInDelete => {
            "Invalid row to delete which with pk auto increment.".into()
        }
        Error::AutoIncrementTwice(count) => {
            format!("{count} pk auto increment exist in row.").into()
        }
        Error::AutoIncrementExpect(expected) => format!(
            "Invalid expect:{} when modify row with pk auto increment.",
            existence(expected)
        )
        .into(),
        Error::AutoIncrementExpectGiven(expected) => format!(
            "Invalid expect: {} when modify a specific row for table with pk auto increment.",
            existence(expected)
        )
        .into(),
        Error::AutoIncrementCondition => {
            "Can't set condition when modify row with pk auto increment.".into()
        }
        // All others have their text above.
        other => format!("The request was refused: {other:?}.").into(),
    }
}

/// The text of a value that can't stand in a key.
pub(super) fn invalid_key_type(name: &str) -> String {
    format!("{name} is an invalid type for the primary key.")
}

fn mismatch(what: &str, input: impl Display, table: impl Display) -> Failure {
    let text = format!("Validate PK {what} fail. Input: {input}, Meta: {table}.");
    Failure::with(Code::InvalidPk, text)
}

fn too_long(kind: &str, column: &str, max: usize, length: usize) -> String {
    format!(
        "The length of {kind} column: '{column}' exceeds the MaxLength:{max} with \
         CurrentLength:{length}."
    )
}

fn type_name(kind: KeyType) -> &'static str {
    match kind {
        KeyType::Integer => "VT_INTEGER",
        KeyType::String => "VT_STRING",
        KeyType::Binary => "VT_BLOB",
    }
}

fn value_type(value: &KeyValue) -> &'static str {
    match value {
        KeyValue::InfMin => "VT_INF_MIN",
        KeyValue::Integer(_) => "VT_INTEGER",
        KeyValue::String(_) => "VT_STRING",
        KeyValue::Binary(_) => "VT_BLOB",
        KeyValue::InfMax => "VT_INF_MAX",
        KeyValue::AutoIncrement => "VT_AUTO_INCREMENT",
    }
}

fn existence(expected: Existence) -> &'static str {
    match expected {
        Existence::Ignore => "IGNORE",
        Existence::Exist => "EXPECT_EXIST",
        Existence::NotExist => "EXPECT_NOT_EXIST",
    }
}

fn shown(value: &KeyValue) -> String {
    match value {
        KeyValue::Integer(number) => number.to_string(),
        KeyValue::String(text) => text.clone(),
        KeyValue::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => value_type(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_that_clients_compare() {
        let mismatch = [
            (
                Error::KeySize { input: 1, table: 2 },
                "Validate PK size fail. Input: 1, Meta: 2.",
            ),
            (
                Error::KeyName {
                    input: "PK2".to_owned(),
                    table: "PK1".to_owned(),
                },
                "Validate PK name fail. Input: PK2, Meta: PK1.",
            ),
            (
                Error::KeyType {
                    input: KeyType::Binary,
                    table: KeyType::Integer,
                },
                "Validate PK type fail. Input: VT_BLOB, Meta: VT_INTEGER.",
            ),
        ];
        for (error, text) in mismatch {
            assert_eq!(Failure::from(error), Failure::with(Code::InvalidPk, text));
        }
        let atomic = Error::OutOfAtomic {
            atomic: KeyValue::Integer(0),
            data: KeyValue::Integer(1),
        };
        assert_eq!(
            Failure::from(atomic),
            Failure::with(
                Code::DataOutOfRange,
                "Data out of scope of atomic. Atomic PartKey:0. Data PartKey:1"
            )
        );
        assert_eq!(
            Failure::from(Error::RangeForward),
            Failure::invalid("Begin key must less than end key in FORWARD")
        );
        assert_eq!(
            Failure::from(Error::TableQuota(64)),
            Failure::new(Code::QuotaExhausted)
        );
    }

    #[test]
    fn only_an_open_outcome_is_a_timeout() {
        for error in [Error::Busy, Error::ShuttingDown] {
            assert_eq!(Failure::from(error).code, Code::ServerBusy);
        }
        for error in [Error::StorageFull, Error::Unavailable("why".to_owned())] {
            assert_eq!(Failure::from(error).code, Code::ServerUnavailable);
        }
        assert_eq!(Failure::from(Error::OutcomeUnknown).code, Code::Timeout);
    }
}
