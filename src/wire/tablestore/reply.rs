//! Replies, and their bytes.
//!
//! Owns: what each operation answers. Promises: every field that an SDK cannot do without is there: consumed capacity,
//! all options, the time of the last change of throughput, and whether there is a stream. Must not: sign (`signature`)
//! or say errors of a whole request (`Failure::body`).

use bytes::Bytes;
use prost::Message;

use super::failure::Failure;
use super::proto;
use super::request::index::index_message;
use super::request::stream;
use super::request::stream::{RecordsReply, StreamReply};
use super::request::table::key_message;
use super::search;
use super::search::{DescribedIndex, FoundPage, NamedIndex, ScannedPage};
use super::series::SeriesReply;
use super::sql::SqlReply;
use super::units::{consumed, small, unit};
use tideline_model::{ColumnType, Consumed, Definition, TableOptions, TransactionId};

/// The answer to an accepted request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It is done: the operations on tables and indexes that answer nothing, CommitTransaction.
    Done,
    /// ListTable.
    Tables(Vec<String>),
    /// DescribeTable.
    Table(Box<Definition>),
    /// UpdateTable: as the table is now.
    Updated(Box<Definition>),
    /// GetRow: the row, if there is one.
    Read(RowReply),
    /// PutRow, UpdateRow, DeleteRow: what was asked to be returned.
    Written(RowReply),
    /// BatchGetRow, BatchWriteRow.
    Batch(Vec<TableReply>),
    /// GetRange.
    Range(RangeReply),
    /// ListStream: the tables that have streams.
    Streams(Vec<Definition>),
    /// DescribeStream.
    Stream(StreamReply),
    /// GetShardIterator.
    Iterator(String),
    /// GetStreamRecord.
    Records(RecordsReply),
    /// StartLocalTransaction.
    Started(TransactionId),
    /// AbortTransaction, and which.
    Aborted(TransactionId),
    /// ListSearchIndex.
    SearchIndexes(Vec<NamedIndex>),
    /// DescribeSearchIndex.
    SearchIndex(Box<DescribedIndex>),
    /// Search.
    Found(FoundPage),
    /// ComputeSplits: the session of the scan.
    Splits(Vec<u8>),
    /// ParallelScan.
    Scanned(ScannedPage),
    /// SQLQuery.
    Sql(SqlReply),
    /// An operation on time series.
    Series(SeriesReply),
    /// ExportTable.
    Exported(proto::ExportTableResponse),
}

/// What is answered about one row.
#[derive(Clone, Debug, Default)]
pub struct RowReply {
    /// What it used.
    pub consumed: Consumed,
    /// A buffer with the row.
    pub row: Option<Bytes>,
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
    pub consumed: Consumed,
    /// A buffer with the rows, in the order of the request.
    pub rows: Bytes,
    /// A buffer with the key to go on from; `None` = that was all.
    pub next: Option<Bytes>,
}

