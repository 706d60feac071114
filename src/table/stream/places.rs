//! A place in a log, where a reader is in all logs at once, and the text that clients keep of it.
//!
//! Owns: that text, which is opaque to clients. Promises: it is places and nothing else, so that reading from it again
//! gives the same; what was not given out here is refused, never guessed at. Must not: say whether a place still
//! exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tideline_base::ids::{HistoryId, PartitionId, Position};
use tideline_store::partition::Map;

/// Whose changes places are counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of all timelines.
    Timelines,
    /// Those of the table that has the stream of this name.
    Stream(String),
}

/// A place in a partition's log: before a change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The batch; it need not exist yet.
    pub position: Position,
    /// How many of the table's changes in it lie before the place.
    pub index: u32,
}

/// A place in the log of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Whose logs.
    pub history: HistoryId,
    /// Whose changes.
    pub scope: Scope,
    by_partition: BTreeMap<PartitionId, Place>,
}

/// The scope of timelines; names of streams are longer.
const TIMELINES: &str = "t";

impl Place {
    /// Before everything that a batch changes.
    #[must_use]
    pub fn before(position: Position) -> Place {
        Place { position, index: 0 }
    }

    /// Reads its two numbers, the next of these parts. Positions begin at 1.
    pub(super) fn of<'t>(parts: &mut impl Iterator<Item = &'t str>) -> Option<Place> {
        Some(Place {
            position: Position(parts.next()?.parse().ok().filter(|at| *at > 0)?),
            index: parts.next()?.parse().ok()?,
        })
    }
}

impl Places {
    /// These places.
    pub fn new(
        history: HistoryId,
        scope: Scope,
        places: impl Iterator<Item = (PartitionId, Place)>,
    ) -> Places {
        Places {
            history,
            scope,
            by_partition: places.collect(),
        }
    }

    /// The place in a partition's log, if it is named. [`Places::over`] says where the reader is in other logs.
    #[must_use]
    pub fn named(&self, partition: PartitionId) -> Option<Place> {
        self.by_partition.get(&partition).copied()
    }

    /// The place in each log of a map of which something is known. A place that is not named follows from the others: a
    /// reader with places in the logs of all children has read the parent's log to its end, and one with places in the
    /// parents' logs only is at the begin of a child's.
    #[must_use]
    pub fn over(&self, map: &Map) -> BTreeMap<PartitionId, Place> {
        let mut all = self.by_partition.clone();
        let mut unread: BTreeSet<PartitionId> = BTreeSet::new();
        // Children have higher numbers.
        for share in map.shares().rev() {
            match share.ends.filter(|_| !unread.contains(&share.id)) {
                Some(ends) => {
                    all.entry(share.id)
                        .or_insert_with(|| Place::before(ends.next()));
                }
                None if all.contains_key(&share.id) => {}
                None => unread.extend(&share.parents),
            }
        }
        let known = map.inherited(|id| all.get(&id).map(|place| place.position));
        for id in known.keys() {
            let begins = map.share(*id).map_or(Position(1), |share| share.begins);
            all.entry(*id).or_insert_with(|| Place::before(begins));
        }
        all
    }

    /// The same places without those that follow from the others: those at the ends of ended partitions' logs.
    #[must_use]
    pub fn settled(mut self, map: &Map) -> Places {
        self.by_partition = self.over(map);
        let unknown = map.shares().filter(|one| self.named(one.id).is_none());
        let stay: BTreeSet<PartitionId> = unknown.flat_map(|one| one.parents.clone()).collect();
        self.by_partition.retain(|id, place| {
            let ends = map.share(*id).and_then(|share| share.ends);
            stay.contains(id) || ends.is_none_or(|ends| place.position <= ends)
        });
        self
    }

    /// Moves one place.
    pub fn set(&mut self, partition: PartitionId, place: Place) {
        self.by_partition.insert(partition, place);
    }

    /// All that is named.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, Place)> {
        self.by_partition.iter().map(|(at, place)| (*at, *place))
    }

    /// The further of both in each partition of a map.
    #[must_use]
    pub fn further(mut self, other: &Places, map: &Map) -> Places {
        self.by_partition = self.over(map);
        for (partition, place) in other.over(map) {
            let own = self.by_partition.entry(partition).or_insert(place);
            *own = place.max(*own);
        }
        self.settled(map)
    }

    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Places> {
        let mut parts = text.split('.');
        let history = HistoryId::parse(parts.next()?)?;
        let scope = match parts.next()? {
            TIMELINES => Scope::Timelines,
            stream => Scope::Stream(stream.to_owned()),
        };
        let place = |part: &str| {
            let mut numbers = part.split('-');
            let partition = PartitionId(numbers.next()?.parse().ok()?);
            Some((partition, Place::of(&mut numbers)?))
        };
        let places = Places {
            history,
            scope,
            by_partition: parts.map(place).collect::<Option<_>>()?,
        };
        (places.to_string() == text).then_some(places)
    }
}

