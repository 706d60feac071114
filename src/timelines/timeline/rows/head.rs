//! The head row of a timeline.
//!
//! Owns: the head's columns. Promises: a head row is written with every change of its timeline and is never dropped, so
//! that a name's incarnations only rise. Must not: decide anything.

use bytes::Bytes;

use tideline_base::ordered::Reader;
use tideline_table::{Key, ReadError, Source, columns, load, read_row};

use super::super::Standing;
use super::tables::Name;

/// The state of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct HeadRow {
    /// Tells the timeline from earlier ones of its name; rises.
    pub(in super::super) incarnation: u64,
    /// The last sequence, 0 if none.
    pub(in super::super) last: u64,
    /// The last change number, 0 if none.
    pub(in super::super) change: u64,
    /// The lowest readable sequence.
    pub(in super::super) floor: u64,
    /// Timestamp of the last message, 0 if none, ms.
    pub(in super::super) last_at: u64,
    /// The timeline was deleted; its rows have expired.
    pub(in super::super) dropped: bool,
    /// How many members there are.
    pub(in super::super) members: u32,
    /// The last number of a change of members or of the right to read; 0 if none.
    pub(in super::super) member_version: u64,
    /// Up to here the rows that unread counts need are kept; 0 while there are members. See [`HeadRow::counted`].
    pub(in super::super) counted: u64,
    /// What is set explicitly; see [`MEMBERS_ONLY`] and the others.
    pub(in super::super) flags: u8,
    /// How many followers there are.
    pub(in super::super) followers: u32,
    /// Messages from here on are written into inboxes; 0 = none are.
    pub(in super::super) inbox_from: u64,
    /// When the timeline is to be trimmed by age, ms; 0 = there is no due row.
    pub(in super::super) trim_at: u64,
    /// Bytes of messages that were appended while a retention by bytes was in force.
    pub(in super::super) bytes: u64,
    /// How many messages are open.
    pub(in super::super) open: u32,
    /// Where in the log this row was last written, while there are members; else 0.
    pub(in super::super) position: u64,
}

/// There is a settings row.
pub(in super::super) const HAS_SETTINGS: u8 = 1;
/// Its settings say that only members may read.
pub(in super::super) const MEMBERS_ONLY: u8 = 2;
/// Its settings say that others may read too, whatever the policy says.
pub(in super::super) const OPEN_TO_ALL: u8 = 4;

/// A message of it has, or once had, a reaction.
pub(in super::super) const HAS_REACTIONS: u8 = 8;
/// There were more members and followers than `fan_out: "auto"` writes into inboxes of.
pub(in super::super) const TOO_MANY: u8 = 16;
/// Nothing is appended any more.
pub(in super::super) const CLOSED: u8 = 32;
/// There is a row of it as a stream.
pub(in super::super) const HAS_STREAM: u8 = 64;

columns! { HeadRow {
    "$at": last_at,
    "$bytes": bytes,
    "$change": change,
    "$counted": counted,
    "$dropped": dropped,
    "$flags": flags,
    "$floor": floor = 1u64,
    "$followers": followers,
    "$inbox": inbox_from,
    "$inc": incarnation,
    "$members": members,
    "$mver": member_version,
    "$open": open,
    "$pos": position,
    "$seq": last,
    "$trim": trim_at,
} }

const WHAT: &str = "not a head row";

impl HeadRow {
    /// A timeline without messages.
    pub(in super::super) fn new(incarnation: u64) -> HeadRow {
        HeadRow {
            incarnation,
            floor: 1,
            ..HeadRow::default()
        }
    }

    /// A deleted timeline: what is left is the incarnation that the next one must pass.
    pub(in super::super) fn dropped(incarnation: u64) -> HeadRow {
        HeadRow {
            dropped: true,
            ..HeadRow::new(incarnation)
        }
    }

    /// Reads a name's row, also that of a deleted timeline.
    pub(in super::super) fn load(
        rows: &impl Source,
        name: &Name,
    ) -> Result<Option<HeadRow>, ReadError> {
        HeadRow::load_at(rows, &name.head_key())
    }

    /// Its members.
    pub(in super::super) fn membership(&self) -> Standing {
        Standing {
            incarnation: self.incarnation,
            version: self.member_version,
            members: u64::from(self.members),
        }
    }

    /// Reads the row of a timeline that exists.
    pub(in super::super) fn existing(
        rows: &impl Source,
        name: &Name,
    ) -> Result<Option<HeadRow>, ReadError> {
        Ok(HeadRow::load(rows, name)?.filter(|head| !head.dropped))
    }

    fn load_at(rows: &impl Source, key: &Key) -> Result<Option<HeadRow>, ReadError> {
        load(rows, key, WHAT, HeadRow::decode)
    }

    /// A name and its row, as they are in the table of heads.
    pub(in super::super) fn named(row: &(Bytes, Bytes)) -> Result<(String, HeadRow), ReadError> {
        read_row(row, WHAT, |columns, value| {
            let timeline = Reader::new(columns).string()?;
            Ok((timeline.into_owned(), HeadRow::decode(value)?))
        })
    }

    /// Whether nothing is appended any more.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.flags & CLOSED != 0
    }

    /// Whether messages may have reactions.
    pub(in super::super) fn has_reactions(&self) -> bool {
        self.flags & HAS_REACTIONS != 0
    }

    /// Up to which sequence the rows are kept that unread counts need: all, once there are members.
    pub(in super::super) fn counted(&self) -> u64 {
        match self.members {
            0 => self.counted,
            _ => self.last,
        }
    }

    /// Those rows are kept up to this sequence now.
    pub(in super::super) fn set_counted(&mut self, counted: u64) {
        self.counted = counted;
    }

    /// Sets the number of members. Without any, rows are no longer written with messages.
    pub(in super::super) fn set_members(&mut self, members: u32) {
        self.counted = if members == 0 { self.counted() } else { 0 };
        self.members = members;
    }

    /// Whether a message of this sequence can be read.
    pub(in super::super) fn holds(&self, sequence: u64) -> bool {
        (self.floor..=self.last).contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_come_back(
            numbers in any::<[u64; 11]>(), dropped: bool, members: u32, followers: u32, open: u32,
            flags: u8,
        ) {
            let [incarnation, last, change, floor, last_at, rest @ ..] = numbers;
            let [member_version, counted, inbox_from, position, trim_at, bytes] = rest;
            let counted = if members == 0 { counted } else { 0 };
            let head = HeadRow {
                incarnation, last, change, floor, last_at, dropped,
                members, member_version, counted, flags, followers, inbox_from, position, trim_at, bytes,
                open,
            };
            prop_assert_eq!(HeadRow::decode(&head.encode().finish(5)), Ok(head));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = HeadRow::decode(&bytes);
        }
    }

    #[test]
    fn an_ordinary_head_row_is_small() {
        let head = HeadRow {
            last: 1_000,
            last_at: 1_700_000_000_000,
            ..HeadRow::new(100_000)
        };
        assert_eq!(head.encode().finish(0).len(), 38);
    }
}
