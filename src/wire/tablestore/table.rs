//! What requests say about tables: making, changing and naming them, and their defined columns.
//!
//! Owns: a table's key, defined columns, streams and indexes as types. Promises: names are legal, keys have one to four
//! columns of which at most one is numbered by the server. Must not: know which tables there are; whether an index fits
//! its table is not checked here.

use std::collections::BTreeSet;

use super::failure::Failure;
use super::key::{KeySchema, KeyType, key_columns};
use super::limits::{DEFINED_COLUMNS_MAX, DEVIATION_SECONDS_DEFAULT, KEY_COLUMNS_MAX};
use super::name::{check_column_name, check_table_name};
use super::options::{
    OptionsChange, TableOptions, Throughput, ThroughputChange, options, throughput,
};
use super::proto;

/// A table as its maker described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Its name.
    pub name: String,
    /// Its key; the first column is the partition key.
    pub key: Vec<KeySchema>,
    /// Columns that have a type, so that an index may hold them.
    pub defined_columns: Vec<DefinedColumn>,
}

/// A column that has a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
}

/// The type of a defined column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed integers.
    Integer,
    /// Doubles.
    Double,
    /// True and false.
    Boolean,
    /// UTF-8 texts.
    String,
    /// Bytes.
    Binary,
}

/// Whether a table has a stream of its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// It has one, from now on.
    pub enabled: bool,
    /// How long records are kept, hours.
    pub hours: Option<u32>,
    /// Columns whose former values a record holds.
    pub columns: Vec<String>,
}

/// A secondary index, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexMeta {
    /// Its name, among those of tables.
    pub name: String,
    /// The columns of its key.
    pub key: Vec<String>,
    /// The columns that it holds beside.
    pub columns: Vec<String>,
    /// It is changed together with the table.
    pub synchronous: bool,
    /// It has the table's partition key.
    pub local: bool,
}

/// CreateTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// Name, key, defined columns.
    pub meta: TableMeta,
    /// Reserved throughput.
    pub throughput: Throughput,
    /// Options.
    pub options: TableOptions,
    /// Its stream.
    pub stream: Option<StreamSpec>,
    /// Its indexes.
    pub indexes: Vec<IndexMeta>,
    /// Whether it is to have local transactions.
    pub local_transactions: bool,
    /// Whether it is to be encrypted on disk.
    pub encrypted: bool,
}

/// UpdateTable; it names at least one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateTable {
    /// The table.
    pub table: String,
    /// Its throughput.
    pub throughput: ThroughputChange,
    /// Its options.
    pub options: OptionsChange,
    /// Its stream.
    pub stream: Option<StreamSpec>,
}

impl CreateTable {
    pub(super) fn from_message(message: proto::CreateTableRequest) -> Result<Self, Failure> {
        let meta = message.table_meta.ok_or_else(missing)?;
        let name = table_name(meta.table_name)?;
        let key = key_schema(&name, meta.primary_key)?;
        let defined_columns = defined_columns(meta.defined_column)?;
        for DefinedColumn { name, .. } in &defined_columns {
            if key.iter().any(|column| column.name == *name) {
                return Err(Failure::invalid(format!(
                    "Duplicated attribute column name with primary key column: {name}."
                )));
            }
        }
        let throughput = throughput(message.reserved_throughput.ok_or_else(missing)?)?;
        let message_options = message.table_options.unwrap_or_default();
        let change = options(message_options)?;
        let ttl = "Time-to-live is missing while creating table.";
        let versions = "MaxVersions is missing while creating table.";
        let options = TableOptions {
            time_to_live: change.time_to_live.ok_or_else(|| Failure::invalid(ttl))?,
            max_versions: change
                .max_versions
                .ok_or_else(|| Failure::invalid(versions))?,
            deviation_seconds: change
                .deviation_seconds
                .unwrap_or(DEVIATION_SECONDS_DEFAULT),
            allow_update: change.allow_update.unwrap_or(true),
            update_full_row: message_options.update_full_row.unwrap_or(false),
        };
        let indexes = message.index_metas.into_iter().map(index);
        Ok(CreateTable {
            meta: TableMeta {
                name,
                key,
                defined_columns,
            },
            throughput: Throughput {
                read: throughput.read.unwrap_or(0),
                write: throughput.write.unwrap_or(0),
            },
            options,
            stream: message.stream_spec.map(stream).transpose()?,
            indexes: indexes.collect::<Result<_, _>>()?,
            local_transactions: message.enable_local_txn.unwrap_or(false),
            encrypted: message.sse_spec.is_some_and(|spec| spec.enable()),
        })
    }
}

