//! How far readers of changes are behind, and which cursors move by themselves.
//!
//! Owns: which commits behind a place are a reader's own. Promises: others' commits make no reader late, and a cursor
//! does not hold the log for them: it is carried over them. Must not: pass a commit that may have news for the reader,
//! or hold a log; `hold.rs` does.

use std::collections::{BTreeMap, BTreeSet};

use super::super::format::change::Change;
use super::super::tables::Tables;
use super::cursors::{Cursor, Followed};
use super::places::Place;
use super::places::Places;
use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_model::Error;
use tideline_store::partition::{Batch, ReadError, Tail};

/// So much of the log behind a place is looked through. All commits further on count as the reader's own. Cursors are
/// carried on, so others' commits are seldom among these.
const LAG_BYTES: usize = 1 << 20;
/// A cursor is moved only if that passes so many bytes of others' commits, or the rest of an ended partition's log:
/// each move is a commit, too.
const CARRIED_BYTES: u64 = 1 << 20;
/// At most so much of a log is looked through at a time, for all cursors together.
const LOOK_BYTES: usize = 64 << 20;
const READ_BYTES: usize = 1 << 20;

/// Whose commits a reader follows.
#[derive(Clone, Debug)]
enum Own {
    /// Those of the timelines whose IDs begin so.
    Timelines(String),
    /// Those of a table; `None` = there is no such table any more.
    Table(Option<TableId>),
}

impl Own {
    fn is_in(&self, told: &Told) -> bool {
        match self {
            Own::Timelines(prefix) => told.timelines.iter().any(|name| name.starts_with(prefix)),
            Own::Table(table) => table.is_some_and(|table| told.tables.contains(&table)),
        }
    }
}

/// For whose followers a batch may have news.
struct Told {
    /// Never the server's own.
    timelines: BTreeSet<String>,
    tables: BTreeSet<TableId>,
}

/// A cursor on its way through one log.
#[derive(Clone)]
struct Carried {
    /// Its number in the list.
    cursor: usize,
    own: Own,
    place: Place,
    /// Bytes of others' commits that it has passed.
    passed: u64,
    /// When the first commit of its own was, ms.
    since: Option<u64>,
}

impl Tables {
    /// How many commits of a reader's own lie behind its places, and when the first of them was made, ms; `None` =
    /// there is none.
    pub async fn lag(
        &self,
        followed: &Followed,
        places: &Places,
    ) -> Result<(u64, Option<u64>), Error> {
        let (own, map) = (self.own(followed).await?, self.partitions().map());
        let (mut commits, mut since) = (0, None::<u64>);
        for (partition, place) in places.over(&map) {
            let kept = self.partitions().log(partition);
            let Some(tail) = kept.filter(|tail| place.position <= tail.position()) else {
                continue;
            };
            let (count, first) = loop {
                let (log, first) = (tail.clone(), tail.first());
                let before = Position(place.position.max(first).0 - 1);
                let (tables, own) = (self.clone(), own.clone());
                let read = move || tables.count_own(&log, before, &own);
                match self.partitions().read_logs(read).await {
                    // The log has let go of it meanwhile.
                    Err(_) if tail.first() > first => {}
                    counted => break counted?,
                }
            };
            commits += count;
            since = since.into_iter().chain(first).min();
        }
        Ok((commits, since))
    }

    /// The same in one log, for the commits above a position. May block on the disk.
    fn count_own(
        &self,
        log: &Tail,
        before: Position,
        own: &Own,
    ) -> Result<(u64, Option<u64>), ReadError> {
        let (mut count, mut since, mut last) = (0, None, None);
        let tail = log.position();
        for batch in log.batches(before, LAG_BYTES)? {
            if own.is_in(&self.told(&batch)?) {
                count += 1;
                since = since.or(Some(batch.commit_ms));
            }
            last = Some(batch);
        }
        let last = last.filter(|last| last.position < tail);
        if let Some(last) = last {
            count += tail.0 - last.position.0;
            since = since.or(Some(last.commit_ms));
        }
        Ok((count, since))
    }

    async fn own(&self, followed: &Followed) -> Result<Own, Error> {
        Ok(match followed {
            Followed::Timelines(prefix) => Own::Timelines(prefix.clone()),
            Followed::Table(name) => {
                let known = self.snapshot().await?;
                Own::Table(known.table(name).map(|table| table.id))
            }
        })
    }

    fn told(&self, batch: &Batch) -> Result<Told, ReadError> {
        let mut timelines = BTreeSet::new();
        for table in self.virtual_tables() {
            timelines.extend(table.told(batch)?);
        }
        timelines.retain(|name| !name.starts_with('$'));
        Ok(Told {
            timelines,
            tables: batch.changes().filter_map(Change::table_of).collect(),
        })
    }

