//! A consistent read of one partition.

use std::ops::Bound;

use bytes::Bytes;

use super::ReadError;
use crate::ids::Position;

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys rising.
    Forward,
    /// Keys falling.
    Backward,
}

/// The partition as of one position. Short-lived: one page, never across an `.await`.
pub struct View {}

impl View {
    /// The position that the view shows: all batches up to it, none after.
    pub fn position(&self) -> Position {
        todo!()
    }

    /// A key's newest value.
    pub fn get(&self, _key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        todo!()
    }

    /// The visible rows between two keys, in the direction's order. Lazy: take what the page needs.
    pub fn range(
        &self,
        _from: Bound<&[u8]>,
        _to: Bound<&[u8]>,
        _direction: Direction,
    ) -> Box<dyn Iterator<Item = Result<(Bytes, Bytes), ReadError>> + '_> {
        todo!()
    }
}
