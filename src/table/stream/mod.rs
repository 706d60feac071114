//! Streams: the changes of a table's rows, read from the commit logs in which they are.
//!
//! Owns: a stream's life (enabled, respecified, disabled), its shards, one for each partition, also of those that have
//! ended, and reading from a place in one. Promises: there is no second copy of a change; a reader that got an iterator
//! and reads on from the ones that it is answered sees every change of a key once and in order, as long as the log
//! keeps them, and gets an error when it does not. Must not: know a wire.

mod cursors;
mod hold;
mod index;
mod lag;
mod noted;
mod places;
mod position_text;
mod read;
mod shard_iterator;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

pub(super) use cursors::CURSORS;
pub use cursors::{Cursor, DEAD, DEAD_LETTERS, FollowError, Followed, WEBHOOK};
pub(super) use hold::within;
pub(super) use index::Index;
pub(super) use noted::Noted;
pub use places::{Place, Places, Scope, in_turn};
use read::read_changes;
pub use read::{CHANGES_MAX, PageBounds, TablePage};
pub use shard_iterator::{ShardId, ShardIterator};

use super::schema::Table;
use super::tables::Tables;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{ChangeSink, Error, Stream, units};
use tideline_store::partition::{Map, ReadError, Share, Tail};

/// A part of a stream whose changes are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its name.
    pub id: ShardId,
    /// The shard whose keys it took over: a reader finishes that one first.
    pub parent: Option<ShardId>,
    /// The other one, where two became one.
    pub parent_sibling: Option<ShardId>,
}

/// What a read from a shard gives.
#[derive(Clone, Debug)]
pub struct ShardPage<Changes> {
    /// The changes, in order.
    pub changes: Changes,
    /// Where to read on; the same place if nothing came. `None` = the shard has ended, and this was all of it.
    pub next: Option<ShardIterator>,
    /// Whether there may be more now.
    pub is_more: bool,
    /// Capacity units of reading.
    pub read: u32,
}

/// An iterator stays where it is while nothing comes, so that a reader may compare. But other tables' changes carry it
/// along after so many batches, or each look would begin further back, in the end where the log is gone.
const STAYS_BATCHES: u64 = 1_024;

impl Tables {
    /// The tables that have streams, all or this one if it has.
    pub async fn streams(&self, table: Option<&str>) -> Result<Vec<Arc<Table>>, Error> {
        if let Some(name) = table {
            let table = self.describe(name).await?;
            let has_stream = table.stream.is_some();
            return Ok(has_stream.then_some(table).into_iter().collect());
        }
        let known = self.snapshot().await?;
        let streaming = known.tables().filter(|table| table.stream.is_some());
        Ok(streaming.cloned().collect())
    }

    /// The table that has the stream of this name.
    pub async fn stream(&self, id: &str) -> Result<Arc<Table>, Error> {
        let known = self.snapshot().await?;
        let is_it = |table: &&Arc<Table>| stream_of(table).is_some_and(|stream| stream.id == id);
        known
            .tables()
            .find(is_it)
            .cloned()
            .ok_or(Error::StreamNotFound)
    }

    /// All logs, also those of partitions that have ended as long as they are kept; parents before children.
    #[must_use]
    pub fn logs(&self) -> Vec<(PartitionId, Tail)> {
        let (partitions, map) = (self.partitions(), self.partitions().map());
        let log = |share: &Share| Some((share.id, partitions.log(share.id)?));
        map.shares().filter_map(log).collect()
    }

    /// Which partitions there are and were, now.
    #[must_use]
    pub fn map(&self) -> Arc<Map> {
        self.partitions().map()
    }

    /// Changes with the partitions: a reader that waits for news of all logs must then wait for those of the new ones.
    #[must_use]
    pub fn watch_partitions(&self) -> watch::Receiver<Arc<Map>> {
        self.partitions().watch()
    }

    /// The shards of a table's stream, parents before children. A partition is one for its life; one that has ended as
    /// long as its log is kept.
    #[must_use]
    pub fn shards(&self, table: &Table) -> Vec<Shard> {
        let (history, map) = (self.partitions().history(), self.partitions().map());
        let (mut listed, mut partitions) = (Vec::new(), BTreeSet::new());
        for share in map.shares() {
            let known = |id: &&PartitionId| partitions.contains(*id);
            let parents: Vec<ShardId> = share
                .parents
                .iter()
                .filter(known)
                .map(|parent| ShardId {
                    history,
                    partition: *parent,
                })
                .collect();
            let id = ShardId {
                history,
                partition: share.id,
            };
            // One that never had a log leads from those behind it to those before it.
            let is_there = match share.is_empty() {
                true => !parents.is_empty(),
                false => self.begin(table, id).is_some(),
            };
            if is_there {
                partitions.insert(share.id);
                listed.push(Shard {
                    id,
                    parent: parents.first().copied(),
                    parent_sibling: parents.get(1).copied(),
                });
            }
        }
        listed
    }