impl UpdateTable {
    pub(super) fn from_message(message: proto::UpdateTableRequest) -> Result<Self, Failure> {
        let table = table_name(message.table_name)?;
        let message_options = message.table_options.unwrap_or_default();
        if message_options.update_full_row.is_some() {
            let text = "The options of UpdateTable can not contain updateFullRow.";
            return Err(Failure::invalid(text));
        }
        let throughput = throughput(message.reserved_throughput.unwrap_or_default())?;
        let options = options(message_options)?;
        let stream = message.stream_spec.map(stream).transpose()?;
        let nothing = throughput == ThroughputChange::default()
            && options == OptionsChange::default()
            && stream.is_none();
        if nothing {
            let text = "No parameter is specified in table options.";
            return Err(Failure::invalid(text));
        }
        Ok(UpdateTable {
            table,
            throughput,
            options,
            stream,
        })
    }
}

/// A required field that is not there.
pub(super) fn missing() -> Failure {
    Failure::invalid("Parse PBMessage from RawString failed.")
}

/// The name that a request has to give.
pub(super) fn table_name(name: Option<String>) -> Result<String, Failure> {
    let name = name.ok_or_else(missing)?;
    check_table_name(&name)?;
    Ok(name)
}

fn key_schema(
    table: &str,
    columns: Vec<proto::PrimaryKeySchema>,
) -> Result<Vec<KeySchema>, Failure> {
    if !(1..=KEY_COLUMNS_MAX).contains(&columns.len()) {
        return Err(key_columns());
    }
    let mut schema: Vec<KeySchema> = Vec::with_capacity(columns.len());
    for column in columns {
        let column = key_column(column)?;
        if schema.iter().any(|other| other.name == column.name) {
            let text = format!("Duplicated primary key name: '{}'.", column.name);
            return Err(Failure::invalid(text));
        }
        schema.push(column);
    }
    let numbered = schema.iter().filter(|column| column.auto_increment);
    if numbered
        .clone()
        .any(|column| column.key_type != KeyType::Integer)
    {
        let text = "AUTO_INCREMENT primary key must be integer.";
        return Err(Failure::invalid(text));
    }
    if numbered.count() > 1 {
        let text = "AUTO_INCREMENT primary key count must <= 1.";
        return Err(Failure::invalid(text));
    }
    if schema[0].auto_increment {
        let text = format!("First primary key can't be auto increment, table: {table}.");
        return Err(Failure::invalid(text));
    }
    Ok(schema)
}

fn key_column(column: proto::PrimaryKeySchema) -> Result<KeySchema, Failure> {
    let name = column.name.ok_or_else(missing)?;
    check_column_name(&name)?;
    let code = column.r#type.ok_or_else(missing)?;
    let key_type = match proto::PrimaryKeyType::try_from(code) {
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
    Ok(KeySchema {
        name,
        key_type,
        auto_increment,
    })
}

/// Defined columns with legal names, none twice.
pub(super) fn defined_columns(
    columns: Vec<proto::DefinedColumnSchema>,
) -> Result<Vec<DefinedColumn>, Failure> {
    check_defined_count(columns.len())?;
    let mut names = BTreeSet::new();
    let mut defined = Vec::with_capacity(columns.len());
    for column in columns {
        let name = column.name.ok_or_else(missing)?;
        check_column_name(&name)?;
        let code = column.r#type.ok_or_else(missing)?;
        let column_type = match proto::DefinedColumnType::try_from(code) {
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
            let text = format!("Duplicated defined column name: '{name}'.");
            return Err(Failure::invalid(text));
        }
        defined.push(DefinedColumn { name, column_type });
    }
    Ok(defined)
}

/// Checks the number of a table's defined columns, also after some were added.
///
/// # Errors
/// More than the limit.
pub fn check_defined_count(count: usize) -> Result<(), Failure> {
    if count <= DEFINED_COLUMNS_MAX {
        return Ok(());
    }
    let text = "The number of defined columns must be in range: [0, 32].";
    Err(Failure::invalid(text))
}

fn stream(message: proto::StreamSpecification) -> Result<StreamSpec, Failure> {
    let hours = message.expiration_time.map(u32::try_from).transpose();
    Ok(StreamSpec {
        enabled: message.enable_stream.ok_or_else(missing)?,
        hours: hours.map_err(|_| Failure::invalid("Invalid stream expiration time."))?,
        columns: message.columns_to_get,
    })
}

fn index(message: proto::IndexMeta) -> Result<IndexMeta, Failure> {
    let mode = message.index_update_mode.ok_or_else(missing)?;
    let kind = message.index_type.ok_or_else(missing)?;
    let mode = proto::IndexUpdateMode::try_from(mode).map_err(|_| missing())?;
    let kind = proto::IndexType::try_from(kind).map_err(|_| missing())?;
    Ok(IndexMeta {
        name: table_name(message.name)?,
        key: message.primary_key,
        columns: message.defined_column,
        synchronous: mode == proto::IndexUpdateMode::IumSyncIndex,
        local: kind == proto::IndexType::ItLocalIndex,
    })
}
