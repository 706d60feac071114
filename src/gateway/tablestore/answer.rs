//! What the tables answered, in the words of the wire.
//!
//! Owns: the way from the tables' types to the wire's. Promises: nothing that was answered is lost on it. Must not:
//! decide what is answered.

use crate::table::{ColumnType, Consumed, FoundRow, KeyType, KeyValue, Table};
use crate::wire::tablestore as wire;
use crate::wire::tablestore::capacity::Capacity;
use crate::wire::tablestore::options::{TableOptions, Throughput, TimeToLive};
use crate::wire::tablestore::plainbuffer::{Cell, Row, Variant};
use crate::wire::tablestore::reply::{Description, TableState};
use crate::wire::tablestore::table::{self, DefinedColumn, TableMeta};

pub(super) fn consumed(consumed: Consumed) -> Capacity {
    Capacity {
        read: consumed.read,
        write: consumed.write,
    }
}

pub(super) fn row(table: &Table, row: FoundRow) -> Row {
    let cells = row.cells.into_iter();
    Row {
        attributes: cells
            .map(|cell| Cell::version(cell.name, wire::into_variant(cell.value), cell.version))
            .collect(),
        ..key(table, row.key)
    }
}

pub(super) fn key(table: &Table, key: Vec<KeyValue>) -> Row {
    let columns = table.primary_key.iter().zip(key);
    let cells = columns.map(|(column, value)| {
        let value = match value {
            KeyValue::Integer(number) => Variant::Integer(number),
            KeyValue::String(text) => Variant::String(text),
            KeyValue::Binary(bytes) => Variant::Binary(bytes),
            KeyValue::InfMin => Variant::InfMin,
            KeyValue::InfMax => Variant::InfMax,
            KeyValue::AutoIncrement => Variant::AutoIncrement,
        };
        Cell::key(column.name.as_str(), value)
    });
    Row::key(cells.collect())
}

pub(super) fn description(table: &Table) -> Description {
    let key = table.primary_key.iter().map(|column| wire::KeySchema {
        name: column.name.clone(),
        key_type: match column.kind {
            KeyType::Integer => wire::KeyType::Integer,
            KeyType::String => wire::KeyType::String,
            KeyType::Binary => wire::KeyType::Binary,
        },
        auto_increment: column.auto_increment,
    });
    let defined = table.defined_columns.iter().map(|column| DefinedColumn {
        name: column.name.clone(),
        column_type: match column.kind {
            ColumnType::Integer => table::ColumnType::Integer,
            ColumnType::Double => table::ColumnType::Double,
            ColumnType::Boolean => table::ColumnType::Boolean,
            ColumnType::String => table::ColumnType::String,
            ColumnType::Binary => table::ColumnType::Binary,
        },
    });
    Description {
        meta: TableMeta {
            name: table.name.clone(),
            key: key.collect(),
            defined_columns: defined.collect(),
        },
        state: state(table),
        created_micros: table.created_us.cast_signed(),
    }
}

pub(super) fn state(table: &Table) -> TableState {
    let seconds = |micros: u64| (micros / 1_000_000).cast_signed();
    let options = &table.options;
    let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    TableState {
        throughput: Throughput {
            read: small(table.reserved.read),
            write: small(table.reserved.write),
        },
        last_increase_seconds: seconds(table.increased_us),
        last_decrease_seconds: (table.decreased_us > 0).then(|| seconds(table.decreased_us)),
        options: TableOptions {
            time_to_live: match u32::try_from(options.time_to_live_s) {
                Ok(seconds) => TimeToLive::Seconds(seconds),
                Err(_) => TimeToLive::Forever,
            },
            max_versions: small(options.max_versions),
            deviation_seconds: options.max_version_offset_s,
            allow_update: options.allow_update,
            update_full_row: options.update_full_row,
        },
    }
}
