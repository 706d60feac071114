//! What clients are given of places: their texts, sealed with the data directory's key.
//!
//! Owns: the way from a place to a client and back. Promises: what this directory did not give out is refused, and what
//! another one gave out is refused as lost. Must not: say whether a place still exists.

use super::super::tables::Tables;
use super::cursors::FollowError;
use super::places::Places;
use super::shard_iterator::ShardIterator;
use tideline_model::Error;
use tideline_store::partition::Seal;

/// What the texts are sealed for, so that none passes for one of the other kind.
const POSITION: &str = "position";
const ITERATOR: &str = "iterator";

impl Tables {
    /// Places as a client is given them.
    #[must_use]
    pub fn position_text(&self, places: &Places) -> String {
        self.sealed_position(&places.to_string())
    }

    /// The same of places that are stored as text.
    #[must_use]
    pub fn sealed_position(&self, places: &str) -> String {
        self.partitions().seal().sealed(POSITION, places)
    }

    /// The places that a client was given.
    pub fn read_position(&self, text: &str) -> Result<Places, FollowError> {
        let (ours, seal) = (self.partitions().history(), self.partitions().seal());
        match seal.opened(POSITION, text).map(Places::parse) {
            Some(places) => places.ok_or(FollowError::WrongPosition),
            None => match Places::parse(Seal::unread(text)) {
                Some(places) if places.history != ours => Err(FollowError::PositionLost),
                _ => Err(FollowError::WrongPosition),
            },
        }
    }

    /// An iterator as a client is given it.
    #[must_use]
    pub fn iterator_text(&self, iterator: &ShardIterator) -> String {
        let text = iterator.to_string();
        self.partitions().seal().sealed(ITERATOR, &text)
    }

    /// The iterator that a client was given.
    pub fn read_iterator(&self, text: &str) -> Result<ShardIterator, Error> {
        let (ours, seal) = (self.partitions().history(), self.partitions().seal());
        match seal.opened(ITERATOR, text).map(ShardIterator::parse) {
            Some(iterator) => iterator.ok_or(Error::InvalidIterator),
            None => match ShardIterator::parse(Seal::unread(text)) {
                Some(iterator) if iterator.shard.history != ours => Err(Error::StreamTrimmed),
                _ => Err(Error::InvalidIterator),
            },
        }
    }
}
