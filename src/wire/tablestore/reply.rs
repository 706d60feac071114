//! Replies, and their bytes.
//!
//! Owns: what each operation answers. Promises: every field that an SDK cannot do without is there: consumed capacity,
//! all options, the time of the last change of throughput, and whether there is a stream. Must not: sign (`signature`)
//! or say errors of a whole request (`Failure::body`).

use bytes::Bytes;
use prost::Message;

use super::capacity::Capacity;
use super::failure::Failure;
use super::key::{KeySchema, KeyType};
use super::options::{TableOptions, Throughput, TimeToLive};
use super::plainbuffer::{Row, encode_row, encode_rows};
use super::proto;
use super::table::{ColumnType, TableMeta};

/// The answer to an accepted request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// CreateTable, DeleteTable, AddDefinedColumn, DeleteDefinedColumn: it is done.
    Done,
    /// ListTable.
    Tables(Vec<String>),
    /// DescribeTable.
    Table(Box<Description>),
    /// UpdateTable: as the table is now.
    Updated(Box<TableState>),
    /// GetRow: the row, if there is one.
    Read(RowReply),
    /// PutRow, UpdateRow, DeleteRow: what was asked to be returned.
    Written(RowReply),
    /// BatchGetRow, BatchWriteRow.
    Batch(Vec<TableReply>),
    /// GetRange.
    Range(RangeReply),
}

/// What can change about a table.
#[derive(Clone, Debug)]
pub struct TableState {
    /// Reserved throughput.
    pub throughput: Throughput,
    /// When it was last raised, seconds since 1970; when the table was made, if never.
    pub last_increase_seconds: i64,
    /// When it was last lowered.
    pub last_decrease_seconds: Option<i64>,
    /// Options.
    pub options: TableOptions,
}

/// Everything about a table.
#[derive(Clone, Debug)]
pub struct Description {
    /// Name, key, defined columns.
    pub meta: TableMeta,
    /// What can change.
    pub state: TableState,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
}

/// What is answered about one row.
#[derive(Clone, Debug, Default)]
pub struct RowReply {
    /// What it used.
    pub consumed: Capacity,
    /// The row; its cells hold no operations.
    pub row: Option<Row>,
}

/// What is answered about the rows of one table.
#[derive(Clone, Debug)]
pub struct TableReply {
    /// The table.
    pub table: String,
    /// In the order of the request.
    pub rows: Vec<Result<RowReply, Failure>>,
}

/// A page of a range.
#[derive(Clone, Debug, Default)]
pub struct RangeReply {
    /// What it used.
    pub consumed: Capacity,
    /// In the order of the request.
    pub rows: Vec<Row>,
    /// The key to go on from; None: that was all.
    pub next: Option<Row>,
}

impl Reply {
    /// The body.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let bytes = match self {
            Reply::Done => Vec::new(),
            Reply::Tables(names) => proto::ListTableResponse {
                table_names: names.clone(),
            }
            .encode_to_vec(),
            Reply::Table(description) => description.message().encode_to_vec(),
            Reply::Updated(state) => proto::UpdateTableResponse {
                reserved_throughput_details: state.throughput_message(),
                table_options: options_message(&state.options),
                stream_details: Some(proto::StreamDetails::default()),
            }
            .encode_to_vec(),
            Reply::Read(reply) => proto::GetRowResponse {
                consumed: consumed(reply.consumed),
                row: reply.row.as_ref().map(encode_row).unwrap_or_default(),
            }
            .encode_to_vec(),
            // The three kinds of write are answered alike.
            Reply::Written(reply) => proto::PutRowResponse {
                consumed: consumed(reply.consumed),
                row: reply.row.as_ref().map(encode_row),
            }
            .encode_to_vec(),
            // As are the two kinds of batch.
            Reply::Batch(tables) => proto::BatchGetRowResponse {
                tables: tables.iter().map(TableReply::message).collect(),
            }
            .encode_to_vec(),
            Reply::Range(range) => proto::GetRangeResponse {
                consumed: consumed(range.consumed),
                rows: encode_rows(&range.rows),
                next_start_primary_key: range.next.as_ref().map(encode_row),
            }
            .encode_to_vec(),
        };
        bytes.into()
    }
}

