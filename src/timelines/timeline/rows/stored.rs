//! Messages, metas, IDs and changes as rows.
//!
//! Owns: the columns of those rows. Promises: a client's columns and ours never meet, because ours begin with `$`; the
//! version of a row's cells is its time (of a message: its timestamp). Must not: write a store.
//!
//! ```text
//! message  the entry's columns, $change, $deleted, $edited, $expired, $expires, $from, $id, $pinned, $reason,
//!          $recalled (by whom, perhaps the empty text); of one that is or was open also $grows (its column, while it
//!          is), $idle (ms), $outcome (1 done, 2 cancelled, 3 failed, 4 abandoned), $parts (those in its text here),
//!          $stopped (by whom, perhaps the empty text)            version = timestamp; absent = 0, no or none
//! ID       $hash (of the entry's cells as first appended), $seq            version = timestamp
//! change   $seq
//! ```

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use tideline_model::{Value, ValueRef};
use tideline_table::{
    Malformed, ReadError, Row, RowWriter, Source, columns, damaged, number, number_in, push_other,
};

use super::super::{Columns, Message, Meta};
use super::head::HeadRow;
use super::tables::{Name, id_text, uuid_of};
use tideline_model::timelines::{Open, Outcome};

const CHANGE: &str = "$change";
const DELETED: &str = "$deleted";
const EDITED: &str = "$edited";
const EXPIRED: &str = "$expired";
const EXPIRES: &str = "$expires";
const SENDER: &str = "$from";
pub(in super::super) const GROWS: &str = "$grows";
const ID: &str = "$id";
const IDLE: &str = "$idle";
const OUTCOME: &str = "$outcome";
const PARTS: &str = "$parts";
const PINNED: &str = "$pinned";
const REASON: &str = "$reason";
const RECALLED: &str = "$recalled";
const STOPPED: &str = "$stopped";

const HASH: &str = "$hash";
const SEQUENCE: &str = "$seq";

/// What is in a message's row beside the entry.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Stamp<'a> {
    pub(in super::super) message_id: &'a str,
    pub(in super::super) sender: &'a str,
    pub(in super::super) change: u64,
    pub(in super::super) edited_at: Option<u64>,
    pub(in super::super) expires_at: Option<u64>,
    /// The message, if it is a tombstone.
    pub(in super::super) tombstone: Option<&'a Message>,
    pub(in super::super) pinned: bool,
    /// If it is open.
    pub(in super::super) open: Option<&'a Open>,
    /// The message, if it was open once and is no tombstone.
    pub(in super::super) closed: Option<&'a Message>,
    /// How many parts are in its text.
    pub(in super::super) parts: u64,
}

/// A message's row and, in it, where the entry's cells are.
pub(in super::super) struct MessageRow {
    pub(in super::super) row: RowWriter,
    /// The cells before and behind our own.
    entry: (std::ops::RangeTo<usize>, std::ops::RangeFrom<usize>),
}

impl MessageRow {
    /// `entry` is sorted by name.
    pub(in super::super) fn new(entry: &[(String, Value)], stamp: &Stamp<'_>) -> MessageRow {
        let own = stamp.message_id.len() + stamp.sender.len() + 64;
        let (mut row, behind) = RowWriter::beside(entry, own);
        let start = row.cells().len();
        put_number(&mut row, CHANGE, stamp.change);
        if stamp.tombstone.is_some() {
            row.put(DELETED, ValueRef::Boolean(true));
        }
        put_number(&mut row, EDITED, stamp.edited_at.unwrap_or(0));
        if stamp.tombstone.is_some_and(|one| one.expired) {
            row.put(EXPIRED, ValueRef::Boolean(true));
        }
        put_number(&mut row, EXPIRES, stamp.expires_at.unwrap_or(0));
        put_text(&mut row, SENDER, stamp.sender);
        if let Some(open) = stamp.open {
            row.put(GROWS, ValueRef::String(&open.column));
        }
        match uuid_of(stamp.message_id) {
            Some(uuid) => row.put(ID, ValueRef::Binary(uuid.as_bytes())),
            None => row.put(ID, ValueRef::String(stamp.message_id)),
        }
        put_number(&mut row, IDLE, stamp.open.map_or(0, |open| open.idle_ms));
        put_number(&mut row, OUTCOME, stamp.closed.map_or(0, outcome));
        put_number(&mut row, PARTS, stamp.parts);
        if stamp.pinned {
            row.put(PINNED, ValueRef::Boolean(true));
        }
        if let Some(one) = stamp.tombstone.or(stamp.closed) {
            put_text(&mut row, REASON, one.reason.as_deref().unwrap_or_default());
            if let Some(by) = &one.recalled_by {
                row.put(RECALLED, ValueRef::String(by));
            }
            if let Some(by) = &one.stopped_by {
                row.put(STOPPED, ValueRef::String(by));
            }
        }
        let end = row.cells().len();
        row.put_all(behind);
        MessageRow {
            row,
            entry: (..start, end..),
        }
    }

