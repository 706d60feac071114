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

use tideline_base::ids::TableId;
use tideline_base::ordered::{self, Malformed, Reader};
use tideline_table::Key;

use crate::timeline::Timelines;
pub(super) use crate::timeline::{CONVERSATIONS, INBOX};

pub(super) const POSITIONS: TableId = TableId(33);
pub(super) const DEVICES: TableId = TableId(34);
pub(super) const FOLLOWS: TableId = TableId(35);

/// Where everything of a user lies: the ID of their inbox, plain and as the first key column of their rows.
#[derive(Clone, Debug)]
pub(super) struct Home {
    name: String,
    column: Vec<u8>,
}

impl Home {
    pub(super) fn new(user: &str) -> Home {
        let name = Timelines::inbox_of(user);
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

    /// What the keys of a user's conversations begin with.
    pub(super) fn conversations(&self) -> Key {
        self.key(CONVERSATIONS, 1)
    }

    pub(super) fn follow_key(&self, timeline: &str) -> Key {
        self.key(FOLLOWS, timeline.len()).string(timeline)
    }

    /// The same of their follows.
    pub(super) fn follows(&self) -> Key {
        self.key(FOLLOWS, 1)
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

    /// The same of their devices.
    pub(super) fn devices(&self) -> Key {
        self.key(DEVICES, 1)
    }

    /// The same of a device's positions.
    pub(super) fn positions(&self, device: &str) -> Key {
        self.key(POSITIONS, device.len() + 4).string(device)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_table::split_key;

    #[test]
    fn positions_of_a_device_lie_together_and_name_it() {
        let home = Home::new("ada");
        let key = home.position_key("phone", "room-1");
        let (_, columns) = split_key(key.as_bytes()).unwrap();
        assert_eq!(last_text(columns).unwrap(), "room-1");
        let all = || home.positions("phone");
        let (from, to) = (all().below_all(), all().above_all());
        assert!(from < key && key < to);
        assert!(home.position_key("phone\u{1}", "a") > to);
    }
}
