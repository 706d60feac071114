//! Every error of the tables as a refusal of the protocol.
//!
//! Owns: the documented codes and texts of what only the tables can know. Promises: only `OTSTimeout` leaves open
//! whether a write took effect; what SDKs may safely try again has a code that they try again at. Must not: tell a
//! client what broke inside; that is for the log.

use crate::table::{Error, Existence, KeyType, KeyValue, StoreError};
use crate::wire::tablestore::{Code, Failure};

pub(super) fn refusal(error: Error) -> Failure {
    let invalid = |text: String| Failure::invalid(text);
    match error {
        Error::KeySize { input, table } => mismatch("size", input, table),
        Error::KeyName { input, table } => mismatch("name", input, table),
        Error::KeyType { input, table } => mismatch("type", type_name(input), type_name(table)),
        Error::KeyValue(value) => {
            let name = value_type(&value);
            invalid(format!("{name} is an invalid type for the primary key."))
        }
        Error::TableExists => Failure::new(Code::ObjectAlreadyExist),
        Error::TableNotFound => Failure::new(Code::ObjectNotExist),
        Error::TableQuota(most) => {
            let text = format!("Number of tables exceeds the quota:{most}.");
            Failure::with(Code::QuotaExhausted, text)
        }
        Error::ReadOnlyTable => Failure::with(
            Code::NoPermissionAccess,
            "The table shows timelines and can only be read.",
        ),
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
        Error::Store(error) => match error {
            StoreError::Busy => Failure::new(Code::ServerBusy),
            StoreError::ShuttingDown => {
                Failure::with(Code::ServerBusy, "The server is shutting down.")
            }
            StoreError::StorageFull => Failure::with(Code::ServerUnavailable, "The disk is full."),
            StoreError::OutcomeUnknown => Failure::new(Code::Timeout),
            StoreError::Unavailable => Failure::new(Code::ServerUnavailable),
            StoreError::Internal => Failure::new(Code::InternalServerError),
        },
        Error::Unavailable(why) => {
            tracing::error!(why, "a call on tables failed");
            Failure::new(Code::ServerUnavailable)
        }
        other => Failure::invalid(parameter(other)),
    }
}

/// What is wrong with a parameter.
fn parameter(error: Error) -> String {
    match error {
        Error::InvalidTableName(name) => format!("Invalid table name: '{name}'."),
        Error::InvalidColumnName(name) => format!("Invalid column name: '{name}'."),
        Error::KeyColumnCount(_) => {
            "The number of primary key columns must be in range: [1, 4].".into()
        }
        Error::DuplicateKeyColumn(name) => format!("Duplicated primary key name: '{name}'."),
        Error::AutoIncrementNotInteger => "AUTO_INCREMENT primary key must be integer.".into(),
        Error::AutoIncrementCount => "AUTO_INCREMENT primary key count must <= 1.".into(),
        Error::AutoIncrementFirst { table } => {
            format!("First primary key can't be auto increment, table: {table}.")
        }
        Error::DefinedColumnCount(_) => {
            "The number of defined columns must be in range: [0, 32].".into()
        }
        Error::DuplicateDefinedColumn(name) => {
            format!("Duplicated defined column name: '{name}'.")
        }
        Error::NoDefinedColumn(name) => format!("Column does not exist:{name}."),
        Error::InvalidTimeToLive => "TimeToLive cannot be 0 or less than -1.".into(),
        Error::InvalidMaxVersions => {
            "The maximum versions cannot be less than or equal to 0.".into()
        }
        Error::InvalidMaxOffset => {
            "The maximum deviation must be in range [0, INT64_MAX/1000000].".into()
        }
        Error::InvalidCapacityUnit(units) => {
            format!("Invalid Capacity Unit:{units} . Capacity Unit must be in range [0, 100000].")
        }
        Error::NoOptions => "No parameter is specified in table options.".into(),
        Error::OnlyAtCreation => "The options of UpdateTable can not contain updateFullRow.".into(),
        Error::UpdateForbidden => {
            "UpdateRow is forbidden: allow_update of the table is false.".into()
        }
        Error::RowCount { limit } => format!("Rows count exceeds the upper limit: {limit}."),
        other => of_row(other),
    }
}

