//! What a request asks, in the words of the tables.
//!
//! Owns: the way from the wire's types to the tables'. Promises: nothing that was asked is lost on it. Must not: check;
//! both sides have.

use super::filter;
use crate::table::{
    CellChange, ColumnType, Condition, DefinedColumn, Direction, Existence, GetRange, KeyColumn,
    KeyType, KeyValue, NewTable, OptionsUpdate, PrimaryKey, PutCell, ReturnContent, RowChange,
    RowWrite, Selection, TableOptions, TableUpdate, Throughput,
};
use crate::wire::tablestore as wire;
use crate::wire::tablestore::change::{Change, ColumnChange, Put};
use crate::wire::tablestore::filter::Predicate;
use crate::wire::tablestore::options::TimeToLive;
use crate::wire::tablestore::read;
use crate::wire::tablestore::table::{self, CreateTable, UpdateTable};
use crate::wire::tablestore::write::{Returned, Write};
use crate::wire::tablestore::{BoundValue, WriteKeyValue};

pub(super) fn new_table(create: CreateTable) -> NewTable {
    let CreateTable {
        meta,
        throughput,
        options,
        // Refused if there are any.
        stream: _,
        indexes: _,
        local_transactions: _,
        encrypted: _,
    } = create;
    let key = meta.key.into_iter().map(|column| KeyColumn {
        name: column.name,
        kind: match column.key_type {
            wire::KeyType::Integer => KeyType::Integer,
            wire::KeyType::String => KeyType::String,
            wire::KeyType::Binary => KeyType::Binary,
        },
        auto_increment: column.auto_increment,
    });
    NewTable {
        name: meta.name,
        primary_key: key.collect(),
        defined_columns: meta
            .defined_columns
            .into_iter()
            .map(defined_column)
            .collect(),
        options: TableOptions {
            time_to_live_s: seconds(options.time_to_live),
            max_versions: options.max_versions.into(),
            max_version_offset_s: options.deviation_seconds,
            allow_update: options.allow_update,
            update_full_row: options.update_full_row,
        },
        reserved: Throughput {
            read: throughput.read.into(),
            write: throughput.write.into(),
        },
    }
}

fn seconds(time: TimeToLive) -> i64 {
    match time {
        TimeToLive::Forever => -1,
        TimeToLive::Seconds(seconds) => seconds.into(),
    }
}

pub(super) fn defined_column(column: table::DefinedColumn) -> DefinedColumn {
    DefinedColumn {
        name: column.name,
        kind: match column.column_type {
            table::ColumnType::Integer => ColumnType::Integer,
            table::ColumnType::Double => ColumnType::Double,
            table::ColumnType::Boolean => ColumnType::Boolean,
            table::ColumnType::String => ColumnType::String,
            table::ColumnType::Binary => ColumnType::Binary,
        },
    }
}

pub(super) fn table_update(update: &UpdateTable) -> TableUpdate {
    let options = &update.options;
    TableUpdate {
        options: OptionsUpdate {
            time_to_live_s: options.time_to_live.map(seconds),
            max_versions: options.max_versions.map(i64::from),
            max_version_offset_s: options.deviation_seconds,
            allow_update: options.allow_update,
            // Refused on the wire.
            update_full_row: None,
        },
        reserved_read: update.throughput.read.map(i64::from),
        reserved_write: update.throughput.write.map(i64::from),
    }
}

pub(super) fn key(key: wire::Key) -> PrimaryKey {
    named(key, value)
}

fn named<V>(key: wire::Key<V>, value: impl Fn(V) -> KeyValue) -> PrimaryKey {
    let columns = key.into_iter();
    columns.map(|(name, part)| (name, value(part))).collect()
}

fn value(value: wire::KeyValue) -> KeyValue {
    match value {
        wire::KeyValue::Integer(number) => KeyValue::Integer(number),
        wire::KeyValue::String(text) => KeyValue::String(text),
        wire::KeyValue::Binary(bytes) => KeyValue::Binary(bytes),
    }
}

fn bound(bound: BoundValue) -> KeyValue {
    match bound {
        BoundValue::InfMin => KeyValue::InfMin,
        BoundValue::At(at) => value(at),
        BoundValue::InfMax => KeyValue::InfMax,
    }
}

pub(super) fn selection(selection: read::Selection) -> Selection {
    let read::Selection {
        max_versions,
        times,
        columns,
        start_column,
        end_column,
        filter,
    } = selection;
    Selection {
        columns,
        start: start_column,
        end: end_column,
        max_versions: max_versions.map(i64::from),
        versions: times.map(|times| (times.start, times.end)),
        filter: filter.map(filter::of_rows),
    }
}

pub(super) fn range(range: read::GetRange) -> GetRange {
    GetRange {
        direction: match range.direction {
            read::Direction::Forward => Direction::Forward,
            read::Direction::Backward => Direction::Backward,
        },
        start: named(range.start, bound),
        end: named(range.end, bound),
        limit: range
            .limit
            .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        selection: selection(range.selection),
    }
}

pub(super) fn write(write: Write) -> RowWrite {
    let condition = write.condition;
    RowWrite {
        key: named(write.key, |part| match part {
            WriteKeyValue::Given(given) => value(given),
            WriteKeyValue::AutoIncrement => KeyValue::AutoIncrement,
        }),
        change: match write.change {
            Change::Put(cells) => RowChange::Put(cells.into_iter().map(put).collect()),
            Change::Update(changes) => {
                RowChange::Update(changes.into_iter().map(cell_change).collect())
            }
            Change::Delete => RowChange::Delete,
        },
        condition: Condition {
            existence: match condition.existence {
                wire::condition::Existence::Ignore => Existence::Ignore,
                wire::condition::Existence::Expected => Existence::Exist,
                wire::condition::Existence::Unexpected => Existence::NotExist,
            },
            is_costly: condition.columns.as_ref().is_some_and(Predicate::is_costly),
            test: condition.columns.map(filter::of_writes),
        },
        content: match write.returned {
            Returned::Nothing => ReturnContent::None,
            Returned::Key => ReturnContent::Key,
            Returned::AfterModify(columns) => ReturnContent::Incremented(columns),
        },
    }
}

fn put(put: Put) -> PutCell {
    PutCell {
        name: put.column,
        version: put.version,
        value: put.value,
    }
}

fn cell_change((name, change): (String, ColumnChange)) -> CellChange {
    match change {
        ColumnChange::Put { value, version } => CellChange::Put(PutCell {
            name,
            version,
            value,
        }),
        ColumnChange::DeleteVersion(version) => CellChange::DeleteOne { name, version },
        ColumnChange::DeleteAll => CellChange::DeleteAll { name },
        ColumnChange::Increment(by) => CellChange::Increment { name, by },
    }
}