    /// Where a reader of a shard begins: at the first change that is kept, or at the first one at or after a time, µs
    /// since 1970.
    pub async fn shard_iterator(
        &self,
        stream: &str,
        shard: &str,
        since_us: Option<u64>,
    ) -> Result<ShardIterator, Error> {
        let table = self.stream(stream).await?;
        let shard = ShardId::parse(shard).ok_or(Error::ShardNotFound)?;
        let begin = self.begin(&table, shard).ok_or(Error::ShardNotFound)?;
        let tail = self.partitions().log(shard.partition);
        let since = match (since_us, tail) {
            (Some(time_us), Some(tail)) => {
                let seek = move || tail.since(time_us);
                self.partitions().read_logs(seek).await?.max(begin)
            }
            _ => begin,
        };
        Ok(ShardIterator {
            stream: stream.to_owned(),
            shard,
            place: Place::before(since),
        })
    }

    /// Reads changes from an iterator on, in order.
    pub async fn shard_changes<Changes: ChangeSink>(
        &self,
        iterator: ShardIterator,
        count_max: usize,
    ) -> Result<ShardPage<Changes>, Error> {
        let ShardIterator { shard, place, .. } = iterator;
        let of = (iterator.stream.as_str(), shard);
        let bounds = PageBounds::largest(count_max);
        let page: TablePage<Changes> = self.changes(of, place, bounds).await?;
        let came = page.count > 0;
        let stays =
            !came && !page.is_more && page.next.position.0 < place.position.0 + STAYS_BATCHES;
        let map = self.partitions().map();
        let ends = map.share(shard.partition).and_then(|share| share.ends);
        let is_end = !page.is_more && ends.is_some_and(|ends| page.next.position > ends);
        let next = || ShardIterator {
            place: if stays { place } else { page.next },
            ..iterator
        };
        Ok(ShardPage {
            changes: page.changes,
            next: (!is_end).then(next),
            is_more: page.is_more,
            read: units(page.bytes),
        })
    }

    /// Reads changes of a stream's shard from a place on, in order.
    pub async fn changes<Changes: ChangeSink>(
        &self,
        (stream, shard): (&str, ShardId),
        place: Place,
        bounds: PageBounds,
    ) -> Result<TablePage<Changes>, Error> {
        let found = self.stream(stream).await;
        // The place was given out, so its stream was there.
        let table = found.map_err(|error| match error {
            Error::StreamNotFound => Error::StreamTrimmed,
            other => other,
        })?;
        let begin = self.begin(&table, shard).ok_or(Error::StreamTrimmed)?;
        if place.position < begin {
            return Err(Error::StreamTrimmed);
        }
        let Some(tail) = self.partitions().log(shard.partition) else {
            return Ok(TablePage::end(place));
        };
        // No place further than that was ever given out.
        if place.position > tail.position().next() {
            return Err(Error::InvalidIterator);
        }
        let index = self.stream_index(shard.partition);
        let read = move || read_changes::<Changes>(&tail, &index, &table, place, bounds);
        let page = self.partitions().read_logs(read).await;
        page.map_err(|error| self.read_error(shard.partition, place, error))
    }

    /// The first position of a stream's shard that is kept; `None` = it is not a shard of the stream, or not any more.
    fn begin(&self, table: &Table, shard: ShardId) -> Option<Position> {
        let ShardId { history, partition } = shard;
        let map = self.partitions().map();
        let is_ours = history == self.partitions().history();
        let share = map.share(partition).filter(|_| is_ours)?;
        let after = stream_of(table)?.behind(partition)?;
        if share.is_empty() {
            return Some(share.begins);
        }
        if share.ends.is_some_and(|ends| ends <= after) {
            return None;
        }
        Some(after.next().max(self.partitions().log(partition)?.first()))
    }

    /// Whether a read failed because what it asked for has gone meanwhile.
    fn read_error(&self, partition: PartitionId, place: Place, error: ReadError) -> Error {
        let first = self.partitions().log(partition).map(|log| log.first());
        match first.is_none_or(|first| place.position < first) {
            true => Error::StreamTrimmed,
            false => error.into(),
        }
    }

    /// The ends of the logs: a stream that is enabled now begins behind them. If one `is_asked_for`, the logs keep all
    /// they have until the next look at what streams need.
    pub(super) fn tails(&self, is_asked_for: bool) -> Vec<u64> {
        if is_asked_for {
            self.hold_for_now();
        }
        let partitions = self.partitions();
        let tail = |partition| (partition, partitions.tail(partition).position());
        Stream::all_behind(partitions.ids().map(tail))
    }
}

fn stream_of(table: &Table) -> Option<&Stream> {
    table.stream.as_ref()
}
