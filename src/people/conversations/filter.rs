//! Which conversations of a list are wanted.
//!
//! Owns: the part of a filter that the row at the user decides. Promises: a filter that asks nothing of the row needs
//! none. Must not:
//! read a store.

use crate::timeline::Columns;

use super::conversation_row::{ConversationRow, has_all};

/// Which conversations.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those with something unread, or only those without.
    pub unread: Option<bool>,
    /// Only those whose own attributes have these values.
    pub attributes: Columns,
    /// Only those that are muted, or only those that are not.
    pub muted: Option<bool>,
}

impl Filter {
    /// Whether it needs the row at the user.
    pub(in super::super) fn asks_the_row(&self) -> bool {
        !self.attributes.is_empty() || self.muted.is_some()
    }

    /// Whether a conversation with this row may be wanted.
    pub(in super::super) fn fits(&self, row: Option<&ConversationRow>, now_ms: u64) -> bool {
        let is_muted = || row.is_some_and(|row| row.is_muted(now_ms));
        has_all(row, &self.attributes) && self.muted.is_none_or(|muted| muted == is_muted())
    }
}
