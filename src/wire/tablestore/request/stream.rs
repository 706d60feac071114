//! Streams: what requests ask of them, and the records that they are answered with.
//!
//! Owns: the four messages of streams, a table's stream as it is told, and a change as a record. Promises:
//! what leaves this module is within its range; a record is written as it is read, each value copied once. Must not:
//! know which streams there are, or what a shard's name or an iterator means.

use super::super::failure::Failure;
use super::super::plainbuffer::{RowBuffer, encode_change};
use super::super::proto;
use super::table::{missing, table_name};
use tideline_model::{ChangeKind, ChangeRef, ChangeSink, Definition, RowRef, RowSink};

/// DescribeStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeStream {
    /// The stream.
    pub stream: String,
    /// The first shard to name, if not the first one.
    pub start: Option<String>,
    /// How many to name at most.
    pub limit: Option<usize>,
}

/// GetShardIterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetShardIterator {
    /// The stream.
    pub stream: String,
    /// The shard.
    pub shard: String,
    /// Only changes from this time on, µs since 1970.
    pub since_us: Option<u64>,
}

/// GetStreamRecord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetStreamRecord {
    /// Where to read on.
    pub iterator: String,
    /// How many records at most.
    pub limit: Option<usize>,
    /// The table that the caller takes the stream for.
    pub table: Option<String>,
}

/// A page of shards.
#[derive(Clone, Debug)]
pub struct StreamReply {
    /// The table.
    pub table: Box<Definition>,
    /// Names of the shards, of their parents, and of their parents' siblings.
    pub shards: Vec<[Option<String>; 3]>,
    /// The shard that follows.
    pub next: Option<String>,
}

/// A page of records.
#[derive(Clone, Debug)]
pub struct RecordsReply {
    /// The records.
    pub records: Records,
    /// Where to read on; `None` = the shard has ended, and its children go on.
    pub next: Option<String>,
    /// Whether there may be more now.
    pub is_more: bool,
    /// Capacity units of reading.
    pub read: u32,
}

/// Records of an answer, encoded as they are found.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<proto::StreamRecord>);

impl ChangeSink for Records {
    fn push(&mut self, change: ChangeRef<'_>) {
        let action = match change.kind {
            ChangeKind::Put => proto::ActionType::PutRow,
            ChangeKind::Update => proto::ActionType::UpdateRow,
            ChangeKind::Delete => proto::ActionType::DeleteRow,
        };
        let ChangeRef { columns, key, .. } = change;
        let original = change.original.map(|cells| {
            let mut row = RowBuffer::default();
            row.push(RowRef {
                columns,
                key,
                cells,
            });
            row.into_bytes()
        });
        self.0.push(proto::StreamRecord {
            action_type: action.into(),
            record: encode_change(&change),
            origin_record: original,
        });
    }
}

impl DescribeStream {
    pub(in super::super) fn from_message(
        message: proto::DescribeStreamRequest,
    ) -> Result<Self, Failure> {
        Ok(DescribeStream {
            stream: message.stream_id.ok_or_else(missing)?,
            start: message.inclusive_start_shard_id,
            limit: limit(message.shard_limit)?,
        })
    }
}

impl GetShardIterator {
    pub(in super::super) fn from_message(
        message: proto::GetShardIteratorRequest,
    ) -> Result<Self, Failure> {
        // No answer ever had one.
        if message.token.is_some_and(|token| !token.is_empty()) {
            return Err(Failure::invalid("Invalid token."));
        }
        let since_us = message.timestamp.map(u64::try_from).transpose();
        Ok(GetShardIterator {
            stream: message.stream_id.ok_or_else(missing)?,
            shard: message.shard_id.ok_or_else(missing)?,
            since_us: since_us.map_err(|_| Failure::invalid("Invalid timestamp."))?,
        })
    }
}

impl GetStreamRecord {
    pub(in super::super) fn from_message(
        message: proto::GetStreamRecordRequest,
    ) -> Result<Self, Failure> {
        let table = message.table_name;
        Ok(GetStreamRecord {
            iterator: message.shard_iterator.ok_or_else(missing)?,
            limit: limit(message.limit)?,
            table: table.map(|name| table_name(Some(name))).transpose()?,
        })
    }
}

fn limit(limit: Option<i32>) -> Result<Option<usize>, Failure> {
    let limit = limit.map(|limit| usize::try_from(limit).ok().filter(|limit| *limit > 0));
    match limit {
        Some(None) => Err(Failure::invalid("The limit must be greater than 0.")),
        limit => Ok(limit.flatten()),
    }
}

/// A table's stream, as it is told of the table.
pub(in super::super) fn details(table: &Definition) -> proto::StreamDetails {
    let Some(stream) = &table.stream else {
        return proto::StreamDetails::default();
    };
    proto::StreamDetails {
        enable_stream: true,
        stream_id: Some(stream.id.clone()),
        expiration_time: Some(hours(stream.hours)),
        last_enable_time: Some(stream.enabled_us.cast_signed()),
        columns_to_get: stream.original_columns.clone(),
    }
}

/// The streams of these tables.
pub(in super::super) fn listed(tables: Vec<Definition>) -> proto::ListStreamResponse {
    let stream = |table: Definition| {
        let stream = table.stream?;
        Some(proto::Stream {
            stream_id: stream.id,
            table_name: table.name,
            creation_time: stream.enabled_us.cast_signed(),
        })
    };
    proto::ListStreamResponse {
        streams: tables.into_iter().filter_map(stream).collect(),
    }
}

/// A stream and its shards.
pub(in super::super) fn described(reply: StreamReply) -> proto::DescribeStreamResponse {
    let stream = details(&reply.table);
    let shards = reply.shards.into_iter();
    proto::DescribeStreamResponse {
        stream_id: stream.stream_id.unwrap_or_default(),
        expiration_time: stream.expiration_time.unwrap_or_default(),
        table_name: reply.table.name,
        creation_time: stream.last_enable_time.unwrap_or_default(),
        // It is there at once, or not at all.
        stream_status: proto::StreamStatus::StreamActive.into(),
        shards: shards
            .map(|[id, parent_id, parent_sibling_id]| proto::StreamShard {
                shard_id: id.unwrap_or_default(),
                parent_id,
                parent_sibling_id,
            })
            .collect(),
        next_shard_id: reply.next,
    }
}

/// Records and where to read on.
pub(in super::super) fn records(
    reply: RecordsReply,
    consumed: proto::ConsumedCapacity,
) -> proto::GetStreamRecordResponse {
    proto::GetStreamRecordResponse {
        stream_records: reply.records.0,
        next_shard_iterator: reply.next,
        consumed: Some(consumed),
        may_more_record: Some(reply.is_more),
    }
}

fn hours(hours: u32) -> i32 {
    i32::try_from(hours).unwrap_or(i32::MAX)
}
