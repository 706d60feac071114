//! How far an index has come, as its own commits say it.
//!
//! Owns: the place of each partition. Promises: it is a part of the commit whose documents it speaks of, with a
//! checksum of its own. Must not: be moved past a batch whose rows are not in.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use tideline_base::ids::{HistoryId, PartitionId, Position, TableId};
use tideline_table::Map;

/// Of what a commit holds, the layout included. Another number: the index is made anew.
const FORMAT: u16 = 5;

/// How far an index has come in all partitions that it reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    format: u16,
    history: String,
    index: u32,
    pub(crate) partitions: BTreeMap<u16, Reached>,
    /// Rows whose newest version is older were taken out, ms since 1970.
    #[serde(default)]
    pub(crate) swept_ms: Option<i64>,
    /// Those that it has read to their ends. Of the running process only.
    #[serde(skip)]
    ended: BTreeSet<u16>,
}

/// A place that is not as it was written.
#[derive(Debug)]
pub(crate) struct Bent;

/// How far it has come in one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// Everything up to here is in, of the rows that were brought in.
    pub(crate) position: u64,
    /// Rows that were there before are brought in up to this encoded key, which is not in; empty = none is. `None` =
    /// all are.
    pub(crate) building: Option<Vec<u8>>,
}

impl Place {
    /// At the begin of all partitions.
    pub(crate) fn begin(index: TableId, history: HistoryId, map: &Map) -> Place {
        let partitions = map.ids().map(|id| {
            let begin = Reached {
                position: 0,
                building: Some(Vec::new()),
            };
            (id.0, begin)
        });
        Place {
            format: FORMAT,
            history: history.to_string(),
            index: index.0,
            partitions: partitions.collect(),
            swept_ms: None,
            ended: BTreeSet::new(),
        }
    }

    /// The place that a commit holds; `None` = it is none of this index, directory or format.
    ///
    /// # Errors
    /// It has another checksum than it says.
    pub(crate) fn read(
        payload: &str,
        index: TableId,
        history: HistoryId,
    ) -> Result<Option<Place>, Bent> {
        let (sum, json) = payload.split_once(' ').ok_or(Bent)?;
        if sum != sum_of(json) {
            return Err(Bent);
        }
        let Ok(place) = serde_json::from_str::<Place>(json) else {
            return Ok(None);
        };
        let is_ours = place.format == FORMAT && place.index == index.0;
        Ok((is_ours && place.history == history.to_string()).then_some(place))
    }

    /// As commits hold it.
    pub(crate) fn payload(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{} {json}", sum_of(&json))
    }

    /// Whether rows are still brought in.
    pub(crate) fn is_building(&self) -> bool {
        let mut all = self.partitions.values();
        all.any(|reached| reached.building.is_some())
    }

    /// Whether it has all rows up to its positions, of those that show from a time on, ms since 1970.
    pub(crate) fn is_whole(&self, since_ms: Option<i64>) -> bool {
        !self.is_building() && !self.is_swept(since_ms)
    }

    /// Whether rows were taken out that show by now, as those from a time on do, ms since 1970: rows live longer again.
    pub(crate) fn is_swept(&self, since_ms: Option<i64>) -> bool {
        let is_later = |swept_ms| since_ms.is_none_or(|since_ms| since_ms < swept_ms);
        self.swept_ms.is_some_and(is_later)
    }

    /// Whether it has everything up to a position of a partition.
    pub(crate) fn covers(&self, partition: PartitionId, position: Position) -> bool {
        match self.partitions.get(&partition.0) {
            Some(reached) => reached.position >= position.0,
            None => self.ended.contains(&partition.0),
        }
    }

    /// Up to where it has everything of a partition.
    pub(crate) fn position(&self, partition: PartitionId) -> Position {
        let reached = self.partitions.get(&partition.0);
        reached.map_or(Position::ZERO, |reached| Position(reached.position))
    }

    /// The positions behind which it still reads logs.
    pub(crate) fn positions(&self) -> BTreeMap<PartitionId, Position> {
        let all = self.partitions.iter();
        all.map(|(id, reached)| (PartitionId(*id), Position(reached.position)))
            .collect()
    }