    /// The row of a message in a new form.
    pub(in super::super) fn of(message: &Message) -> MessageRow {
        let stamp = Stamp {
            message_id: &message.message_id,
            sender: &message.sender,
            change: message.change,
            edited_at: message.edited_at,
            expires_at: message.expires_at,
            tombstone: Some(message).filter(|message| message.deleted),
            pinned: message.pinned,
            open: message.open.as_deref(),
            closed: Some(message).filter(|message| message.outcome.is_some()),
            parts: message.parts.unwrap_or(0),
        };
        MessageRow::new(message.entry.as_deref().unwrap_or_default(), &stamp)
    }

    /// The hash that tells this entry from others: of the cells' bytes, so by value and by type.
    pub(in super::super) fn entry_hash(&self) -> u128 {
        let before = &self.row.cells()[self.entry.0];
        let behind = &self.row.cells()[self.entry.1.clone()];
        if before.is_empty() {
            return xxh3_128(behind);
        }
        let mut hash = Xxh3::new();
        hash.update(before);
        hash.update(behind);
        hash.digest128()
    }
}

/// How a message ended that was open, as it is stored.
fn outcome(message: &Message) -> u64 {
    match message.outcome {
        None => 0,
        Some(Outcome::Done) => 1,
        Some(Outcome::Cancelled) => 2,
        Some(Outcome::Failed) if message.abandoned => 4,
        Some(Outcome::Failed) => 3,
    }
}

/// A number that is not there if it is 0.
pub(in super::super) fn put_number(row: &mut RowWriter, name: &str, number: u64) {
    if number != 0 {
        row.put(name, number.into());
    }
}

/// A text that is not there if it is empty.
pub(in super::super) fn put_text(row: &mut RowWriter, name: &str, text: &str) {
    if !text.is_empty() {
        row.put(name, ValueRef::String(text));
    }
}

pub(in super::super) fn text(value: ValueRef<'_>) -> Result<String, Malformed> {
    match value {
        ValueRef::String(text) => Ok(text.to_owned()),
        _ => Err(Malformed),
    }
}

/// Reads a message, with only `columns` (sorted) of its entry if they are given.
pub(in super::super) fn message(
    sequence: u64,
    value: &[u8],
    columns: Option<&[String]>,
) -> Result<Message, Malformed> {
    let row = Row::parse(value)?;
    let mut entry = Columns::new();
    let mut message = Message {
        sequence,
        ..Message::default()
    };
    let mut take = |cell: tideline_model::Cell<'_>| -> Result<(), Malformed> {
        match cell.name {
            CHANGE => message.change = number(cell.value)?,
            DELETED => message.deleted = true,
            EDITED => message.edited_at = Some(number(cell.value)?),
            EXPIRED => message.expired = true,
            EXPIRES => message.expires_at = Some(number(cell.value)?),
            SENDER => message.sender = text(cell.value)?,
            GROWS => message.open.get_or_insert_default().column = text(cell.value)?,
            IDLE => message.open.get_or_insert_default().idle_ms = number(cell.value)?,
            OUTCOME => {
                message.outcome = Some(match number(cell.value)? {
                    1 => Outcome::Done,
                    2 => Outcome::Cancelled,
                    3 => Outcome::Failed,
                    4 => {
                        message.abandoned = true;
                        Outcome::Failed
                    }
                    _ => return Err(Malformed),
                });
            }
            PARTS => message.parts = Some(number(cell.value)?),
            STOPPED => message.stopped_by = Some(text(cell.value)?),
            PINNED => message.pinned = true,
            REASON => message.reason = Some(text(cell.value)?),
            RECALLED => message.recalled_by = Some(text(cell.value)?),
            ID => {
                message.message_id = id_text(cell.value).ok_or(Malformed)?.into_owned();
                message.timestamp = cell.version.cast_unsigned();
            }
            _ => push_other(Some(&mut entry), cell)?,
        }
        Ok(())
    };
    match columns {
        None => row.columns().try_for_each(|cell| take(cell?))?,
        Some(columns) => {
            let ours = [
                CHANGE, DELETED, EDITED, EXPIRED, EXPIRES, SENDER, GROWS, ID, IDLE, OUTCOME, PARTS,
                PINNED, REASON, RECALLED, STOPPED,
            ];
            let before = columns.partition_point(|name| name.as_str() < "$");
            let (before, behind) = columns.split_at(before);
            let names = before
                .iter()
                .map(String::as_str)
                .chain(ours)
                .chain(behind.iter().map(String::as_str));
            row.pick(names).try_for_each(|cell| take(cell?))?;
        }
    }
    message.entry = (!message.deleted).then_some(entry);
    if message.open.is_some() || message.outcome.is_some() {
        message.parts.get_or_insert(0);
    }
    Ok(message)
}

