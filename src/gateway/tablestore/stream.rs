//! ListStream, DescribeStream, GetShardIterator and GetStreamRecord.
//!
//! Owns: the steps of one call, from names to shards and iterators. Promises: what is read keeps nothing here: the
//! iterator that is answered is all that a reader needs. Must not: know how a change is found or encoded.

use super::rights::{Caller, shows};
use tideline_model::Error;
use tideline_table::{CHANGES_MAX, Shard, ShardPage, Tables};
use tideline_wire::tablestore::{
    DescribeStream, GetShardIterator, GetStreamRecord, Records, RecordsReply, Reply, StreamReply,
};

pub(super) async fn list(
    tables: &Tables,
    caller: &Caller,
    table: Option<&str>,
) -> Result<Reply, Error> {
    let streaming = tables.streams(table).await?;
    let streaming = streaming.iter().filter(|table| shows(caller, &table.name));
    let streaming = streaming.map(|table| table.definition.clone());
    Ok(Reply::Streams(streaming.collect()))
}

pub(super) async fn describe(tables: &Tables, ask: DescribeStream) -> Result<Reply, Error> {
    let table = tables.stream(&ask.stream).await?;
    let shards = tables.shards(&table);
    let names = |shard: &Shard| {
        let Shard {
            id,
            parent,
            parent_sibling,
        } = shard;
        [Some(id), parent.as_ref(), parent_sibling.as_ref()].map(|id| id.map(ToString::to_string))
    };
    let is_first = |shard: &Shard| {
        ask.start
            .as_ref()
            .is_none_or(|id| shard.id.to_string() == *id)
    };
    let first = shards
        .iter()
        .position(is_first)
        .ok_or(Error::ShardNotFound)?;
    let mut rest = shards[first..].iter();
    let page = rest.by_ref().take(ask.limit.unwrap_or(usize::MAX));
    Ok(Reply::Stream(StreamReply {
        table: Box::new(table.definition.clone()),
        shards: page.map(names).collect(),
        next: rest.next().map(|shard| shard.id.to_string()),
    }))
}

pub(super) async fn iterator(tables: &Tables, ask: &GetShardIterator) -> Result<Reply, Error> {
    let GetShardIterator {
        stream,
        shard,
        since_us,
    } = ask;
    let iterator = tables.shard_iterator(stream, shard, *since_us).await?;
    Ok(Reply::Iterator(tables.iterator_text(&iterator)))
}

pub(super) async fn records(tables: &Tables, ask: GetStreamRecord) -> Result<Reply, Error> {
    let iterator = tables.read_iterator(&ask.iterator)?;
    if let Some(name) = ask.table {
        // Only a check: the iterator says whose changes are read. Whether there is a table of another name is not told.
        let own = tables.stream(&iterator.stream).await;
        if own.is_ok_and(|own| own.name != name) {
            return Err(Error::StreamTrimmed);
        }
    }
    let limit = ask.limit.unwrap_or(CHANGES_MAX);
    let page: ShardPage<Records> = tables.shard_changes(iterator, limit).await?;
    Ok(Reply::Records(RecordsReply {
        records: page.changes,
        next: page.next.map(|next| tables.iterator_text(&next)),
        is_more: page.is_more,
        read: page.read,
    }))
}
