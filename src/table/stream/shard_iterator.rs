//! Shards of a stream, and iterators: a place in one of them.
//!
//! Owns: their texts, which are opaque to clients. Promises: an iterator is a place and nothing else, so that reading
//! from it again gives the same; a text that was not given out here is refused, never guessed at. Must not: say whether
//! the stream or the place still exists.

use std::fmt;

use super::places::Place;
use tideline_base::ids::{HistoryId, PartitionId};

/// One partition's log in one history of the data directory: what is restored, and each part of a partition that is
/// split, has shards of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardId {
    /// The history.
    pub history: HistoryId,
    /// The partition.
    pub partition: PartitionId,
}

/// Where a reader of a stream goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIterator {
    /// The stream.
    pub stream: String,
    /// Its shard.
    pub shard: ShardId,
    /// The place in it.
    pub place: Place,
}

impl ShardId {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<ShardId> {
        let (history, partition) = text.split_once('-')?;
        let shard = ShardId {
            history: HistoryId::parse(history)?,
            partition: PartitionId(partition.parse().ok()?),
        };
        (shard.to_string() == text).then_some(shard)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.history, self.partition)
    }
}

impl ShardIterator {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<ShardIterator> {
        let mut parts = text.split('.');
        let iterator = ShardIterator {
            stream: parts.next()?.to_owned(),
            shard: ShardId::parse(parts.next()?)?,
            place: Place::of(&mut parts)?,
        };
        (iterator.to_string() == text).then_some(iterator)
    }
}

impl fmt::Display for ShardIterator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { position, index } = self.place;
        write!(out, "{}.{}.{position}.{index}", self.stream, self.shard)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_base::ids::Position;

    proptest! {
        #[test]
        fn places_come_back_and_nothing_else_does(
            history: [u8; 16],
            partition: u16,
            position in 1u64..,
            index: u32,
            at in 0usize..100,
            other in "[0-9a-f.+-]",
            text in "[0-9a-f.-]{0,90}",
        ) {
            let shard = ShardId { history: HistoryId(history), partition: PartitionId(partition) };
            prop_assert_eq!(ShardId::parse(&shard.to_string()), Some(shard));
            let place = Place { position: Position(position), index };
            let iterator = ShardIterator { stream: "5".repeat(32), shard, place };
            let told = iterator.to_string();
            prop_assert_eq!(ShardIterator::parse(&told), Some(iterator));
            let mut changed = told;
            changed.replace_range(at % changed.len()..=at % changed.len(), &other);
            for text in [changed, text] {
                if let Some(iterator) = ShardIterator::parse(&text) {
                    prop_assert_eq!(iterator.to_string(), text);
                }
            }
        }
    }
}