/// Reads a message between floor and head, as its row has it: one that is missing there is damage.
pub(in super::super) fn load(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
    columns: Option<&[String]>,
) -> Result<Message, ReadError> {
    let key = name.message_key(head.incarnation, sequence);
    let read = |value: &[u8]| message(sequence, value, columns);
    let found = tideline_table::load(rows, &key, "not a message", read)?;
    found.ok_or_else(|| damaged(key.as_bytes(), "missing between floor and head"))
}

/// What members count of a message.
pub(in super::super) struct Outline<'a> {
    /// Empty = none.
    pub(in super::super) sender: &'a str,
    pub(in super::super) deleted: bool,
    /// The JSON text of the entry's array of this name.
    pub(in super::super) mentions: Option<&'a str>,
}

/// Reads that of a message's row.
pub(in super::super) fn outline(value: &[u8]) -> Result<Outline<'_>, Malformed> {
    let mut outline = Outline {
        sender: "",
        deleted: false,
        mentions: None,
    };
    for cell in Row::parse(value)?.pick([DELETED, SENDER, "mentions"]) {
        let cell = cell?;
        match (cell.name, cell.value) {
            (DELETED, _) => outline.deleted = true,
            (SENDER, ValueRef::String(sender)) => outline.sender = sender,
            (SENDER, _) => return Err(Malformed),
            (_, ValueRef::Json(text)) => outline.mentions = Some(text),
            _ => {}
        }
    }
    Ok(outline)
}

/// A timeline's meta and what is returned with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct MetaRow {
    /// Sorted by name.
    pub(in super::super) meta: Meta,
    pub(in super::super) version: u64,
    pub(in super::super) created_at: u64,
    pub(in super::super) updated_at: u64,
}

columns! { MetaRow beside meta {
    "$created": created_at,
    "$updated": updated_at,
    "$version": version,
} }

/// What is remembered of a message ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct IdRow {
    pub(in super::super) sequence: u64,
    /// The message's timestamp: the version of the cells.
    pub(in super::super) timestamp: u64,
    pub(in super::super) hash: u128,
}

impl IdRow {
    /// To be finished with the timestamp as version. Sequence 0: scheduled, the timestamp is when it comes.
    pub(in super::super) fn encode(sequence: u64, hash: u128) -> RowWriter {
        let mut row = RowWriter::new(48);
        row.put(HASH, ValueRef::Binary(&hash.to_be_bytes()));
        row.put(SEQUENCE, sequence.into());
        row
    }

    /// When the message comes, if it is scheduled and has no number yet.
    pub(in super::super) fn scheduled(&self) -> Option<u64> {
        (self.sequence == 0).then_some(self.timestamp)
    }

    pub(in super::super) fn decode(value: &[u8]) -> Result<IdRow, Malformed> {
        let row = Row::parse(value)?;
        let hash = row.column(HASH)?.ok_or(Malformed)?;
        let ValueRef::Binary(bytes) = hash.value else {
            return Err(Malformed);
        };
        Ok(IdRow {
            sequence: number_in(value, SEQUENCE)?,
            timestamp: hash.version.cast_unsigned(),
            hash: u128::from_be_bytes(bytes.try_into().map_err(|_| Malformed)?),
        })
    }
}

/// The row of a change: which message it was.
pub(in super::super) fn change_row(sequence: u64) -> RowWriter {
    RowWriter::of(SEQUENCE, sequence.into())
}