impl Reply {
    /// The body.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let bytes = match self {
            Reply::Done => Vec::new(),
            Reply::Tables(names) => proto::ListTableResponse { table_names: names }.encode_to_vec(),
            Reply::Table(table) => description(&table).encode_to_vec(),
            Reply::Updated(table) => proto::UpdateTableResponse {
                reserved_throughput_details: throughput(&table),
                table_options: options_message(&table.options),
                stream_details: Some(stream::details(&table)),
            }
            .encode_to_vec(),
            Reply::Read(reply) => proto::GetRowResponse {
                consumed: consumed(reply.consumed),
                row: reply.row.unwrap_or_default(),
            }
            .encode_to_vec(),
            // The three kinds of write are answered alike.
            Reply::Written(reply) => proto::PutRowResponse {
                consumed: consumed(reply.consumed),
                row: reply.row,
            }
            .encode_to_vec(),
            // As are the two kinds of batch.
            Reply::Batch(tables) => proto::BatchGetRowResponse {
                tables: tables.into_iter().map(TableReply::message).collect(),
            }
            .encode_to_vec(),
            Reply::Range(range) => proto::GetRangeResponse {
                consumed: consumed(range.consumed),
                rows: range.rows,
                next_start_primary_key: range.next,
            }
            .encode_to_vec(),
            Reply::Streams(tables) => stream::listed(tables).encode_to_vec(),
            Reply::Stream(reply) => stream::described(reply).encode_to_vec(),
            Reply::Iterator(iterator) => proto::GetShardIteratorResponse {
                shard_iterator: iterator,
                next_token: None,
            }
            .encode_to_vec(),
            Reply::Records(reply) => {
                let (read, write) = (reply.read, 0);
                stream::records(reply, consumed(Consumed { read, write })).encode_to_vec()
            }
            Reply::SearchIndexes(all) => search::listed(all).encode_to_vec(),
            Reply::SearchIndex(index) => search::described(&index).encode_to_vec(),
            Reply::Found(page) => search::found(page).encode_to_vec(),
            Reply::Splits(session) => search::splits(session).encode_to_vec(),
            Reply::Scanned(page) => search::scanned(page).encode_to_vec(),
            Reply::Sql(reply) => reply.message().encode_to_vec(),
            Reply::Series(reply) => reply.encode(),
            Reply::Exported(page) => page.encode_to_vec(),
            Reply::Aborted(id) => proto::AbortTransactionResponse {
                transaction_id: id.to_string(),
            }
            .encode_to_vec(),
            Reply::Started(id) => proto::StartLocalTransactionResponse {
                transaction_id: id.to_string(),
            }
            .encode_to_vec(),
        };
        bytes.into()
    }
}

impl TableReply {
    fn message(self) -> proto::TableInBatchResponse {
        let rows = self.rows.into_iter().map(|row| match row {
            Ok(reply) => proto::RowInBatchResponse {
                is_ok: true,
                error: None,
                consumed: Some(consumed(reply.consumed)),
                row: reply.row,
            },
            Err(failure) => proto::RowInBatchResponse {
                is_ok: false,
                error: Some(failure.message()),
                consumed: None,
                row: None,
            },
        });
        proto::TableInBatchResponse {
            table_name: self.table,
            rows: rows.collect(),
        }
    }
}

fn throughput(table: &Definition) -> proto::ReservedThroughputDetails {
    let seconds = |micros: u64| (micros / 1_000_000).cast_signed();
    proto::ReservedThroughputDetails {
        capacity_unit: unit(table.reserved.read, table.reserved.write),
        last_increase_time: seconds(table.increased_us),
        last_decrease_time: (table.decreased_us > 0).then(|| seconds(table.decreased_us)),
    }
}

fn options_message(options: &TableOptions) -> proto::TableOptions {
    proto::TableOptions {
        time_to_live: Some(small(options.time_to_live_s)),
        max_versions: Some(small(options.max_versions)),
        deviation_cell_version_in_sec: Some(options.max_version_offset_s),
        allow_update: Some(options.allow_update),
        update_full_row: Some(options.update_full_row),
    }
}

fn description(table: &Definition) -> proto::DescribeTableResponse {
    let columns = table.defined_columns.iter();
    let table_meta = proto::TableMeta {
        table_name: Some(table.name.clone()),
        primary_key: table.primary_key.iter().map(key_message).collect(),
        defined_column: columns
            .map(|column| proto::DefinedColumnSchema {
                name: Some(column.name.clone()),
                r#type: Some(column_type(column.kind).into()),
            })
            .collect(),
    };
    proto::DescribeTableResponse {
        table_meta,
        reserved_throughput_details: throughput(table),
        table_options: options_message(&table.options),
        // A table is there at once, or not at all.
        table_status: proto::TableStatus::Active.into(),
        stream_details: Some(stream::details(table)),
        // One split: this server.
        shard_splits: Vec::new(),
        index_metas: table.indexes.iter().map(index_message).collect(),
        creation_time: Some(table.created_us.cast_signed()),
    }
}

fn column_type(kind: ColumnType) -> proto::DefinedColumnType {
    match kind {
        ColumnType::Integer => proto::DefinedColumnType::DctInteger,
        ColumnType::Double => proto::DefinedColumnType::DctDouble,
        ColumnType::Boolean => proto::DefinedColumnType::DctBoolean,
        ColumnType::String => proto::DefinedColumnType::DctString,
        ColumnType::Binary => proto::DefinedColumnType::DctBlob,
    }
}
