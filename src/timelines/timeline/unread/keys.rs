//! The keys of the rows that unread counts are made from.
//!
//! Owns: these keys; they are part of the format on disk. Promises: the rows of one sender, one mentioned user or one
//! user that hides messages lie together in the order of their sequences. Must not: know what is in the rows.

use tideline_base::ordered::{INTEGER_BYTES_MAX, Malformed, Reader, text_bytes};
use tideline_table::Key;

use super::super::rows::tables::{GONE, HIDES, HIDES_BY_NUMBER, MENTIONS, Name, SENDERS};
use tideline_base::ids::TableId;

impl Name {
    /// What the keys of a sender's messages begin with; the sequence follows.
    pub(in super::super) fn sender_rows(&self, incarnation: u64, sender: &str) -> Key {
        self.rows_of_user(SENDERS, incarnation, sender)
    }

    /// What the keys of the messages that mention a user begin with; the sequence follows.
    pub(in super::super) fn mention_rows(&self, incarnation: u64, user: &str) -> Key {
        self.rows_of_user(MENTIONS, incarnation, user)
    }

    /// What the keys of the messages that a member has hidden begin with; the sequence follows.
    pub(in super::super) fn hide_rows(&self, incarnation: u64, (user, joined): (&str, u64)) -> Key {
        self.rows_of_user(HIDES, incarnation, user).number(joined)
    }

    /// The same in the order of hiding; the number follows.
    pub(in super::super) fn hide_numbers(
        &self,
        incarnation: u64,
        (user, joined): (&str, u64),
    ) -> Key {
        self.rows_of_user(HIDES_BY_NUMBER, incarnation, user)
            .number(joined)
    }

    /// A node of a tree of tombstones; `set` is a sender, or empty for all.
    pub(in super::super) fn gone_key(
        &self,
        incarnation: u64,
        set: &str,
        level: u8,
        block: u64,
    ) -> Key {
        let rows = self.rows_of_user(GONE, incarnation, set);
        rows.number(level.into()).number(block)
    }

    /// What the keys of members begin with; the user follows.
    fn rows_of_user(&self, table: TableId, incarnation: u64, user: &str) -> Key {
        let more = 3 * INTEGER_BYTES_MAX + text_bytes(user.len());
        Key::new(table, self.as_bytes(), more)
            .number(incarnation)
            .string(user)
    }
}

/// The number that follows `prefix` in a row's key.
pub(super) fn number_behind(prefix: &Key, key: &[u8]) -> Result<u64, Malformed> {
    let rest = key.get(prefix.as_bytes().len()..).ok_or(Malformed)?;
    Reader::new(rest).u64()
}

/// The last sequence that a node of a tree of tombstones is about. `rest` are its key columns behind the incarnation.
pub(in super::super) fn last_of_node(mut rest: Reader<'_>) -> Result<u64, Malformed> {
    rest.skip()?;
    let (level, block) = (rest.u64()?, rest.u64()?);
    let bits = 8 * (u32::try_from(level)? + 1);
    let next = block
        .checked_add(1)
        .and_then(|next| next.checked_mul(1 << bits.min(63)));
    Ok(next.map_or(u64::MAX, |next| next - 1))
}
