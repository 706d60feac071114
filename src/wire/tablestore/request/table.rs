//! What requests say about tables: making, changing and naming them, and their defined columns.
//!
//! Owns: the messages of definitions and options, and what this server does not have (encryption): it is refused,
//! never left out in silence. Promises: a definition that leaves this module keeps every rule. Must not: know which
//! tables there are.

use std::collections::BTreeSet;

use super::super::failure::Failure;
use super::super::proto;
use tideline_model::limits::DEFINED_COLUMNS_MAX;
use tideline_model::{
    ColumnType, DefinedColumn, Error, IndexKind, IndexMeta, KeyColumn, KeyType, NewTable,
    OptionsUpdate, StreamSpec, TableOptions, TableUpdate, Throughput, check_column_name,
    check_defined_columns, check_key_columns, check_table_name,
};

/// The table that a CreateTable asks for.
pub(in super::super) fn new_table(message: proto::CreateTableRequest) -> Result<NewTable, Failure> {
    let meta = message.table_meta.ok_or_else(missing)?;
    let name = table_name(meta.table_name)?;
    let key = meta.primary_key.into_iter().map(key_column);
    let primary_key = key.collect::<Result<Vec<_>, _>>()?;
    check_key_columns(&name, &primary_key)?;
    let defined_columns = defined_columns(meta.defined_column)?;
    check_defined_columns(&primary_key, &defined_columns)?;
    let [read, write] = units(message.reserved_throughput.ok_or_else(missing)?)?;
    let message_options = message.table_options.unwrap_or_default();
    let given = options(message_options)?;
    if given.time_to_live_s.is_none() {
        let text = "Time-to-live is missing while creating table.";
        return Err(Failure::invalid(text));
    }
    if given.max_versions.is_none() {
        let text = "MaxVersions is missing while creating table.";
        return Err(Failure::invalid(text));
    }
    let mut options = TableOptions::default();
    options.change(&given);
    options.update_full_row = message_options.update_full_row.unwrap_or(false);
    let stream = stream(message.stream_spec)?.flatten();
    let indexes = message.index_metas.into_iter().map(index_meta);
    let indexes = indexes.collect::<Result<Vec<_>, _>>()?;
    if message.sse_spec.is_some_and(|spec| spec.enable()) {
        let text = "Server side encryption is not supported.";
        return Err(Failure::invalid(text));
    }
    let reserved = Throughput {
        read: read.unwrap_or(0),
        write: write.unwrap_or(0),
    };
    reserved.check()?;
    Ok(NewTable {
        name,
        primary_key,
        defined_columns,
        options,
        reserved,
        indexes,
        stream,
        // Not all SDKs can ask for them.
        local_transactions: message.enable_local_txn.unwrap_or(true),
    })
}

/// The table that an UpdateTable names, and the change.
pub(in super::super) fn table_update(
    message: proto::UpdateTableRequest,
) -> Result<(String, TableUpdate), Failure> {
    let table = table_name(message.table_name)?;
    let message_options = message.table_options.unwrap_or_default();
    if message_options.update_full_row.is_some() {
        let text = "The options of UpdateTable can not contain updateFullRow.";
        return Err(Failure::invalid(text));
    }
    let [reserved_read, reserved_write] = units(message.reserved_throughput.unwrap_or_default())?;
    let update = TableUpdate {
        options: options(message_options)?,
        reserved_read,
        reserved_write,
        stream: stream(message.stream_spec)?,
    };
    if update.is_empty() {
        return Err(Error::NoOptions.into());
    }
    Ok((table, update))
}

/// A required field that is not there.
pub(in super::super) fn missing() -> Failure {
    Failure::invalid("Parse PBMessage from RawString failed.")
}

/// The name that a request has to give.
pub(in super::super) fn table_name(name: Option<String>) -> Result<String, Failure> {
    let name = name.ok_or_else(missing)?;
    check_table_name(&name)?;
    Ok(name)
}

/// A key's column, for clients.
pub(in super::super) fn key_message(column: &KeyColumn) -> proto::PrimaryKeySchema {
    let kind = match column.kind {
        KeyType::Integer => proto::PrimaryKeyType::Integer,
        KeyType::String => proto::PrimaryKeyType::String,
        KeyType::Binary => proto::PrimaryKeyType::Binary,
    };
    let numbered = column.auto_increment;
    proto::PrimaryKeySchema {
        name: Some(column.name.clone()),
        r#type: Some(kind.into()),
        option: numbered.then_some(proto::PrimaryKeyOption::AutoIncrement.into()),
    }
}