    /// Where these cursors are in the logs of the partitions that there are now; those of another history are nowhere.
    pub(super) fn places_of(&self, cursors: &[Cursor]) -> Vec<BTreeMap<PartitionId, Place>> {
        let (history, map) = (self.partitions().history(), self.partitions().map());
        let of_now = cursors.iter().map(|cursor| &cursor.places);
        let of_now = of_now.filter(|places| places.history == history);
        of_now.map(|places| places.over(&map)).collect()
    }

    /// Carries the cursors over others' commits, and shows operators how far they are behind.
    pub(super) async fn tell_of_cursors(&self) {
        let Ok(cursors) = self.all_cursors().await else {
            return;
        };
        let is_lost = |cursor: &&Cursor| self.check_places(&cursor.places).is_err();
        let lost = cursors.iter().filter(is_lost).count() as u64;
        let oldest = match self.carry(&cursors).await {
            Ok(oldest) => oldest,
            Err(error) => {
                tracing::warn!(?error, "what lies behind the named cursors can't be read");
                None
            }
        };
        let now_ms = self.now_ms().cast_unsigned();
        let lag_ms = oldest.map_or(0, |since| now_ms.saturating_sub(since));
        let figures = &self.partitions().metrics().follows;
        figures.cursors.count(cursors.len() as u64);
        figures.lost.count(lost);
        figures.lag_seconds.set(lag_ms as f64 / 1e3);
    }

    /// Carries each cursor to the first commit of its own, or as far as it was looked. Returns when the first of all
    /// these commits was, ms. A cursor that has moved meanwhile, or can't be moved now, is looked at the next time.
    async fn carry(&self, cursors: &[Cursor]) -> Result<Option<u64>, Error> {
        let map = self.partitions().map();
        let mut all = Vec::new();
        for (number, cursor) in cursors.iter().enumerate() {
            if self.check_places(&cursor.places).is_ok() {
                let own = self.own(&cursor.followed).await?;
                all.push((number, own, cursor.places.over(&map)));
            }
        }
        let mut oldest = None;
        let mut moved: BTreeMap<usize, (Places, u64)> = BTreeMap::new();
        for (partition, log) in self.logs() {
            let here = all.iter().filter_map(|(cursor, own, places)| {
                Some(Carried {
                    cursor: *cursor,
                    own: own.clone(),
                    place: *places.get(&partition)?,
                    passed: 0,
                    since: None,
                })
            });
            let (here, tables) = (here.collect(), self.clone());
            let look = move || tables.look(&log, here);
            for one in self.partitions().read_logs(look).await? {
                oldest = oldest.into_iter().chain(one.since).min();
                if one.passed > 0 {
                    let places = || (cursors[one.cursor].places.clone(), 0);
                    let (places, passed) = moved.entry(one.cursor).or_insert_with(places);
                    places.set(partition, one.place);
                    let is_at_end = !map.is_live(partition) && one.since.is_none();
                    *passed += if is_at_end { CARRIED_BYTES } else { one.passed };
                }
            }
        }
        for (cursor, (places, passed)) in moved {
            let cursor = &cursors[cursor];
            if passed >= CARRIED_BYTES && !cursor.is_held() {
                let carried = self.carry_cursor(cursor, places.settled(&map)).await;
                if let Err(error) = carried {
                    tracing::warn!(cursor = %cursor.name, ?error, "named cursors can't be carried on now");
                    break;
                }
            }
        }
        Ok(oldest)
    }

    /// Has each of these look for the first batch of its own in a log. May block on the disk.
    fn look(&self, log: &Tail, mut all: Vec<Carried>) -> Result<Vec<Carried>, ReadError> {
        let tail = log.position();
        let mut left = LOOK_BYTES;
        while left > 0 {
            let looking = all.iter().filter(|one| one.since.is_none());
            let first = looking.map(|one| one.place.position).min();
            let Some(first) = first.filter(|first| *first <= tail) else {
                break;
            };
            let batches = log.batches(Position(first.0 - 1), READ_BYTES)?;
            if batches.is_empty() {
                break;
            }
            for batch in batches {
                let (told, bytes) = (self.told(&batch)?, batch.bytes());
                left = left.saturating_sub(bytes);
                let is_at = |one: &&mut Carried| {
                    one.since.is_none() && one.place.position <= batch.position
                };
                for one in all.iter_mut().filter(is_at) {
                    if one.own.is_in(&told) {
                        one.since = Some(batch.commit_ms);
                    } else {
                        one.place = Place::before(batch.position.next());
                        one.passed += bytes as u64;
                    }
                }
            }
        }
        Ok(all)
    }
}

/// The position in a partition's log behind which some of these readers is; `None` = there are none.
pub(super) fn behind(
    readers: &[BTreeMap<PartitionId, Place>],
    partition: PartitionId,
) -> Option<Position> {
    let before = |place: &Place| Position(place.position.0 - 1);
    let behind = |places: &BTreeMap<_, _>| places.get(&partition).map_or(Position::ZERO, before);
    readers.iter().map(behind).min()
}
