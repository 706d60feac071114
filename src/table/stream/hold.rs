//! How much of the logs is kept for the readers of streams, and for those of named cursors.
//!
//! Owns: the streams' hold on each log. Promises: a change is kept for as long as its stream says, unless that takes
//! more of the disk than it may: then the oldest go first, which is logged before and when it happens; no stream is
//! enabled while it is decided what streams need; without streams and cursors nothing is held, so that the log's files
//! are used again. Must not: remove anything; the log does when nobody holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use super::super::schema::Table;
use super::super::tables::Tables;
use super::lag::behind;
use super::stream_of;
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics;
use tideline_model::Error;
use tideline_store::partition::{Each, Holder, OpenError, Partitions, ReadError, Tail};

/// How long after one look at the logs the next one comes.
const EVERY: Duration = Duration::from_secs(10);
/// At this share of what they may take, streams are warned of.
const NEAR_PERCENT: u64 = 80;

const HOUR_US: u64 = 3_600_000_000;

/// What streams hold of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub partition: PartitionId,
    /// Everything above is kept; the tail, if they need nothing.
    pub above: Position,
    /// The bytes of that.
    pub bytes: u64,
    /// Changes that were promised are above a lower position.
    pub is_cut: bool,
}

impl Tables {
    /// Holds the logs for the streams and, for so many hours, the named cursors, again and again, and notes what is
    /// committed in the streams' indexes while there are any. Together they hold about `log_bytes_max` at most. It
    /// never ends by itself. Cancel-safe.
    pub async fn hold_for_streams(self, log_bytes_max: u64, cursor_hours: u32) {
        let told = Each::new(self.partitions(), |partitions, id| Told {
            figures: partitions.metrics().streams(id.0),
            was_near: AtomicBool::new(false),
        });
        let (mut noting, mut noted) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            let share = log_bytes_max / self.partitions().ids().count().max(1) as u64;
            match self.hold_logs(share, cursor_hours).await {
                Ok(held) => {
                    let bytes = held.iter().map(|held| held.bytes).sum();
                    for held in held {
                        held.tell(share, &told.of(held.partition));
                    }
                    if let Err(error) = self
                        .let_go_of_ended(bytes, log_bytes_max, cursor_hours)
                        .await
                    {
                        tracing::warn!(?error, "logs of ended partitions can't be let go of");
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        ?error,
                        "what streams need of the logs is not known; all is kept that was"
                    );
                }
            }
            self.tell_of_cursors().await;
            if self.streams(None).await.unwrap_or_default().is_empty() {
                noting.clear();
                noted.clear();
            } else {
                for partition in self.partitions().ids().filter(|id| noted.insert(*id)) {
                    let index = self.stream_index(partition);
                    let tail = self.partitions().tail(partition);
                    noting.push(async move { index.follow(tail).await });
                }
            }
            // Those whose partitions have closed have ended.
            let noting = async {
                while noting.next().await.is_some() {}
                pending::<()>().await;
            };
            let _ = timeout(EVERY, noting).await;
        }
    }

    /// Has the logs keep all they have until the next look at what streams need: for streams and cursors that begin,
    /// and for exports, which have no place that the look could find.
    pub(crate) fn hold_for_now(&self) {
        for partition in self.partitions().ids() {
            let tail = self.partitions().tail(partition);
            tail.hold(Holder::Streams, Some(Position::ZERO));
        }
    }

    /// Holds the logs for what the streams and the cursors need now, each within its share of the disk.
    pub(crate) async fn hold_logs(
        &self,
        share: u64,
        cursor_hours: u32,
    ) -> Result<Vec<Held>, Error> {
        let _streams = self.begin_streams().await;
        let (needs, cursors) = (self.needs().await?, self.all_cursors().await?);
        let (cursors_since_us, readers) = (self.since_us(cursor_hours), self.places_of(&cursors));
        let mut all = Vec::new();
        for partition in self.partitions().ids() {
            let tail = self.partitions().tail(partition);
            let needs = needs.clone();
            self.stream_index(partition).forget_below(tail.first());
            let behind = behind(&readers, partition);
            let cursors = behind.map(|after| (cursors_since_us, after));
            let hold = move || hold((&tail, partition), &needs, cursors, share);
            all.push(self.partitions().read(partition, move |_| hold()).await?);
        }
        Ok(all)
    }

    /// Gives up the logs of ended partitions that no stream and no cursor needs any more. If all logs together take
    /// more than they may, needed ones go too, all that ended before some log: what is kept has no hole. Then forgets
    /// the partitions that nobody needs. `live_bytes`: what live partitions hold of their logs.
    async fn let_go_of_ended(
        &self,
        live_bytes: u64,
        bytes_max: u64,
        cursor_hours: u32,
    ) -> Result<(), Error> {
        let (partitions, cursors) = (self.partitions().clone(), self.all_cursors().await?);
        let kept = partitions.map().kept();
        if !kept.is_empty() {
            let (needs, searched) = (Arc::new(self.needs().await?), self.search_reads().await?);
            let (since_us, readers) = (self.since_us(cursor_hours), self.places_of(&cursors));
            let (mut taken, mut is_full, mut given_up) = (live_bytes, false, Vec::new());
            for id in kept {
                let Some(log) = partitions.ended_log(id) else {
                    continue;
                };
                let bytes: u64 = log.pieces().iter().map(|(_, bytes)| bytes).sum();
                let (of, ends) = (Arc::clone(&needs), log.position());
                let is_searched = searched(id);
                let is_unread = readers
                    .iter()
                    .any(|places| places.get(&id).is_some_and(|at| at.position <= ends));
                let is_needed = move || {
                    let of_cursors = is_unread && log.since(since_us)? <= ends;
                    Ok(is_searched || of_cursors || is_needed(&log, id, &of)?)
                };
                let is_needed = partitions.read_logs(is_needed).await?;
                is_full |= is_needed && taken + bytes > bytes_max;
                if is_needed && !is_full {
                    taken += bytes;
                    continue;
                }
                if is_needed {
                    tracing::warn!(
                        partition = %id, bytes, setting = "stream_log_bytes_max",
                        "the log of an ended partition goes before its time: streams hold more than they may"
                    );
                }
                given_up.push(id);
            }
            self.give_up(move |partitions| partitions.let_go(&given_up))
                .await?;
        }
        let searched = self.search_reads().await?;
        let is_named = |id| {
            let of_cursors = cursors
                .iter()
                .any(|cursor| cursor.places.named(id).is_some());
            of_cursors || searched(id)
        };
        let forgotten = partitions
            .map()
            .forgettable(partitions.origin().roots, is_named);
        self.give_up(move |partitions| partitions.forget(&forgotten))
            .await
    }

    async fn give_up(
        &self,
        change: impl FnOnce(&Partitions) -> Result<(), OpenError> + Send + 'static,
    ) -> Result<(), Error> {
        let partitions = self.partitions().clone();
        let change = move || change(&partitions).map_err(|error| ReadError::new(error.to_string()));
        Ok(self.partitions().read_logs(change).await?)
    }

    /// From which time on changes are needed, and for which tables.
    async fn needs(&self) -> Result<Needs, Error> {
        let mut by_hours: BTreeMap<u32, Vec<Arc<Table>>> = BTreeMap::new();
        for table in self.streams(None).await? {
            let hours = stream_of(&table).map(|stream| stream.hours);
            by_hours
                .entry(hours.unwrap_or_default())
                .or_default()
                .push(table);
        }
        let needs = by_hours.into_iter();
        let since = |(hours, of)| (self.since_us(hours), of);
        Ok(needs.map(since).collect())
    }

    fn since_us(&self, hours: u32) -> u64 {
        let now_us = self.now_ms().cast_unsigned() * 1_000;
        now_us.saturating_sub(u64::from(hours) * HOUR_US)
    }
}