    /// A partition that has ended was read to its end: those that took its keys over are read from their begin. One is
    /// not named while others whose logs come before its own are still read: a search, or `verify`, would believe that
    /// they were.
    pub(crate) fn end(&mut self, partition: PartitionId, map: &Map) {
        let Some(ended) = self.partitions.remove(&partition.0) else {
            return;
        };
        self.ended.insert(partition.0);
        for share in map
            .shares()
            .filter(|share| share.parents.contains(&partition))
        {
            if let Some(before) = self.unread(share.parents.clone(), map) {
                // What was not brought in yet is brought in behind it.
                if let Some(reached) = self.partitions.get_mut(&before)
                    && ended.building.is_some()
                {
                    reached.building = Some(Vec::new());
                }
                continue;
            }
            let reached = self.partitions.entry(share.id.0).or_insert(Reached {
                position: share.begins.0 - 1,
                building: None,
            });
            // What was not brought in yet lies somewhere among its rows.
            if ended.building.is_some() {
                reached.building = Some(Vec::new());
            }
            if share.is_empty() {
                self.end(share.id, map);
            }
        }
    }

    /// One of these partitions, or of those that come before them, that is still read.
    fn unread(&self, mut ids: Vec<PartitionId>, map: &Map) -> Option<u16> {
        let mut looked = BTreeSet::new();
        while let Some(id) = ids.pop() {
            if self.partitions.contains_key(&id.0) {
                return Some(id.0);
            }
            if looked.insert(id) {
                ids.extend(map.share(id).iter().flat_map(|share| &share.parents));
            }
        }
        None
    }

    /// Whether a directory with this map, whose logs end at `tail`, has all that it needs to go on from here.
    pub(crate) fn fits(&self, map: &Map, tail: impl Fn(PartitionId) -> Option<Position>) -> bool {
        let mut all = self.partitions.iter();
        let is_there = |(id, reached): (&u16, &Reached)| {
            let id = PartitionId(*id);
            let is_ahead = tail(id).is_some_and(|tail| reached.position > tail.0);
            map.share(id).is_some() && !is_ahead
        };
        !self.partitions.is_empty() && all.all(is_there)
    }
}

fn sum_of(json: &str) -> String {
    format!("{:016x}", xxh3_64(json.as_bytes()))
}

#[cfg(test)]
mod tests {
    use tideline_store::partition::Share;

    use super::*;

    /// 0 and 1 became 4, and 4 and 2 became 5; 3 is as it was.
    fn merged() -> Map {
        let quarter = u64::MAX / 4;
        let share =
            |id, (first, quarters): (u64, u64), parents: &[u16], begins, ends: Option<u64>| Share {
                id: PartitionId(id),
                first: first * (quarter + 1),
                last: match first + quarters {
                    4 => u64::MAX,
                    end => end * (quarter + 1) - 1,
                },
                parents: parents.iter().map(|id| PartitionId(*id)).collect(),
                begins: Position(begins),
                ends: ends.map(Position),
                keeps_log: true,
            };
        let map = Map::of(vec![
            share(0, (0, 1), &[], 1, Some(10)),
            share(1, (1, 1), &[], 1, Some(20)),
            share(2, (2, 1), &[], 1, Some(40)),
            share(3, (3, 1), &[], 1, None),
            share(4, (0, 2), &[0, 1], 21, Some(30)),
            share(5, (0, 3), &[2, 4], 41, None),
        ]);
        map.unwrap()
    }

    fn ids(place: &Place) -> Vec<u16> {
        place.partitions.keys().copied().collect()
    }

    /// In whatever order the logs are read to their ends: what a place names, or covers, has all that was before it.
    #[test]
    fn what_was_merged_is_named_when_all_before_it_is_read() {
        let map = merged();
        for (order, named) in [
            ([0, 1, 4, 2], [&[1, 2, 3][..], &[2, 3, 4], &[2, 3], &[3, 5]]),
            ([2, 0, 1, 4], [&[0, 1, 3], &[1, 3], &[3, 4], &[3, 5]]),
            ([1, 2, 0, 4], [&[0, 2, 3], &[0, 3], &[3, 4], &[3, 5]]),
        ] {
            for building in [None, Some(0), Some(1), Some(2)] {
                let mut place = Place::begin(TableId(7), HistoryId([0; 16]), &Map::new(4));
                for (id, reached) in &mut place.partitions {
                    reached.building = (Some(*id) == building).then(|| b"key".to_vec());
                }
                for (id, named) in order.into_iter().zip(named) {
                    assert!(!place.covers(PartitionId(5), Position(41)));
                    place.end(PartitionId(id), &map);
                    assert_eq!(ids(&place), named, "{order:?} {id}");
                    let is_begun = named.contains(&5);
                    assert_eq!(place.covers(PartitionId(5), Position(40)), is_begun);
                    // Rows that were not brought in yet are not forgotten.
                    assert_eq!(place.is_building(), building.is_some());
                }
                let five = place.partitions[&5].building.as_deref();
                assert_eq!(five, building.map(|_| &b""[..]));
            }
        }
    }
}
