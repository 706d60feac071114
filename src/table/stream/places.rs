//! Where a reader is in all logs at once, and the text that clients keep of it.
//!
//! Owns: that text, which is opaque to clients. Promises: it is places and nothing else, so that reading from it again
//! gives the same; what was not given out here is refused, never guessed at. Must not: say whether a place still
//! exists.

use std::collections::BTreeMap;
use std::fmt;

use super::place::Place;
use crate::ids::{HistoryId, PartitionId};

/// Whose changes places are counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of all timelines.
    Timelines,
    /// Those of the table that has the stream of this name.
    Stream(String),
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

    /// The place in a partition's log, if it is named; `Tables::resolve` is the rule for what its keys were in before.
    #[must_use]
    pub fn resolve(&self, partition: PartitionId) -> Option<Place> {
        self.by_partition.get(&partition).copied()
    }

    /// Moves one place.
    pub fn set(&mut self, partition: PartitionId, place: Place) {
        self.by_partition.insert(partition, place);
    }

    /// All that is named.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, Place)> {
        self.by_partition.iter().map(|(at, place)| (*at, *place))
    }

    /// The further of both in each partition.
    #[must_use]
    pub fn further(mut self, other: &Places) -> Places {
        for (partition, place) in other.iter() {
            let own = self.by_partition.entry(partition).or_insert(place);
            *own = place.max(*own);
        }
        self
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
    use crate::ids::Position;

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

    #[test]
    fn the_further_place_counts_in_each_partition() {
        let places = |positions: &[(u16, u64)]| {
            let place = |(at, position): &(u16, u64)| {
                (PartitionId(*at), Place::before(Position(*position)))
            };
            let places = positions.iter().map(place);
            Places::new(HistoryId([1; 16]), Scope::Timelines, places)
        };
        let both = places(&[(0, 5), (1, 7)]).further(&places(&[(0, 6), (1, 2), (2, 9)]));
        assert_eq!(both, places(&[(0, 6), (1, 7), (2, 9)]));
        assert_eq!(both.resolve(PartitionId(3)), None);
    }
}