/// The sequence in a change's row.
pub(in super::super) fn changed_sequence(value: &[u8]) -> Result<u64, Malformed> {
    number_in(value, SEQUENCE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::Burial;
    use super::*;
    use tideline_model::arbitrary;

    fn burial() -> impl Strategy<Value = Burial> {
        prop_oneof![
            Just(Burial::Deleted),
            ("\\PC{0,5}", proptest::option::of("\\PC{1,5}"))
                .prop_map(|(by, reason)| Burial::Recalled { by, reason }),
            Just(Burial::Expired),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back(
            columns in arbitrary::columns(),
            burial in proptest::option::of(burial()),
            pinned: bool,
            id in prop_oneof!["\\PC{1,20}", Just("01890a5d-ac96-774b-bcce-b302099a8057".to_owned())],
            sender in "\\PC{0,9}",
            timestamp in 0u64..1 << 53,
            change in 0u64..9,
            edited_at in proptest::option::of(1u64..1 << 53),
            expires_at in proptest::option::of(1u64..1 << 53),
            names in proptest::collection::btree_set("[a-z#é]{1,3}", 0..4),
            growth in proptest::option::of((0u64..3, 0u64..9, any::<bool>())),
        ) {
            let mut whole = Message {
                sequence: 7, timestamp, message_id: id, sender, entry: Some(columns), change, edited_at, pinned,
                expires_at,
                ..Message::default()
            };
            if let Some((state, parts, abandoned)) = growth {
                whole.parts = Some(parts);
                match state {
                    0 => whole.open = Some(Box::new(Open { column: "t".to_owned(), idle_ms: 1 + parts })),
                    1 => (whole.outcome, whole.abandoned) = (Some(Outcome::Failed), abandoned),
                    _ => {
                        whole.outcome = Some(Outcome::Cancelled);
                        (whole.stopped_by, whole.reason) = (Some("x".to_owned()), Some("y".to_owned()));
                    }
                }
            }
            burial.into_iter().for_each(|burial| whole.bury(burial));
            let row = MessageRow::of(&whole).row.finish(timestamp.cast_signed());
            prop_assert_eq!(&message(7, &row, None).unwrap(), &whole);
            let mut part = whole.clone();
            let wanted: Vec<_> = whole.entry.iter().flatten().step_by(2)
                .map(|(name, _)| name.clone()).chain(names).collect::<std::collections::BTreeSet<_>>()
                .into_iter().collect();
            part.entry = part.entry.map(|entry| {
                entry.into_iter().filter(|(name, _)| wanted.contains(name)).collect()
            });
            prop_assert_eq!(message(7, &row, Some(&wanted)).unwrap(), part);
        }

        #[test]
        fn equal_entries_and_only_they_hash_equal(
            a in arbitrary::columns(),
            b in arbitrary::columns(),
        ) {
            let hash = |entry: &Columns, sender| {
                let stamp = Stamp { message_id: "m", sender, ..Stamp::default() };
                MessageRow::new(entry, &stamp).entry_hash()
            };
            prop_assert_eq!(hash(&a, "x"), hash(&a, "yy"));
            prop_assert_eq!(hash(&a, "x") == hash(&b, "x"), a == b);
        }

        #[test]
        fn metas_ids_and_changes_come_back(
            meta in arbitrary::columns(),
            version in 1u64..9,
            created_at in 0u64..1 << 53,
            hash: u128,
            sequence in 1u64..1 << 53,
            bytes: Vec<u8>,
        ) {
            let row = MetaRow { meta, version, created_at, updated_at: created_at + 1 };
            prop_assert_eq!(&MetaRow::decode(&row.encode().finish(0)), &Ok(row));
            let id = IdRow { sequence, timestamp: created_at, hash };
            let row = IdRow::encode(sequence, hash).finish(created_at.cast_signed());
            prop_assert_eq!(IdRow::decode(&row), Ok(id));
            prop_assert_eq!(changed_sequence(&change_row(sequence).finish(1)), Ok(sequence));
            let _ = (MetaRow::decode(&bytes).is_ok(), IdRow::decode(&bytes).is_ok());
            let _ = (message(1, &bytes, None).is_ok(), changed_sequence(&bytes).is_ok());
        }
    }

    #[test]
    fn an_integer_is_not_the_double_of_its_value() {
        let stamp = Stamp {
            message_id: "m",
            ..Stamp::default()
        };
        let hash = |value| MessageRow::new(&[("a".to_owned(), value)], &stamp).entry_hash();
        assert_ne!(hash(Value::Integer(1)), hash(Value::Double(1.0)));
        assert_ne!(
            hash(Value::String("[]".into())),
            hash(Value::Json("[]".into()))
        );
    }
}
