//! Pages of messages out of one view.
//!
//! Owns: how a run of sequences is read and where a page ends. Promises: what is read is contiguous; a message that
//! is missing between floor and head is an error, never a gap; a page holds at least one message, unless it may be
//! empty. Must not: live longer than the view that it was given.

use std::ops::Range;

use tideline_model::Direction;
use tideline_table::{ReadError, Rows, View, damaged, scan};

use super::super::Message;
use super::super::growth;
use super::super::marks;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::Name;
use super::super::time::{Time, shown};

/// How much a page may still hold.
pub(in super::super) struct Room {
    /// Messages.
    pub(in super::super) limit: usize,
    /// Bytes of JSON, about.
    pub(in super::super) bytes: usize,
    /// Take the first even if it is larger than the room.
    pub(in super::super) first_anyway: bool,
}

impl Room {
    /// Whether `message` goes in; takes its room.
    pub(in super::super) fn take(&mut self, message: &Message) -> bool {
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
pub(in super::super) struct Run<'a> {
    pub(in super::super) name: &'a Name,
    pub(in super::super) head: &'a HeadRow,
    pub(in super::super) first: u64,
    pub(in super::super) end: u64,
    pub(in super::super) backward: bool,
    /// Only these columns, sorted.
    pub(in super::super) columns: Option<&'a [String]>,
}

impl Run<'_> {
    /// The messages that there is room for, and the first sequence that is left.
    pub(in super::super) fn read(
        &self,
        view: &View,
        room: &mut Room,
        time: &Time,
    ) -> Result<(Vec<Message>, Option<u64>), ReadError> {
        let (sequences, direction) = if self.backward {
            (self.end + 1..self.first + 1, Direction::Backward)
        } else {
            (self.first..self.end, Direction::Forward)
        };
        let mut messages = Vec::new();
        if sequences.is_empty() {
            return Ok((messages, None));
        }
        let timeline = (self.name, self.head);
        let mut held = Held::new(view, timeline, sequences, direction, self.columns);
        while room.limit > 0
            && let Some(message) = held.next().transpose()?
        {
            let message = shown(message, time);
            if !room.take(&message) {
                return Ok((messages, Some(message.sequence)));
            }
            messages.push(message);
        }
        Ok((messages, held.upcoming()))
    }
}

/// Messages that a timeline holds, one after the other. Lazy.
pub(in super::super) struct Held<'v> {
    view: &'v View,
    name: Name,
    head: HeadRow,
    left: Range<u64>,
    direction: Direction,
    columns: Option<&'v [String]>,
    rows: Rows<'v>,
    reactions: Option<marks::Walk<'v>>,
}

impl<'v> Held<'v> {
    /// Those with these sequences, of which the head holds all. `columns`: as in [`Run`].
    pub(in super::super) fn new(
        view: &'v View,
        (name, head): (&Name, &HeadRow),
        sequences: Range<u64>,
        direction: Direction,
        columns: Option<&'v [String]>,
    ) -> Held<'v> {
        let key = |sequence| name.message_key(head.incarnation, sequence);
        Held {
            rows: scan(view, &key(sequences.start), &key(sequences.end), direction),
            reactions: marks::Walk::new(view, (name, head), &sequences, direction),
            name: name.clone(),
            view,
            head: *head,
            left: sequences,
            direction,
            columns,
        }
    }

    /// The sequence that comes next.
    pub(in super::super) fn upcoming(&self) -> Option<u64> {
        match self.direction {
            _ if self.left.is_empty() => None,
            Direction::Forward => Some(self.left.start),
            Direction::Backward => Some(self.left.end - 1),
        }
    }

    fn read(&mut self, sequence: u64) -> Result<Message, ReadError> {
        let row = self.rows.next().transpose()?;
        let row = row.filter(|(key, _)| self.name.number_of(key) == Ok(sequence));
        let damaged = |what| {
            let key = self.name.message_key(self.head.incarnation, sequence);
            damaged(key.as_bytes(), what)
        };
        let (_, value) = row.ok_or_else(|| damaged("missing between floor and head"))?;
        let mut message = stored::message(sequence, &value, self.columns)
            .map_err(|_| damaged("not a message"))?;
        if let Some(reactions) = &mut self.reactions {
            reactions.look_up(&mut message)?;
        }
        if message.open.is_some() {
            let (name, head) = (&self.name, &self.head);
            growth::look_up(self.view, name, head, &mut message, self.columns)?;
        }
        Ok(message)
    }
}

impl Iterator for Held<'_> {
    type Item = Result<Message, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let sequence = self.upcoming()?;
        match self.direction {
            Direction::Forward => self.left.start += 1,
            Direction::Backward => self.left.end -= 1,
        }
        Some(self.read(sequence))
    }
}
