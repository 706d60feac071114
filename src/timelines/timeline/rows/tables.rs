//! The tables that timelines live in, and the keys of their rows.
//!
//! Owns: table IDs and primary keys; both are part of the format on disk. Promises: the first key column of every table
//! but that of due rows is the timeline's ID, by which all its rows are placed; rows of one incarnation lie together,
//! in the order of their numbers. Must not: know what is in the rows.
//!
//! ```text
//! 1 heads     (timeline)                                             one per name, for ever
//! 2 metas     (timeline)                                             while the timeline exists
//! 3 messages  (timeline, incarnation, sequence)
//! 4 IDs       (timeline, incarnation, sender, message ID)            only for IDs that clients gave
//! 5 changes   (timeline, incarnation, change number)                 the last change of a message
//! 6 settings  (timeline, incarnation)                                only if some were ever set
//! 7 members   (timeline, incarnation, user)
//! 8 member changes  (timeline, incarnation, member version)          for 30 days
//! 9 senders   (timeline, incarnation, sender, sequence)
//! 10 mentions (timeline, incarnation, user or `*`, sequence)
//! 11 hides    (timeline, incarnation, user, joined, sequence)        12 the same by number: (…, joined, number)
//! 13 gone     (timeline, incarnation, sender or "" for all, level, block)
//! 14 reactions  (timeline, incarnation, sequence, name, user)        15 their sums: (timeline, incarnation, sequence)
//! 18 due      (kind, time, timeline, …)                              see `time/due.rs`
//! 20 followers  (timeline, incarnation, user)
//! 22 pins     (timeline, incarnation, sequence)
//! 23 scheduled  (timeline, sender, message ID)                       messages that are to be appended later
//! 24 marks    (timeline, incarnation, sequence)                      see `time/retention.rs`
//! 25 policies (1)                                                    see `time/changed_policies.rs`
//! 26 parts    (timeline, incarnation, sequence, part)                see `growth/mod.rs`
//! 27 open     (timeline, incarnation, sequence)                      messages that are open
//! 28 streams  (timeline, incarnation, producer; "" = its own)        see `streams/row.rs`
//! 29 forks    (timeline, fork)                                       see `streams/fork.rs`
//! ```
//! 21 is in change records only: messages that go into inboxes. 16 and 17 are the table layer's own, 32 to 35 lie at a
//! user (`people/tables.rs`), 40 are the relay's cursors (`relay/cursor.rs`), 41 its long work
//! (`people/feeds/jobs.rs`), 49 named cursors (`src/table/stream/cursors.rs`), 50 dead letters
//! (`src/gateway/webhook/dead.rs`).
//!
//! A message ID that is the usual text of a UUID is a binary column of its 16 bytes, any other a string column.

use std::borrow::Cow;

use uuid::Uuid;

use tideline_base::ids::TableId;
use tideline_base::ordered;
use tideline_base::ordered::{INTEGER_BYTES_MAX, Malformed, Reader};
use tideline_model::ValueRef;
use tideline_table::Key;

pub(in super::super) const HEADS: TableId = TableId(1);
pub(in super::super) const METAS: TableId = TableId(2);
pub(in super::super) const MESSAGES: TableId = TableId(3);
pub(in super::super) const IDS: TableId = TableId(4);
pub(in super::super) const CHANGES: TableId = TableId(5);
pub(in super::super) const SETTINGS: TableId = TableId(6);
/// Its change records lead to rows at users.
pub const MEMBERS: TableId = TableId(7);
pub(in super::super) const MEMBER_CHANGES: TableId = TableId(8);
pub(in super::super) const SENDERS: TableId = TableId(9);
pub(in super::super) const MENTIONS: TableId = TableId(10);
pub(in super::super) const HIDES: TableId = TableId(11);
pub(in super::super) const HIDES_BY_NUMBER: TableId = TableId(12);
pub(in super::super) const GONE: TableId = TableId(13);
pub(in super::super) const REACTIONS: TableId = TableId(14);
pub(in super::super) const REACTION_SUMS: TableId = TableId(15);
pub(in super::super) const DUE: TableId = TableId(18);
/// Its change records lead to rows at users.
pub const FOLLOWERS: TableId = TableId(20);
/// No rows; records of it name messages that go into inboxes.
pub const POSTS: TableId = TableId(21);
pub(in super::super) const PINS: TableId = TableId(22);
pub(in super::super) const SCHEDULED: TableId = TableId(23);
pub(in super::super) const MARKS: TableId = TableId(24);
pub(in super::super) const POLICIES: TableId = TableId(25);
pub(in super::super) const PARTS: TableId = TableId(26);
pub(in super::super) const OPEN: TableId = TableId(27);
pub(in super::super) const STREAMS: TableId = TableId(28);
pub(in super::super) const FORKS: TableId = TableId(29);
/// At a user, whose rows `people` reads and writes; here a change of one wakes the user's subscriptions.
pub const CONVERSATIONS: TableId = TableId(32);
/// How far what is derived follows the changes it is derived from; `relay` reads and writes them.
pub const RELAYS: TableId = TableId(40);

