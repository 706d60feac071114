//! Pages of messages out of one view.
//!
//! Owns: how a run of sequences is read and where a page ends. Promises: what a page holds is contiguous; a message
//! that is missing between floor and head is an error, never a gap; a page holds at least one message, unless it may be
//! empty. Must not: live longer than the view that it was given.

use crate::table::{Direction, ReadError, View, damaged, scan};

use super::Message;
use super::head::HeadRow;
use super::stored;
use super::tables::Name;

/// How much a page may still hold.
pub(super) struct Room {
    /// Messages.
    pub(super) limit: usize,
    /// Bytes of JSON, about.
    pub(super) bytes: usize,
    /// Take the first even if it is larger than the room.
    pub(super) first_anyway: bool,
}

impl Room {
    /// Whether `message` goes in; takes its room.
    pub(super) fn take(&mut self, message: &Message) -> bool {
        let bytes = message.json_bytes_max();
        if self.limit == 0 || (bytes > self.bytes && !self.first_anyway) {
            return false;
        }
        self.limit -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.first_anyway = false;
        true
    }
}

/// A run of sequences to read: from `first` (inclusive) towards `end` (exclusive), rising or falling. Both lie within
/// what the head holds.
pub(super) struct Run<'a> {
    pub(super) name: &'a Name,
    pub(super) head: &'a HeadRow,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) backward: bool,
    /// Only these columns, sorted.
    pub(super) columns: Option<&'a [String]>,
}

impl Run<'_> {
    /// The messages that there is room for, and the first sequence that is left.
    pub(super) fn read(
        &self,
        view: &View,
        room: &mut Room,
    ) -> Result<(Vec<Message>, Option<u64>), ReadError> {
        let (low, high, direction) = if self.backward {
            (self.end + 1, self.first + 1, Direction::Backward)
        } else {
            (self.first, self.end, Direction::Forward)
        };
        let count = high.saturating_sub(low);
        let mut messages = Vec::new();
        if count == 0 {
            return Ok((messages, None));
        }
        let key = |sequence| self.name.message_key(self.head.incarnation, sequence);
        let mut rows = scan(view, &key(low), &key(high), direction);
        for step in 0..count {
            let sequence = if self.backward {
                self.first - step
            } else {
                self.first + step
            };
            if room.limit == 0 {
                return Ok((messages, Some(sequence)));
            }
            let Some((found, value)) = rows.next().transpose()? else {
                return Err(damaged(
                    key(sequence).as_bytes(),
                    "missing between floor and head",
                ));
            };
            if self.name.number_of(&found) != Ok(sequence) {
                return Err(damaged(
                    key(sequence).as_bytes(),
                    "missing between floor and head",
                ));
            }
            let message = stored::message(sequence, &value, self.columns)
                .map_err(|_| damaged(&found, "not a message"))?;
            if !room.take(&message) {
                return Ok((messages, Some(sequence)));
            }
            messages.push(message);
        }
        Ok((messages, None))
    }
}