/// The partitions whose logs a reader at these places may read: it has read those of all their ancestors to the end.
/// Only so it gets the changes of one key in order.
#[must_use]
pub fn in_turn(places: &BTreeMap<PartitionId, Place>, map: &Map) -> BTreeSet<PartitionId> {
    let (mut in_turn, mut unread) = (BTreeSet::new(), BTreeSet::new());
    for share in map.shares() {
        let waits = share.parents.iter().any(|parent| unread.contains(parent));
        let place = places.get(&share.id);
        let is_read = |ends| place.is_none_or(|place| place.position > ends);
        if waits || !share.ends.is_some_and(is_read) {
            unread.insert(share.id);
        }
        if !waits {
            in_turn.insert(share.id);
        }
    }
    in_turn
}

impl fmt::Display for Places {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match &self.scope {
            Scope::Timelines => TIMELINES,
            Scope::Stream(stream) => stream,
        };
        write!(out, "{}.{scope}", self.history)?;
        for (partition, Place { position, index }) in self.iter() {
            write!(out, ".{partition}-{position}-{index}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_store::partition::Share;

    proptest! {
        #[test]
        fn places_come_back_and_nothing_else_does(
            history: [u8; 16],
            places in proptest::collection::btree_map(any::<u16>(), (1u64.., any::<u32>()), 0..9),
            of_table: bool,
            at in 0usize..100,
            other in "[0-9a-f.+-]",
            text in "[0-9a-ft.-]{0,90}",
        ) {
            let scope = if of_table { Scope::Stream("5".repeat(32)) } else { Scope::Timelines };
            let by_partition = places.into_iter().map(|(partition, (position, index))| {
                (PartitionId(partition), Place { position: Position(position), index })
            });
            let places = Places::new(HistoryId(history), scope, by_partition);
            let told = places.to_string();
            prop_assert_eq!(Places::parse(&told), Some(places));
            let mut changed = told;
            changed.replace_range(at % changed.len()..=at % changed.len(), &other);
            for text in [changed, text] {
                if let Some(places) = Places::parse(&text) {
                    prop_assert_eq!(places.to_string(), text);
                }
            }
        }
    }

    fn share(id: u16, parents: &[u16], begins: u64, ends: Option<u64>) -> Share {
        Share {
            id: PartitionId(id),
            first: 0,
            last: u64::MAX,
            parents: parents.iter().map(|id| PartitionId(*id)).collect(),
            begins: Position(begins),
            ends: ends.map(Position),
            keeps_log: false,
        }
    }

    /// 0 was split into 1 and 2, these became 3, and so on; the last one is live.
    fn pairs(count: u16) -> Map {
        let mut shares = vec![share(0, &[], 1, Some(10))];
        for pair in 0..count {
            let (last, begins) = (pair * 3, u64::from(pair) * 20 + 11);
            let half = |id, first, last| Share {
                first,
                last,
                ..share(id, &[pair * 3], begins, Some(begins + 9))
            };
            shares.push(half(last + 1, 0, u64::MAX / 2));
            shares.push(half(last + 2, u64::MAX / 2 + 1, u64::MAX));
            let ends = (pair + 1 < count).then_some(begins + 19);
            shares.push(share(last + 3, &[last + 1, last + 2], begins + 10, ends));
        }
        Map::of(shares).unwrap()
    }

    fn places(positions: &[(u16, u64)]) -> Places {
        let place =
            |(at, position): &(u16, u64)| (PartitionId(*at), Place::before(Position(*position)));
        let places = positions.iter().map(place);
        Places::new(HistoryId([1; 16]), Scope::Timelines, places)
    }

    #[test]
    fn the_further_place_counts_in_each_partition() {
        let map = pairs(1);
        let further = |one: &[_], other: &[_]| places(one).further(&places(other), &map);
        assert_eq!(
            further(&[(0, 5)], &[(0, 6)]),
            places(&[(0, 6), (1, 11), (2, 11), (3, 21)])
        );
        assert_eq!(
            further(&[(0, 5)], &[(1, 13), (2, 11)]),
            places(&[(1, 13), (2, 11), (3, 21)])
        );
        assert_eq!(further(&[(3, 25)], &[(0, 5)]), places(&[(3, 25)]));
        assert_eq!(further(&[(3, 25)], &[(3, 30)]), places(&[(3, 30)]));
    }

    #[test]
    fn places_say_the_same_however_many_ways_lead_back() {
        let map = pairs(3_000);
        let last = PartitionId(9_000);
        let begun = places(&[(0, 7)]);
        let over = begun.over(&map);
        assert_eq!(over.len(), 9_001);
        assert_eq!(over[&last], Place::before(map.share(last).unwrap().begins));
        assert_eq!(in_turn(&over, &map), BTreeSet::from([PartitionId(0)]));
        assert_eq!(begun.settled(&map).over(&map), over);
        let read = places(&[(0, 11), (8_998, 59_999), (8_999, 60_001), (9_000, 60_007)]);
        let settled = read.settled(&map);
        assert_eq!(settled, places(&[(8_998, 59_999), (9_000, 60_007)]));
        assert_eq!(settled.over(&map)[&last], Place::before(Position(60_007)));
        assert!(!in_turn(&settled.over(&map), &map).contains(&last));
        let done = places(&[(9_000, 60_007)]);
        assert!(in_turn(&done.over(&map), &map).contains(&last));
        assert_eq!(places(&[]).over(&map), BTreeMap::new());
    }
}
