//! A change of a timeline's members as a row: the user, and of a user that left, when they had joined.
//!
//! Owns: the columns of member changes, and how long they are kept. Promises: each member version has one row until it
//! is too old, so a missing row says that what came after is not known as a whole. Must not: hold what the member's
//! own row does.
//!
//! A row names a user if a member has changed, and a follower if one came or went. It names neither if the right to
//! read has changed.

use tideline_table::{Malformed, columns, version_of};

/// How long member changes are kept, ms.
pub(in super::super) const KEPT_MS: u64 = 30 * 86_400_000;

/// What a member change tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct ChangeRow {
    /// Whose row was written or deleted; empty = nobody's.
    pub(in super::super) user: String,
    /// A user that follows the timeline now, or no longer does; empty = nobody.
    pub(in super::super) follower: String,
    /// Of a user that left.
    pub(in super::super) left: Left,
}

/// A membership, or a follow, that has ended; none has if [`Left::joined`] is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Left {
    /// The member version at which it began.
    pub(in super::super) joined: u64,
    /// The last sequence when it ended.
    pub(in super::super) head: u64,
}

columns! { ChangeRow {
    "$follower": follower,
    "$head": left.head,
    "$joined": left.joined,
    "$user": user,
} }

impl ChangeRow {
    /// Of a user or follower that left.
    pub(in super::super) fn has_left(&self) -> bool {
        self.left.joined > 0
    }

    /// Whether a stored change is too old to be kept.
    pub(in super::super) fn is_over(value: &[u8], now_ms: u64) -> Result<bool, Malformed> {
        Ok(version_of(value)?.saturating_add(KEPT_MS) < now_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn changes_come_back(
            user in "[a-z]{0,5}",
            follower in "[a-z]{0,5}",
            left in proptest::option::of((1u64..99, 0u64..99)),
            at_ms in 0u64..1 << 50,
            bytes: Vec<u8>,
        ) {
            let left = left.map(|(joined, head)| Left { joined, head }).unwrap_or_default();
            let change = ChangeRow { user, follower, left };
            let value = change.encode().finish(at_ms.cast_signed());
            prop_assert_eq!(ChangeRow::decode(&value), Ok(change));
            // A row without columns has no cell that could carry the time, but its base does.
            prop_assert_eq!(ChangeRow::is_over(&value, at_ms + KEPT_MS), Ok(false));
            prop_assert_eq!(ChangeRow::is_over(&value, at_ms + KEPT_MS + 1), Ok(true));
            let _ = ChangeRow::decode(&bytes).is_ok();
        }
    }
}