pub(in super::super) fn key_column(column: proto::PrimaryKeySchema) -> Result<KeyColumn, Failure> {
    let name = column.name.ok_or_else(missing)?;
    check_column_name(&name)?;
    let code = column.r#type.ok_or_else(missing)?;
    let kind = match proto::PrimaryKeyType::try_from(code) {
        Ok(proto::PrimaryKeyType::Integer) => KeyType::Integer,
        Ok(proto::PrimaryKeyType::String) => KeyType::String,
        Ok(proto::PrimaryKeyType::Binary) => KeyType::Binary,
        Err(_) => {
            let text = format!("{code} is an invalid type for the primary key.");
            return Err(Failure::invalid(text));
        }
    };
    let auto_increment = match column.option.map(proto::PrimaryKeyOption::try_from) {
        None => false,
        Some(Ok(proto::PrimaryKeyOption::AutoIncrement)) => true,
        Some(Err(_)) => return Err(missing()),
    };
    Ok(KeyColumn {
        name,
        kind,
        auto_increment,
    })
}

/// Defined columns with legal names, none twice.
pub(in super::super) fn defined_columns(
    columns: Vec<proto::DefinedColumnSchema>,
) -> Result<Vec<DefinedColumn>, Failure> {
    if columns.len() > DEFINED_COLUMNS_MAX {
        return Err(Error::DefinedColumnCount.into());
    }
    let mut names = BTreeSet::new();
    let mut defined = Vec::with_capacity(columns.len());
    for column in columns {
        let name = column.name.ok_or_else(missing)?;
        check_column_name(&name)?;
        let code = column.r#type.ok_or_else(missing)?;
        let kind = match proto::DefinedColumnType::try_from(code) {
            Ok(proto::DefinedColumnType::DctInteger) => ColumnType::Integer,
            Ok(proto::DefinedColumnType::DctDouble) => ColumnType::Double,
            Ok(proto::DefinedColumnType::DctBoolean) => ColumnType::Boolean,
            Ok(proto::DefinedColumnType::DctString) => ColumnType::String,
            Ok(proto::DefinedColumnType::DctBlob) => ColumnType::Binary,
            Err(_) => {
                let text = format!("{code} is an invalid type for the defined column.");
                return Err(Failure::invalid(text));
            }
        };
        if !names.insert(name.clone()) {
            return Err(Error::DuplicateDefinedColumn(name).into());
        }
        defined.push(DefinedColumn { name, kind });
    }
    Ok(defined)
}

/// An index that a request asks for. How it is brought up to date is not chosen: each is written with its table.
pub(in super::super) fn index_meta(message: proto::IndexMeta) -> Result<IndexMeta, Failure> {
    let kind = match message.index_type.map(proto::IndexType::try_from) {
        None | Some(Ok(proto::IndexType::ItGlobalIndex)) => IndexKind::Global,
        Some(Ok(proto::IndexType::ItLocalIndex)) => IndexKind::Local,
        Some(Err(_)) => return Err(missing()),
    };
    let meta = IndexMeta {
        name: table_name(message.name)?,
        kind,
        key: message.primary_key,
        columns: message.defined_column,
    };
    meta.check()?;
    for name in meta.key.iter().chain(&meta.columns) {
        check_column_name(name)?;
    }
    Ok(meta)
}

/// The reserved units that a message names, for reading and for writing. How many are too many is checked later.
fn units(message: proto::ReservedThroughput) -> Result<[Option<i64>; 2], Error> {
    let unit = message.capacity_unit.unwrap_or_default();
    let units = [unit.read, unit.write].map(|units| units.map(i64::from));
    match units.into_iter().flatten().find(|units| *units < 0) {
        Some(units) => Err(Error::InvalidCapacityUnit(units)),
        None => Ok(units),
    }
}

/// The options that a message names, each within its range.
fn options(message: proto::TableOptions) -> Result<OptionsUpdate, Error> {
    let update = OptionsUpdate {
        time_to_live_s: message.time_to_live.map(i64::from),
        max_versions: message.max_versions.map(i64::from),
        max_version_offset_s: message.deviation_cell_version_in_sec,
        allow_update: message.allow_update,
    };
    update.check()?;
    Ok(update)
}

/// The stream that a CreateTable or UpdateTable names; `None` = it says nothing of one, `Some(None)` = none.
fn stream(
    message: Option<proto::StreamSpecification>,
) -> Result<Option<Option<StreamSpec>>, Failure> {
    let Some(spec) = message else {
        return Ok(None);
    };
    let is_wanted = spec.enable_stream.ok_or_else(missing)?;
    if !is_wanted && spec.expiration_time.is_none_or(|hours| hours >= 0) {
        return Ok(Some(None));
    }
    // What is not given is no time that there is.
    let hours = spec.expiration_time.unwrap_or(0).into();
    Ok(Some(Some(StreamSpec::new(hours, spec.columns_to_get)?)))
}