/// Times, and the tables whose changes are needed from then on.
type Needs = Vec<(u64, Vec<Arc<Table>>)>;

/// Holds one log. May block on the disk.
fn hold(
    (tail, partition): (&Tail, PartitionId),
    needs: &Needs,
    cursors: Option<(u64, Position)>,
    share: u64,
) -> Result<Held, ReadError> {
    let of_streams = needs.iter().filter_map(|(since_us, tables)| {
        let streams = tables.iter().filter_map(|table| stream_of(table));
        let after = streams
            .filter_map(|stream| stream.behind(partition))
            .min()?;
        Some((*since_us, after))
    });
    let mut wanted: Option<Position> = None;
    for (since_us, after) in of_streams.chain(cursors) {
        let above = after.max(Position(tail.since(since_us)?.0 - 1));
        wanted = Some(wanted.map_or(above, |lowest| lowest.min(above)));
    }
    let pieces = tail.pieces();
    let lowest = within(&pieces, share);
    let above = wanted.map(|wanted| wanted.max(lowest));
    tail.hold(Holder::Streams, above);
    Ok(Held {
        partition,
        above: above.unwrap_or_else(|| tail.position()),
        bytes: above.map_or(0, |above| bytes_above(&pieces, above)),
        is_cut: wanted.is_some_and(|wanted| wanted < lowest),
    })
}

