//! One turn over all partitions: a page of rows that were there, then what the log has.
//!
//! Owns: the order of the two. Promises: a partition's place is moved only after the rows that it speaks of are in.
//! Must not: commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use tideline_base::faults;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{FoundRow, KeyValue, Selection};
use tideline_table::{Exported, caught, key_of, key_values};

use super::{Follower, Halt, Work};
use crate::index::Put;

/// Of a log, for one step.
const LOG_BYTES: usize = 4 << 20;
/// Rows that are in memory at a time, and their bytes.
const ROWS_AT_ONCE: usize = 512;
const ROWS_BYTES: usize = 4 << 20;

impl Follower {
    /// Goes one step further in each partition; whether that was all there is.
    pub(super) async fn turn(&mut self, work: &mut Work) -> Result<bool, Halt> {
        let mut is_through = true;
        for (partition, behind) in work.place.positions() {
            is_through &= self.step(work, partition, behind).await?;
        }
        let partitions = self.tables.search_source();
        let map = partitions.map();
        for (partition, at) in work.place.positions() {
            let share = map.share(partition);
            let ends = share.and_then(|share| share.ends);
            if ends.is_some_and(|ends| at >= ends) {
                work.place.end(partition, &map);
                is_through = false;
            }
        }
        Ok(is_through)
    }

    async fn step(
        &mut self,
        work: &mut Work,
        partition: PartitionId,
        behind: Position,
    ) -> Result<bool, Halt> {
        let building = work.place.partitions.get(&partition.0);
        let building = building.and_then(|reached| reached.building.clone());
        let is_live = self.tables.search_source().map().is_live(partition);
        let (mut behind, mut up_to, mut is_paused) = (behind, None, false);
        if let Some(from) = building.filter(|_| is_live) {
            // In pieces, so that the log is followed meanwhile.
            tokio::time::sleep_until(work.next_page.min(Instant::now() + LONGEST_PAUSE)).await;
            is_paused = Instant::now() < work.next_page;
            if !is_paused {
                let position = self.page(work, partition, behind, &from).await?;
                behind = work.place.position(partition);
                if behind == Position::ZERO {
                    // Nothing of the log is needed from before the first page.
                    behind = position;
                    self.reached(work, partition, position);
                }
                up_to = Some(position);
            } else if behind == Position::ZERO {
                // Its log is not needed yet.
                return Ok(false);
            }
        }
        let is_last = self.follow(work, partition, behind, up_to).await?;
        Ok(is_last && up_to.is_none() && !is_paused)
    }

    /// Brings in a page of the rows that are there; returns as of which position.
    async fn page(
        &mut self,
        work: &mut Work,
        partition: PartitionId,
        behind: Position,
        from: &[u8],
    ) -> Result<Position, Halt> {
        self.refresh().await?;
        let columns = &self.table.primary_key;
        let start = match from.is_empty() {
            true => None,
            false => {
                let values = key_values(from);
                let values = values.map_err(|_| Halt::Anew("its place is no key".to_owned()))?;
                let names = columns.iter().map(|column| column.name.clone());
                Some(names.zip(values).collect())
            }
        };
        let page = self
            .tables
            .export_rows::<Vec<FoundRow>>(&self.table, partition, start, None);
        let Exported {
            rows,
            position,
            next,
            ..
        } = page.await?;
        if faults::is_named("search_page_last") {
            // A control of the tests: what changes until the writers pause is taken in before the page, which brings
            // it back.
            let mut behind = if behind == Position::ZERO {
                position
            } else {
                behind
            };
            loop {
                tokio::time::sleep(LONGEST_PAUSE).await;
                self.follow(work, partition, behind, None).await?;
                match work.place.position(partition) {
                    reached if reached == behind => break,
                    reached => behind = reached,
                }
            }
        }
        let count = rows.len() as u64;
        let rows = rows.into_iter().map(|row| (self.key(&row.key), Some(row)));
        let rows: Vec<Put> = rows.collect();
        self.put(work, &rows).await?;
        if let Some(reached) = work.place.partitions.get_mut(&partition.0) {
            reached.building = next.map(|key| self.key(&key));
        }
        if let Some(micros) = (count * 1_000_000).checked_div(self.build_rows_per_second) {
            work.next_page = work.next_page.max(Instant::now()) + Duration::from_micros(micros);
        }
        Ok(position)
    }

