//! Everything that lies at the users of one partition, from first to last, for a data directory that nobody serves.
//!
//! Owns: the walk. Promises: every row is met once, by user, with its keys read. Must not: write, or judge what it
//! meets (`verify.rs` does).

use bytes::Bytes;

use crate::timeline::Columns;
use tideline_base::ids::TableId;
use tideline_base::ordered::Reader;
use tideline_table::{Key, Malformed, ReadError, Rows, View, read_row, scan_all};

use super::super::conversations::conversation_row::ConversationRow;
use super::super::devices::stored::{Device, DevicePosition, DeviceRow, PlaceRow};
use super::super::tables::{CONVERSATIONS, DEVICES, INBOX, POSITIONS};

/// What a dump gives of a user.
#[derive(Clone, Debug, PartialEq)]
pub enum DumpedPerson {
    /// A conversation.
    Conversation(StoredConversation),
    /// A device.
    Device(Device),
    /// How far a device of this name is.
    Position(String, DevicePosition),
}

/// A conversation as it is stored at its user.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredConversation {
    /// With which timeline.
    pub timeline: String,
    /// Of which of its name.
    pub incarnation: u64,
    /// The member version at which the user joined.
    pub joined: u64,
    /// ms.
    pub joined_at: u64,
    /// Up to here the user has read, as far as the relay knows.
    pub read: u64,
    /// The same of what they cleared.
    pub cleared: u64,
    /// The same of how many messages they hid.
    pub hides: u64,
    /// Off the list while the head is below this; 0 = on it.
    pub hidden: u64,
    /// When the membership ended, ms; 0 = it has not.
    pub removed_at: u64,
    /// The user's own.
    pub attributes: Columns,
}

/// Hands each row of the users of a partition to `each`, with its user: conversations, then devices, then positions.
pub fn dump_people<E: From<ReadError>>(
    view: &View,
    each: &mut dyn FnMut(&str, DumpedPerson) -> Result<(), E>,
) -> Result<(), E> {
    for row in all(view, CONVERSATIONS) {
        let row = row?;
        let ([user, timeline], row) = read(&row, ConversationRow::decode)?;
        let conversation = StoredConversation {
            timeline,
            incarnation: row.membership.incarnation,
            joined: row.membership.joined,
            joined_at: row.joined_at,
            read: row.marks.read,
            cleared: row.marks.cleared,
            hides: row.marks.hides,
            hidden: row.hidden,
            removed_at: row.removed,
            attributes: row.attributes,
        };
        each(&user, DumpedPerson::Conversation(conversation))?;
    }
    for row in all(view, DEVICES) {
        let row = row?;
        let ([user, device], row) = read(&row, DeviceRow::decode)?;
        each(&user, DumpedPerson::Device(row.named(device)))?;
    }
    for row in all(view, POSITIONS) {
        let row = row?;
        let ([user, device, timeline], place) = read(&row, PlaceRow::read)?;
        let position = DevicePosition { timeline, place };
        each(&user, DumpedPerson::Position(device, position))?;
    }
    Ok(())
}

/// All rows of a table.
pub(in super::super) fn all(view: &View, table: TableId) -> Rows<'_> {
    scan_all(view, &Key::new(table, &[], 1))
}

/// The texts of a row's key, the first one without `$inbox/`, and its value.
pub(in super::super) fn read<T, const N: usize>(
    row: &(Bytes, Bytes),
    decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
) -> Result<([String; N], T), ReadError> {
    read_row(row, "not what lies at a user", |columns, value| {
        let mut reader = Reader::new(columns);
        let mut texts = [const { String::new() }; N];
        for text in &mut texts {
            *text = reader.string()?.into_owned();
        }
        let user = texts[0].strip_prefix(INBOX).ok_or(Malformed)?;
        texts[0] = user.to_owned();
        match reader.rest().is_empty() {
            true => Ok((texts, decode(value)?)),
            false => Err(Malformed),
        }
    })
}
