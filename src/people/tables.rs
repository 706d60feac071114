//! The tables that lie at a user, and the keys of their rows.
//!
//! Owns: table IDs and primary keys; both are part of the format on disk. Promises: the first key column of every table
//! is the ID of the user's inbox, by which all that is the user's is placed. Must not: know what is in the rows.
//!
//! ```text
//! 32 conversations  ($inbox/USER, timeline)
//! 33 positions  ($inbox/USER, device, timeline)
//! 34 devices    ($inbox/USER, device)
//! 35 follows    ($inbox/USER, timeline)
//! ```

use crate::ids::TableId;
use crate::ordered::{self, Malformed, Reader};
use crate::table::Key;

pub(super) use crate::timeline::CONVERSATIONS;

pub(super) const POSITIONS: TableId = TableId(33);
pub(super) const DEVICES: TableId = TableId(34);
pub(super) const FOLLOWS: TableId = TableId(35);

/// What the ID of an inbox begins with.
pub(super) const INBOX: &str = "$inbox/";

/// Where everything of a user lies: the ID of their inbox, plain and as the first key column of their rows.
#[derive(Clone, Debug)]
pub(super) struct Home {
    name: String,
    column: Vec<u8>,
}

impl Home {
    pub(super) fn new(user: &str) -> Home {
        let name = format!("{INBOX}{user}");
        let mut column = Vec::with_capacity(ordered::text_bytes(name.len()));
        ordered::push_string(&mut column, &name);
        Home { name, column }
    }

    /// The user whose inbox this is.
    pub(super) fn user_of(inbox: &str) -> Option<&str> {
        inbox.strip_prefix(INBOX)
    }

    /// The inbox's ID.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The same as the first key column of the user's rows.
    pub(super) fn column(&self) -> &[u8] {
        &self.column
    }

    pub(super) fn conversation_key(&self, timeline: &str) -> Key {
        self.key(CONVERSATIONS, timeline.len()).string(timeline)
    }

    /// The bounds of a user's conversations.
    pub(super) fn conversations(&self) -> (Key, Key) {
        let key = self.key(CONVERSATIONS, 1);
        (key.clone().below_all(), key.above_all())
    }

    pub(super) fn follow_key(&self, timeline: &str) -> Key {
        self.key(FOLLOWS, timeline.len()).string(timeline)
    }

    /// The bounds of the timelines that a user follows, behind a name.
    pub(super) fn follows(&self, after: Option<&str>) -> (Key, Key) {
        let key = self.key(FOLLOWS, 1);
        let from = match after {
            Some(after) => self.follow_key(after).above_all(),
            None => key.clone().below_all(),
        };
        (from, key.above_all())
    }

    /// The bounds of all follows of a partition, from a key's columns on.
    pub(super) fn all_follows(from: Option<&[u8]>) -> (Key, Key) {
        let all = Key::new(FOLLOWS, &[], 1);
        let start = match from {
            Some(from) => Key::new(FOLLOWS, from, 0),
            None => all.clone().below_all(),
        };
        (start, all.above_all())
    }

    /// The columns that a device's rows begin with.
    pub(super) fn device_columns(&self, device: &str) -> Vec<u8> {
        let mut columns = self.column.clone();
        ordered::push_string(&mut columns, device);
        columns
    }

    pub(super) fn device_key(&self, device: &str) -> Key {
        self.key(DEVICES, device.len()).string(device)
    }

    pub(super) fn position_key(&self, device: &str, timeline: &str) -> Key {
        let key = self.key(POSITIONS, device.len() + timeline.len() + 3);
        key.string(device).string(timeline)
    }

    /// The bounds of a user's devices.
    pub(super) fn devices(&self) -> (Key, Key) {
        let key = self.key(DEVICES, 1);
        (key.clone().below_all(), key.above_all())
    }

    /// The bounds of a device's positions behind a timeline's name.
    pub(super) fn positions(&self, device: &str, after: Option<&str>) -> (Key, Key) {
        let key = self.key(POSITIONS, device.len() + 4).string(device);
        let from = match after {
            // Nothing lies between a text and itself with a NUL behind it.
            Some(after) => key.clone().string(&format!("{after}\0")),
            None => key.clone().below_all(),
        };
        (from, key.above_all())
    }

    fn key(&self, table: TableId, more: usize) -> Key {
        Key::new(table, &self.column, more + 3)
    }
}

/// The last column of a key, a text: a device's name, or the timeline of a position.
pub(super) fn last_text(columns: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(columns);
    let mut text = reader.string()?;
    while !reader.rest().is_empty() {
        text = reader.string()?;
    }
    Ok(text.into_owned())
}

/// The key of the device that a position's key columns are of.
pub(super) fn device_of(columns: &[u8]) -> Result<Key, Malformed> {
    let mut reader = Reader::new(columns);
    reader.skip()?;
    reader.skip()?;
    let device = &columns[..columns.len() - reader.rest().len()];
    Ok(Key::new(DEVICES, device, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::split_key;

    #[test]
    fn positions_of_a_device_lie_together_and_name_it() {
        let home = Home::new("ada");
        let key = home.position_key("phone", "room-1");
        let (_, columns) = split_key(key.as_bytes()).unwrap();
        assert_eq!(last_text(columns).unwrap(), "room-1");
        assert_eq!(device_of(columns).unwrap(), home.device_key("phone"));
        let (from, to) = home.positions("phone", None);
        assert!(from < key && key < to);
        assert!(home.position_key("phone\u{1}", "a") > to);
        let (from, _) = home.positions("phone", Some("room-1"));
        assert!(key < from && from < home.position_key("phone", "room-1\u{1}"));
    }
}