/// Whether a stream was promised something of a log that has ended. May block on the disk.
fn is_needed(log: &Tail, partition: PartitionId, needs: &Needs) -> Result<bool, ReadError> {
    let ends = log.position();
    for (since_us, tables) in needs {
        let mut streams = tables.iter().filter_map(|table| stream_of(table));
        let has_changes = streams.any(|one| one.behind(partition).is_some_and(|at| at < ends));
        if has_changes && log.since(*since_us)? <= ends {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lowest position above which the pieces come to no more than so many bytes. The newest piece stays.
pub(crate) fn within(pieces: &[(Position, u64)], bytes_max: u64) -> Position {
    let mut bytes = 0;
    let mut lowest = Position::ZERO;
    for (at, (first, own)) in pieces.iter().rev().enumerate() {
        bytes += own;
        if at > 0 && bytes > bytes_max {
            return lowest;
        }
        lowest = Position(first.0 - 1);
    }
    Position::ZERO
}

/// The bytes of the pieces that hold something above a position.
fn bytes_above(pieces: &[(Position, u64)], above: Position) -> u64 {
    let end_before = |at: usize| {
        pieces
            .get(at + 1)
            .is_some_and(|(next, _)| *next <= above.next())
    };
    let held = (0..pieces.len()).filter(|at| !end_before(*at));
    held.map(|at| pieces[at].1).sum()
}

/// What operators are shown of a partition.
struct Told {
    figures: metrics::Streams,
    was_near: AtomicBool,
}

impl Held {
    /// Tells operators, in the log only when something changes.
    fn tell(&self, share: u64, Told { figures, was_near }: &Told) {
        let Held {
            partition,
            above,
            bytes,
            is_cut,
        } = *self;
        figures.log_bytes.count(bytes);
        figures.log_fill.set(bytes as f64 / share.max(1) as f64);
        if is_cut {
            figures.cut.increment(1);
        }
        let is_near = is_cut || bytes * 100 >= share * NEAR_PERCENT;
        if !was_near.swap(is_near, Ordering::Relaxed) && is_near {
            tracing::warn!(
                %partition, %above, bytes, share, setting = "stream_log_bytes_max",
                "what streams hold of the log is near its bound: beyond it the oldest changes go before their time"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_held_whole_and_the_newest_always() {
        let pieces: Vec<_> = [(1, 10), (5, 20), (9, 30)]
            .map(|(first, bytes)| (Position(first), bytes))
            .into();
        for (max, lowest) in [(0, 8), (30, 8), (49, 8), (50, 4), (59, 4), (60, 0), (99, 0)] {
            assert_eq!(within(&pieces, max), Position(lowest), "{max}");
        }
        for (above, bytes) in [(0, 60), (3, 60), (4, 50), (7, 50), (8, 30), (99, 30)] {
            assert_eq!(bytes_above(&pieces, Position(above)), bytes, "{above}");
        }
        assert_eq!(
            (within(&[], 0), bytes_above(&[], Position(0))),
            (Position::ZERO, 0)
        );
    }
}