/// What is wrong with a row, a cell or a range.
fn of_row(error: Error) -> String {
    match error {
        Error::KeyTooLong {
            column,
            max,
            length,
        } => too_long("primary key", &column, max, length),
        Error::ValueTooLong {
            column,
            max,
            length,
        } => too_long("attribute", &column, max, length),
        Error::AutoIncrementInRead => "PKAutoIncr can't be used for read operations.".into(),
        Error::AutoIncrementInDelete => {
            "Invalid row to delete which with pk auto increment.".into()
        }
        Error::AutoIncrementExpect(expected) => format!(
            "Invalid expect:{} when modify row with pk auto increment.",
            existence(expected)
        ),
        Error::AutoIncrementExpectGiven(expected) => format!(
            "Invalid expect: {} when modify a specific row for table with pk auto increment.",
            existence(expected)
        ),
        Error::AutoIncrementCondition => {
            "Can't set condition when modify row with pk auto increment.".into()
        }
        Error::AttributeMissing => "Attribute column is missing.".into(),
        Error::DuplicateWithKey(name) => {
            format!("Duplicated attribute column name with primary key column: {name}.")
        }
        Error::ColumnCount { limit, count } => format!(
            "The number of attribute columns exceeds the limit, limit count: {limit}, column count: \
             {count}."
        ),
        Error::TooLarge { limit, size } => format!(
            "The total data size of the request exceeds the limit, limit size: {limit}, data size: \
             {size}."
        ),
        Error::VersionOutOfRange => "Timestamp must be in range [0, INT64_MAX/1000).".into(),
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
        Error::InvalidLimit => "The limit must be greater than 0.".into(),
        Error::RangeForward => "Begin key must less than end key in FORWARD".into(),
        Error::RangeBackward => "Begin key must more than end key in BACKWARD".into(),
        Error::NoVersions => "No version condition is specified.".into(),
        Error::InvalidVersionsAsked(asked) => {
            format!("Invalid max versions: {asked} . Reason: Max versions must be positive.")
        }
        // Told as themselves above.
        other => format!("The request was refused: {other:?}."),
    }
}

fn mismatch(what: &str, input: impl std::fmt::Display, table: impl std::fmt::Display) -> Failure {
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
            assert_eq!(refusal(error), Failure::with(Code::InvalidPk, text));
        }
        let atomic = Error::OutOfAtomic {
            atomic: KeyValue::Integer(0),
            data: KeyValue::Integer(1),
        };
        assert_eq!(
            refusal(atomic),
            Failure::with(
                Code::DataOutOfRange,
                "Data out of scope of atomic. Atomic PartKey:0. Data PartKey:1"
            )
        );
        assert_eq!(
            refusal(Error::RangeForward),
            Failure::invalid("Begin key must less than end key in FORWARD")
        );
        assert_eq!(
            refusal(Error::TableQuota(64)),
            Failure::new(Code::QuotaExhausted)
        );
    }

    #[test]
    fn only_an_open_outcome_is_a_timeout() {
        let code = |error| refusal(Error::Store(error)).code;
        for error in [StoreError::Busy, StoreError::ShuttingDown] {
            assert_eq!(code(error), Code::ServerBusy);
        }
        for error in [StoreError::StorageFull, StoreError::Unavailable] {
            assert_eq!(code(error), Code::ServerUnavailable);
        }
        let unreadable = Error::Unavailable("why".to_owned());
        assert_eq!(refusal(unreadable).code, Code::ServerUnavailable);
        assert_eq!(code(StoreError::OutcomeUnknown), Code::Timeout);
    }
}