/// Above every sequence.
pub(in super::super) const SEQUENCE_END: u64 = i64::MAX.cast_unsigned();

/// A timeline's ID as the first key column of its rows.
#[derive(Clone, Debug)]
pub(in super::super) struct Name(Vec<u8>);

impl Name {
    pub(in super::super) fn new(timeline: &str) -> Name {
        let mut encoded = Vec::with_capacity(ordered::text_bytes(timeline.len()));
        ordered::push_string(&mut encoded, timeline);
        Name(encoded)
    }

    /// The name that a key's columns begin with.
    pub(in super::super) fn of(columns: &[u8]) -> Result<Name, Malformed> {
        Ok(Name(Reader::new(columns).skip()?.to_vec()))
    }

    /// The timeline's ID.
    pub(in super::super) fn text(&self) -> Result<String, Malformed> {
        Ok(Reader::new(&self.0).string()?.into_owned())
    }

    /// The ID's bytes, without a copy: no ID has a control character, which alone would be escaped.
    pub(in super::super) fn id(&self) -> &[u8] {
        &self.0[1..self.0.len() - 2]
    }

    /// The encoded column.
    pub(in super::super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(in super::super) fn head_key(&self) -> Key {
        Key::new(HEADS, &self.0, 0)
    }

    pub(in super::super) fn meta_key(&self) -> Key {
        Key::new(METAS, &self.0, 0)
    }

    pub(in super::super) fn message_key(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(MESSAGES, incarnation, INTEGER_BYTES_MAX)
            .number(sequence)
    }

    pub(in super::super) fn change_key(&self, incarnation: u64, change: u64) -> Key {
        self.numbered(CHANGES, incarnation, INTEGER_BYTES_MAX)
            .number(change)
    }

    pub(in super::super) fn settings_key(&self, incarnation: u64) -> Key {
        self.numbered(SETTINGS, incarnation, 0)
    }

    pub(in super::super) fn member_key(&self, incarnation: u64, user: &str) -> Key {
        let more = ordered::text_bytes(user.len());
        self.numbered(MEMBERS, incarnation, more).string(user)
    }

    pub(in super::super) fn follower_key(&self, incarnation: u64, user: &str) -> Key {
        let more = ordered::text_bytes(user.len());
        self.numbered(FOLLOWERS, incarnation, more).string(user)
    }

    pub(in super::super) fn member_change_key(&self, incarnation: u64, version: u64) -> Key {
        self.numbered(MEMBER_CHANGES, incarnation, INTEGER_BYTES_MAX)
            .number(version)
    }

    pub(in super::super) fn mark_key(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(MARKS, incarnation, INTEGER_BYTES_MAX)
            .number(sequence)
    }

    /// What the keys of a message's parts begin with.
    pub(in super::super) fn parts_of(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(PARTS, incarnation, 2 * INTEGER_BYTES_MAX)
            .number(sequence)
    }

    pub(in super::super) fn open_key(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(OPEN, incarnation, INTEGER_BYTES_MAX)
            .number(sequence)
    }

    /// The key of a user's reaction, without the user.
    pub(in super::super) fn reaction_keys(
        &self,
        incarnation: u64,
        sequence: u64,
        reaction: &str,
    ) -> Key {
        let more = INTEGER_BYTES_MAX + 2 * ordered::text_bytes(reaction.len());
        self.numbered(REACTIONS, incarnation, more)
            .number(sequence)
            .string(reaction)
    }

    pub(in super::super) fn reaction_sums_key(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(REACTION_SUMS, incarnation, INTEGER_BYTES_MAX)
            .number(sequence)
    }

    pub(in super::super) fn pin_key(&self, incarnation: u64, sequence: u64) -> Key {
        self.numbered(PINS, incarnation, INTEGER_BYTES_MAX)
            .number(sequence)
    }

    /// What the keys of the forks of a name begin with, whatever its incarnation.
    pub(in super::super) fn forks(&self) -> Key {
        Key::new(FORKS, &self.0, 0)
    }

    pub(in super::super) fn fork_key(&self, fork: &str) -> Key {
        Key::new(FORKS, &self.0, ordered::text_bytes(fork.len())).string(fork)
    }

    pub(in super::super) fn stream_key(&self, incarnation: u64, producer: &str) -> Key {
        let more = ordered::text_bytes(producer.len());
        self.numbered(STREAMS, incarnation, more).string(producer)
    }

    /// `columns`: see [`id_columns`].
    pub(in super::super) fn scheduled_key(&self, columns: &[u8]) -> Key {
        Key::new(SCHEDULED, &self.0, columns.len()).columns(columns)
    }

    /// `columns`: see [`id_columns`].
    pub(in super::super) fn id_key(&self, incarnation: u64, columns: &[u8]) -> Key {
        self.numbered(IDS, incarnation, columns.len())
            .columns(columns)
    }

    /// The number behind the incarnation in the key of a message, a change or a mark.
    pub(in super::super) fn number_of(&self, key: &[u8]) -> Result<u64, Malformed> {
        self.behind_incarnation(key)?.u64()
    }

    /// The columns behind the incarnation in a key.
    pub(in super::super) fn behind_incarnation<'k>(
        &self,
        key: &'k [u8],
    ) -> Result<Reader<'k>, Malformed> {
        let columns = key.get(4 + self.0.len()..).ok_or(Malformed)?;
        let mut reader = Reader::new(columns);
        reader.skip()?;
        Ok(reader)
    }

    /// What the keys of an incarnation's rows in a table begin with.
    pub(in super::super) fn rows_of(&self, table: TableId, incarnation: u64) -> Key {
        self.numbered(table, incarnation, INTEGER_BYTES_MAX)
    }

    fn numbered(&self, table: TableId, incarnation: u64, more: usize) -> Key {
        Key::new(table, &self.0, INTEGER_BYTES_MAX + more).number(incarnation)
    }
}

