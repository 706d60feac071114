//! How far readers of changes are behind.
//!
//! Owns: what lies behind a place, and what a partition's log is kept for on behalf of named cursors. Promises: a
//! reader who knows of a partition's parents only is where the lowest of them is. Must not: move a cursor, or hold a
//! log; `hold.rs` does.

use std::sync::Arc;

use super::super::tables::Tables;
use super::cursors::Cursor;
use super::place::Place;
use super::places::{Places, Scope};
use crate::ids::{PartitionId, Position};
use crate::model::Error;
use crate::partition::Batch;

/// So much of the log is looked through for the first change behind a place.
const LAG_BYTES: usize = 1 << 20;

impl Tables {
    /// How many batches lie behind places, and when the oldest of them was committed, ms; `None` = none does. Those
    /// that record no change do not begin it: a cursor's own move is one.
    pub async fn lag(&self, places: &Places) -> Result<(u64, Option<u64>), Error> {
        let (mut batches, mut since) = (0, None::<u64>);
        for (partition, place) in places.iter() {
            let kept = self.partitions().log(partition);
            let Some(tail) = kept.filter(|tail| place.position <= tail.position()) else {
                continue;
            };
            let found = loop {
                let (log, first) = (tail.clone(), tail.first());
                let before = Position(place.position.max(first).0 - 1);
                let read = move || log.batches(before, LAG_BYTES);
                match self.partitions().read_logs(read).await {
                    // The log has let go of it meanwhile.
                    Err(_) if tail.first() > first => {}
                    found => break found?,
                }
            };
            let has_change = |batch: &&Arc<Batch>| batch.changes().len() > 0;
            let first = found.iter().find(has_change).or_else(|| found.last());
            if let Some(first) =
                first.filter(|batch| has_change(batch) || batch.position < tail.position())
            {
                batches += tail.position().next().0 - first.position.0;
                since = Some(since.map_or(first.commit_ms, |since| since.min(first.commit_ms)));
            }
        }
        Ok((batches, since))
    }

    /// The position in a partition's log behind which some cursor is; `None` = there are none.
    pub(super) fn behind_cursors(
        &self,
        cursors: &[Cursor],
        partition: PartitionId,
    ) -> Option<Position> {
        let history = self.partitions().history();
        let of_now = cursors
            .iter()
            .filter(|cursor| cursor.places.history == history);
        let behind = |cursor: &Cursor| {
            let place = self.resolve(&cursor.places, partition);
            place.map_or(Position::ZERO, |place| Position(place.position.0 - 1))
        };
        of_now.map(behind).min()
    }

    /// A reader's place in a partition's log. One that knows only the partition's parents is at the begin of the
    /// log, because it reads the parents' logs first.
    #[must_use]
    pub fn resolve(&self, places: &Places, partition: PartitionId) -> Option<Place> {
        let of = |id| places.resolve(id).map(|place| place.position);
        places.resolve(partition).or_else(|| {
            let map = self.partitions().map();
            map.inherited(partition, &of)?;
            Some(Place::before(map.share(partition)?.begins))
        })
    }

    /// Whether a cursor is still before the end of the log of an ended partition.
    pub(super) fn is_unread(
        &self,
        cursors: &[Cursor],
        partition: PartitionId,
        ends: Position,
    ) -> bool {
        let history = self.partitions().history();
        let is_before = |cursor: &Cursor| {
            let place = self.resolve(&cursor.places, partition);
            place.is_some_and(|place| place.position <= ends)
        };
        let mut of_now = cursors
            .iter()
            .filter(|cursor| cursor.places.history == history);
        of_now.any(is_before)
    }

    /// Tells operators how far cursors are behind.
    pub(super) async fn tell_of_cursors(&self) {
        let Ok(cursors) = self.all_cursors().await else {
            return;
        };
        let is_lost = |cursor: &&Cursor| self.check_places(&cursor.places).is_err();
        let lost = cursors.iter().filter(is_lost).count() as u64;
        let place = |partition: PartitionId| {
            let after = self.behind_cursors(&cursors, partition)?;
            Some((partition, Place::before(after.next())))
        };
        let places = self.partitions().ids().filter_map(place);
        let history = self.partitions().history();
        let slowest = Places::new(history, Scope::Timelines, places);
        let oldest = self.lag(&slowest).await.ok().and_then(|(_, since)| since);
        let now_ms = self.now_ms().cast_unsigned();
        let lag_ms = oldest.map_or(0, |since| now_ms.saturating_sub(since));
        let figures = &self.partitions().metrics().follows;
        figures.cursors.count(cursors.len() as u64);
        figures.lost.count(lost);
        figures.lag_seconds.set(lag_ms as f64 / 1e3);
    }
}
