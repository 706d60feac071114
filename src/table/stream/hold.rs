//! How much of the logs is kept for the readers of streams, and for those of named cursors.
//!
//! Owns: the streams' hold on each log. Promises: a change is kept for as long as its stream says, unless that takes
//! more of the disk than it may: then the oldest go first, which is logged before and when it happens; no stream is
//! enabled while it is decided what streams need. Must not: remove anything; the log does when nobody holds it.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::timeout;

use super::super::tables::Tables;
use super::stream_of;
use crate::ids::{PartitionId, Position};
use crate::metrics::{self, Metrics};
use crate::model::Error;
use crate::partition::{Holder, ReadError, Tail};

/// How long after one look at the logs the next one comes.
const EVERY: Duration = Duration::from_secs(10);
/// At this share of what they may take, streams are warned of.
const NEAR_PERCENT: u64 = 80;

const HOUR_US: u64 = 3_600_000_000;

/// What streams hold of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct Held {
    pub(in crate::table) partition: PartitionId,
    /// Everything above is kept.
    pub(in crate::table) above: Position,
    /// The bytes of that.
    pub(in crate::table) bytes: u64,
    /// Changes that were promised are above a lower position.
    pub(in crate::table) is_cut: bool,
}

impl Tables {
    /// Holds the logs for the streams and cursors, again and again, and notes what is committed in the streams' indexes
    /// while there are any. Together they hold about `log_bytes_max` at most. Cancel-safe.
    pub async fn hold_for_streams(self, log_bytes_max: u64, cursor_hours: u32, metrics: &Metrics) {
        let figures = |partition: PartitionId| metrics.streams(partition.0);
        let figures: Vec<metrics::Streams> = self.partitions().ids().map(figures).collect();
        let share = log_bytes_max / figures.len().max(1) as u64;
        let mut was_near = vec![false; figures.len()];
        let mut noting: Option<BoxFuture<'_, ()>> = None;
        loop {
            match self.hold_logs(share, cursor_hours).await {
                Ok(held) => {
                    for ((held, figures), was_near) in held.iter().zip(&figures).zip(&mut was_near)
                    {
                        held.tell(share, figures, was_near);
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        ?error,
                        "what streams need of the logs is not known; all is kept that was"
                    );
                }
            }
            self.tell_of_cursors(&metrics.follows).await;
            let streams = self.streams(None).await.unwrap_or_default();
            match streams.is_empty() {
                true => noting = None,
                false => drop(noting.get_or_insert_with(|| self.note_commits().boxed())),
            }
            let closed = async {
                match &mut noting {
                    Some(noting) => noting.await,
                    None => pending().await,
                }
            };
            if timeout(EVERY, closed).await.is_ok() {
                return; // all partitions have closed
            }
        }
    }

    /// Notes what is committed from now on in the indexes of the logs.
    async fn note_commits(&self) {
        let noting = self.partitions().ids().map(|partition| {
            let tail = self.partitions().tail(partition);
            let index = self.stream_index(partition);
            async move { index.follow(tail).await }
        });
        join_all(noting).await;
    }

    /// Holds the logs for what the streams need now, and the cursors of so many hours, each within its share of the
    /// disk.
    pub(in crate::table) async fn hold_logs(
        &self,
        share: u64,
        cursor_hours: u32,
    ) -> Result<Vec<Held>, Error> {
        let _streams = self.begin_streams().await;
        let needs = self.needs(cursor_hours).await?;
        let mut all = Vec::new();
        for partition in self.partitions().ids() {
            let tail = self.partitions().tail(partition);
            let needs = needs.clone();
            self.stream_index(partition).forget_below(tail.first());
            let hold = move || hold(&tail, partition, &needs, share);
            all.push(self.partitions().read(partition, move |_| hold()).await?);
        }
        Ok(all)
    }

    /// From which time on changes are needed, and in each partition behind which position at the earliest.
    async fn needs(&self, cursor_hours: u32) -> Result<Vec<(u64, Vec<u64>)>, Error> {
        let mut by_hours: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for table in self.streams(None).await? {
            let Some(stream) = stream_of(&table) else {
                continue;
            };
            let after = by_hours
                .entry(stream.hours)
                .or_insert_with(|| stream.after.clone());
            for (lowest, own) in after.iter_mut().zip(&stream.after) {
                *lowest = (*lowest).min(*own);
            }
        }
        if let Some(after) = self.behind_cursors().await? {
            let own = by_hours
                .entry(cursor_hours)
                .or_insert_with(|| after.clone());
            for (lowest, after) in own.iter_mut().zip(after) {
                *lowest = (*lowest).min(after);
            }
        }
        let now_us = self.now_ms().cast_unsigned() * 1_000;
        let since = |hours: u32| now_us.saturating_sub(u64::from(hours) * HOUR_US);
        Ok(by_hours
            .into_iter()
            .map(|(hours, after)| (since(hours), after))
            .collect())
    }
}

/// Holds one log. May block on the disk.
fn hold(
    tail: &Tail,
    partition: PartitionId,
    needs: &[(u64, Vec<u64>)],
    share: u64,
) -> Result<Held, ReadError> {
    let mut wanted = tail.position();
    for (since_us, after) in needs {
        let after = after
            .get(usize::from(partition.0))
            .copied()
            .unwrap_or_default();
        let since = tail.since(*since_us)?.0 - 1;
        wanted = wanted.min(Position(since.max(after)));
    }
    let pieces = tail.pieces();
    let lowest = within(&pieces, share);
    let above = wanted.max(lowest);
    tail.hold(Holder::Streams, above);
    Ok(Held {
        partition,
        above,
        bytes: bytes_above(&pieces, above),
        is_cut: wanted < lowest,
    })
}

/// The lowest position above which the pieces come to no more than so many bytes. The newest piece stays.
fn within(pieces: &[(Position, u64)], bytes_max: u64) -> Position {
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

impl Held {
    /// Tells operators, in the log only when something changes.
    fn tell(&self, share: u64, figures: &metrics::Streams, was_near: &mut bool) {
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
        if is_near && !std::mem::replace(was_near, is_near) {
            tracing::warn!(
                %partition, %above, bytes, share, setting = "stream_log_bytes_max",
                "what streams hold of the log is near its bound: beyond it the oldest changes go before their time"
            );
        }
        *was_near = is_near;
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
