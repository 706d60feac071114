//! What a submitted closure sees and does.

use bytes::Bytes;

use super::ReadError;
use crate::ids::Position;

/// The partition as one closure sees it: memtables, image and what this batch has done so far.
pub struct Txn<'a> {
    pub(super) _batch: &'a mut (),
}

impl Txn<'_> {
    /// The position that this batch gets.
    pub fn position(&self) -> Position {
        todo!()
    }

    /// The batch's commit time, ms since 1970; the same for the whole batch, never below an earlier batch's.
    pub fn now_ms(&self) -> u64 {
        todo!()
    }

    /// The newest value of a key, this batch included.
    pub fn get(&self, _key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        todo!()
    }

    /// Writes a whole row. The number returned names the effect in this batch (for change records).
    pub fn put(&mut self, _key: impl Into<Bytes>, _value: impl Into<Bytes>) -> u32 {
        todo!()
    }

    /// Changes some cells of a row (the bytes mean something to [`super::Rules`] only).
    pub fn delta(&mut self, _key: impl Into<Bytes>, _value: impl Into<Bytes>) -> u32 {
        todo!()
    }

    /// Deletes a row.
    pub fn delete(&mut self, _key: impl Into<Bytes>) -> u32 {
        todo!()
    }

    /// Adds an opaque change record to the batch, for those who follow the log.
    pub fn change(&mut self, _record: impl Into<Bytes>) {
        todo!()
    }
}
