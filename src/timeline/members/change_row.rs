//! A change of a timeline's members as a row: the user, and of a user that left, when they had joined.
//!
//! Owns: the columns of member changes, and how long they are kept. Promises: each member version has one row until it
//! is too old, so a missing row says that what came after is not known as a whole. Must not: hold what the member's
//! own row does.
//!
//! ```text
//! member change  $follower, $head, $joined (both of one who left: the head then, when they had joined), $user
//!                $follower in place of $user: a follower came or went; neither: the right to read has changed
//! ```

use crate::model::ValueRef;
use crate::table::{Malformed, Row, RowWriter};

use super::super::rows::stored::{number, put_number};

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
    pub(in super::super) left: Option<Left>,
}

/// A membership that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Left {
    /// The member version at which it began.
    pub(in super::super) joined: u64,
    /// The last sequence when it ended.
    pub(in super::super) head: u64,
}

const FOLLOWER: &str = "$follower";
const HEAD: &str = "$head";
const JOINED: &str = "$joined";
const USER: &str = "$user";

impl ChangeRow {
    /// To be finished with the time of the change as version.
    pub(in super::super) fn encode(&self) -> RowWriter {
        let mut row = RowWriter::new(self.user.len() + self.follower.len() + 32);
        if !self.follower.is_empty() {
            row.put(FOLLOWER, ValueRef::String(&self.follower));
        }
        put_number(&mut row, HEAD, self.left.map_or(0, |left| left.head));
        put_number(&mut row, JOINED, self.left.map_or(0, |left| left.joined));
        if !self.user.is_empty() {
            row.put(USER, ValueRef::String(&self.user));
        }
        row
    }

    /// The change, and when it was, ms.
    pub(in super::super) fn decode(value: &[u8]) -> Result<(ChangeRow, u64), Malformed> {
        let row = Row::parse(value)?;
        let (mut change, mut left) = (ChangeRow::default(), Left { joined: 0, head: 0 });
        for cell in row.columns() {
            let cell = cell?;
            match cell.name {
                FOLLOWER => match cell.value {
                    ValueRef::String(user) => user.clone_into(&mut change.follower),
                    _ => return Err(Malformed),
                },
                HEAD => left.head = number(cell.value)?,
                JOINED => left.joined = number(cell.value)?,
                USER => match cell.value {
                    ValueRef::String(user) => user.clone_into(&mut change.user),
                    _ => return Err(Malformed),
                },
                _ => return Err(Malformed),
            }
        }
        change.left = (left.joined > 0).then_some(left);
        Ok((change, row.base().cast_unsigned()))
    }

    /// Whether a stored change is too old to be kept.
    pub(in super::super) fn is_over(value: &[u8], now_ms: u64) -> Result<bool, Malformed> {
        let at_ms = Row::parse(value)?.base().cast_unsigned();
        Ok(at_ms.saturating_add(KEPT_MS) < now_ms)
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
            let left = left.map(|(joined, head)| Left { joined, head });
            let change = ChangeRow { user, follower, left };
            let value = change.encode().finish(at_ms.cast_signed());
            let empty = change == ChangeRow::default();
            // A row without columns has no cell that could carry the time, but its base does.
            prop_assert_eq!(ChangeRow::decode(&value), Ok((change, at_ms)), "{}", empty);
            prop_assert_eq!(ChangeRow::is_over(&value, at_ms + KEPT_MS), Ok(false));
            prop_assert_eq!(ChangeRow::is_over(&value, at_ms + KEPT_MS + 1), Ok(true));
            let _ = ChangeRow::decode(&bytes).is_ok();
        }
    }
}