fn consumed(capacity: Capacity) -> proto::ConsumedCapacity {
    proto::ConsumedCapacity {
        capacity_unit: unit(capacity.read, capacity.write),
    }
}

fn unit(read: u32, write: u32) -> proto::CapacityUnit {
    let signed = |units| Some(i32::try_from(units).unwrap_or(i32::MAX));
    proto::CapacityUnit {
        read: signed(read),
        write: signed(write),
    }
}

impl TableReply {
    fn message(&self) -> proto::TableInBatchResponse {
        let rows = self.rows.iter().map(|row| match row {
            Ok(reply) => proto::RowInBatchResponse {
                is_ok: true,
                error: None,
                consumed: Some(consumed(reply.consumed)),
                row: reply.row.as_ref().map(encode_row),
            },
            Err(failure) => proto::RowInBatchResponse {
                is_ok: false,
                error: Some(failure.message()),
                consumed: None,
                row: None,
            },
        });
        proto::TableInBatchResponse {
            table_name: self.table.clone(),
            rows: rows.collect(),
        }
    }
}

impl TableState {
    fn throughput_message(&self) -> proto::ReservedThroughputDetails {
        proto::ReservedThroughputDetails {
            capacity_unit: unit(self.throughput.read, self.throughput.write),
            last_increase_time: self.last_increase_seconds,
            last_decrease_time: self.last_decrease_seconds,
        }
    }
}

fn options_message(options: &TableOptions) -> proto::TableOptions {
    let seconds = match options.time_to_live {
        TimeToLive::Forever => -1,
        TimeToLive::Seconds(seconds) => i32::try_from(seconds).unwrap_or(i32::MAX),
    };
    proto::TableOptions {
        time_to_live: Some(seconds),
        max_versions: Some(i32::try_from(options.max_versions).unwrap_or(i32::MAX)),
        deviation_cell_version_in_sec: Some(options.deviation_seconds),
        allow_update: Some(options.allow_update),
        update_full_row: Some(options.update_full_row),
    }
}

impl Description {
    fn message(&self) -> proto::DescribeTableResponse {
        let columns = self.meta.defined_columns.iter();
        let table_meta = proto::TableMeta {
            table_name: Some(self.meta.name.clone()),
            primary_key: self.meta.key.iter().map(key_message).collect(),
            defined_column: columns
                .map(|column| proto::DefinedColumnSchema {
                    name: Some(column.name.clone()),
                    r#type: Some(column_type(column.column_type).into()),
                })
                .collect(),
        };
        proto::DescribeTableResponse {
            table_meta,
            reserved_throughput_details: self.state.throughput_message(),
            table_options: options_message(&self.state.options),
            // A table is there at once, or not at all.
            table_status: proto::TableStatus::Active.into(),
            stream_details: Some(proto::StreamDetails::default()),
            // One split: this server.
            shard_splits: Vec::new(),
            index_metas: Vec::new(),
            creation_time: Some(self.created_micros),
        }
    }
}

fn key_message(column: &KeySchema) -> proto::PrimaryKeySchema {
    let key_type = match column.key_type {
        KeyType::Integer => proto::PrimaryKeyType::Integer,
        KeyType::String => proto::PrimaryKeyType::String,
        KeyType::Binary => proto::PrimaryKeyType::Binary,
    };
    let numbered = column.auto_increment;
    proto::PrimaryKeySchema {
        name: Some(column.name.clone()),
        r#type: Some(key_type.into()),
        option: numbered.then_some(proto::PrimaryKeyOption::AutoIncrement.into()),
    }
}

fn column_type(column: ColumnType) -> proto::DefinedColumnType {
    match column {
        ColumnType::Integer => proto::DefinedColumnType::DctInteger,
        ColumnType::Double => proto::DefinedColumnType::DctDouble,
        ColumnType::Boolean => proto::DefinedColumnType::DctBoolean,
        ColumnType::String => proto::DefinedColumnType::DctString,
        ColumnType::Binary => proto::DefinedColumnType::DctBlob,
    }
}

#[cfg(test)]
mod tests;
