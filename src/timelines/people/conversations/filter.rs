//! Which conversations of a list are wanted.
//!
//! Owns: the part of a filter that the row at the user decides. Promises: a filter that asks nothing of the row needs
//! none. Must not: read a store.

pub use tideline_model::people::Filter;

use super::conversation_row::{ConversationRow, has_all};

/// Whether a filter needs the row at the user.
pub(in super::super) fn asks_the_row(filter: &Filter) -> bool {
    !filter.attributes.is_empty() || filter.muted.is_some()
}

/// Whether a conversation with this row may be wanted.
pub(in super::super) fn fits(filter: &Filter, row: Option<&ConversationRow>, now_ms: u64) -> bool {
    let is_muted = || row.is_some_and(|row| row.is_muted(now_ms));
    has_all(row, &filter.attributes) && filter.muted.is_none_or(|muted| muted == is_muted())
}