/// The columns behind the incarnation in an ID row's key.
pub(in super::super) fn id_columns(sender: &str, id: &str) -> Vec<u8> {
    let mut columns = Vec::with_capacity(ordered::text_bytes(sender.len() + id.len()) + 3);
    ordered::push_string(&mut columns, sender);
    match uuid_of(id) {
        Some(uuid) => ordered::push_binary(&mut columns, uuid.as_bytes()),
        None => ordered::push_string(&mut columns, id),
    }
    columns
}

/// A row's key columns behind the timeline: incarnation and, in messages and changes, the number.
pub(in super::super) fn incarnation_of(columns: &[u8]) -> Result<(u64, Reader<'_>), Malformed> {
    let mut reader = Reader::new(columns);
    reader.skip()?;
    let incarnation = reader.u64()?;
    Ok((incarnation, reader))
}

/// The UUID whose usual text (lower case, hyphens) this is: such IDs are common, and 16 bytes are less than 36.
pub(in super::super) fn uuid_of(id: &str) -> Option<Uuid> {
    if id.len() != uuid::fmt::Hyphenated::LENGTH {
        return None;
    }
    let uuid = Uuid::try_parse(id).ok()?;
    let mut text = Uuid::encode_buffer();
    (uuid.hyphenated().encode_lower(&mut text) == id).then_some(uuid)
}

/// The text of a message ID as it is stored in a cell.
pub(in super::super) fn id_text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::String(text) => Some(Cow::Borrowed(text)),
        ValueRef::Binary(bytes) => Uuid::from_slice(bytes)
            .ok()
            .map(|uuid| Cow::Owned(uuid.hyphenated().to_string())),
        _ => None,
    }
}

/// The name of the table that shows messages.
pub const MESSAGE_TABLE: &str = "timeline_message";
/// The name of the table that shows metas.
pub const META_TABLE: &str = "timeline_meta";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_text_of_a_uuid_is_one() {
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        let bytes = *uuid_of(uuid).unwrap().as_bytes();
        assert_eq!(id_text(ValueRef::Binary(&bytes)).unwrap(), uuid);
        for other in [
            uuid.to_uppercase(),
            uuid.replace('-', ""),
            format!("{{{uuid}}}"),
            "01890a5d-ac96-774b-bcce-b302099a805g".to_owned(),
            "01890a5dac96-774b-bcce-b302099a80577".to_owned(),
        ] {
            assert_eq!(uuid_of(&other), None, "{other}");
        }
        assert_ne!(id_columns("a", uuid), id_columns("a", &uuid.to_uppercase()));
        assert_ne!(id_columns("ab", "c"), id_columns("a", "bc"));
    }

    #[test]
    fn numbers_come_back_out_of_keys() {
        let name = Name::new("room");
        let key = name.message_key(300, 7);
        assert_eq!(name.number_of(key.as_bytes()), Ok(7));
        let (_, columns) = tideline_table::split_key(key.as_bytes()).unwrap();
        let (incarnation, mut rest) = incarnation_of(columns).unwrap();
        assert_eq!((incarnation, rest.u64()), (300, Ok(7)));
        assert_eq!(Name::of(columns).unwrap().head_key(), name.head_key());
    }
}