    /// Takes in what the log has behind a position, a step of it, or all up to another one; returns whether nothing is
    /// left.
    async fn follow(
        &mut self,
        work: &mut Work,
        partition: PartitionId,
        mut behind: Position,
        up_to: Option<Position>,
    ) -> Result<bool, Halt> {
        loop {
            let changed = self
                .tables
                .changed_rows(&self.table, partition, behind, LOG_BYTES);
            let changed = changed.await?;
            let is_changed = !changed.keys.is_empty() || !changed.below.is_empty();
            if faults::is_named("search_place_first") && is_changed {
                // A control of the tests: the place is committed before the rows are in.
                self.reached(work, partition, changed.position);
                self.may_write(work).await?;
                work.index.commit(&work.place)?;
                faults::reached("search_placed");
            }
            if !changed.keys.is_empty() {
                // Rows are read as the definition has them that was there when they were written, or a later one.
                self.refresh().await?;
            }
            self.lower(work, changed.below).await?;
            let mut keys = changed.keys;
            if self.table.is_virtual() {
                keys.retain(|key| !is_own(&key[0]));
            }
            self.renew(work, keys).await?;
            behind = changed.position;
            self.reached(work, partition, behind);
            if changed.is_last || up_to.is_none_or(|up_to| behind >= up_to) {
                return Ok(changed.is_last);
            }
        }
    }

    /// Puts rows in as they are now.
    pub(super) async fn renew(
        &self,
        work: &mut Work,
        mut keys: BTreeSet<Vec<KeyValue>>,
    ) -> Result<(), Halt> {
        while !keys.is_empty() {
            let some = keys.iter().take(ROWS_AT_ONCE).cloned();
            let rows = self
                .tables
                .rows_now::<Vec<FoundRow>>(&self.table, some, &Selection::default(), ROWS_BYTES)
                .await?;
            let rows = rows.into_iter().map(|now| {
                keys.remove(&now.key);
                let row = now.row.and_then(|mut rows| rows.pop());
                (self.key(&now.key), row)
            });
            let rows: Vec<Put> = rows.collect();
            self.put(work, &rows).await?;
            faults::reached("search_put");
        }
        Ok(())
    }

    /// Takes out what is gone with all lower numbers of its timeline: what was trimmed or deleted.
    async fn lower(
        &self,
        work: &mut Work,
        below: BTreeMap<KeyValue, Vec<KeyValue>>,
    ) -> Result<(), Halt> {
        if faults::is_named("search_keeps_what_is_below") {
            return Ok(());
        }
        for (timeline, key) in below {
            let (KeyValue::String(name), Some(KeyValue::Integer(number))) = (&timeline, key.get(1))
            else {
                continue;
            };
            if is_own(&timeline) || work.floors.has_lowered(name, *number) {
                continue;
            }
            self.may_write(work).await?;
            work.written = Instant::now();
            tokio::task::block_in_place(|| work.index.remove_below(name, *number))?;
            work.floors.lowered(name, *number);
        }
        Ok(())
    }

    fn reached(&self, work: &mut Work, partition: PartitionId, position: Position) {
        if let Some(reached) = work.place.partitions.get_mut(&partition.0) {
            reached.position = position.0;
        }
    }

    /// Waits for a writer, and for the disk when the engine's queue has as much as it may.
    async fn put(&self, work: &mut Work, rows: &[Put]) -> Result<(), Halt> {
        if !rows.is_empty() {
            self.may_write(work).await?;
            if !work.index.has_room() {
                tokio::task::block_in_place(|| work.index.collect())?;
                return Err(Halt::Full);
            }
            work.written = Instant::now();
            self.figures.rows.increment(rows.len() as u64);
        }
        let (columns, mut rows) = (&self.table.primary_key, rows);
        while !rows.is_empty() {
            let put = tokio::task::block_in_place(|| {
                caught("indexing rows", || work.index.put(columns, rows))
            });
            let count = put.ok_or_else(|| Halt::Anew("a step of it panicked".to_owned()))??;
            rows = &rows[count..];
            if work.index.is_full() {
                // Rows may be newer than their place.
                tokio::task::block_in_place(|| work.index.commit(&work.place))?;
                self.committed(work);
            }
        }
        Ok(())
    }

    fn key(&self, key: &[KeyValue]) -> Vec<u8> {
        key_of(self.table.id, key).as_bytes().to_vec()
    }
}

/// Whether a timeline is one of the server's own, of which nothing is found.
fn is_own(timeline: &KeyValue) -> bool {
    matches!(timeline, KeyValue::String(name) if name.starts_with('$'))
}

/// Of a pause between two pages.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
