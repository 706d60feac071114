//! A user's conversation as a row at the user.
//!
//! Owns: its columns. Promises: what is the user's own counts for one membership only, that of this incarnation and
//! `joined`; the app's names and ours never meet, because ours begin with `$`. Must not: read or write a store.

use xxhash_rust::xxh3::xxh3_64;

use crate::timeline::{Columns, DEFAULT_ROLE, MemberRow};
use tideline_model::Value;
use tideline_table::columns;

/// What is stored of a conversation at its user.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct ConversationRow {
    /// Of the timeline, and of the membership in it: these name the membership that the rest is of.
    pub(in super::super) membership: Membership,
    /// ms.
    pub(in super::super) joined_at: u64,
    /// What the member's row at the timeline said when it was relayed.
    pub(in super::super) marks: Marks,
    /// The member has had another role before.
    pub(in super::super) had_others: bool,
    /// Off the list until a message comes above `hidden - 1`; 0 = on it.
    pub(in super::super) hidden: u64,
    /// When the membership ended, ms; 0 = it has not.
    pub(in super::super) removed: u64,
    /// Where in the user's log this was written.
    pub(in super::super) position: u64,
    /// The user's own, sorted by name.
    pub(in super::super) attributes: Columns,
}

/// Names one membership of a user in a timeline; rises with each that follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Membership {
    pub(in super::super) incarnation: u64,
    pub(in super::super) joined: u64,
}

/// What of a member's row moves without a change of the timeline's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Marks {
    pub(in super::super) read: u64,
    pub(in super::super) cleared: u64,
    pub(in super::super) hides: u64,
    /// Which role, as a hash; 0 = the default one.
    pub(in super::super) role: u64,
}

impl Marks {
    pub(in super::super) fn of(member: &MemberRow) -> Marks {
        Marks {
            read: member.read,
            cleared: member.cleared,
            hides: member.hides,
            role: match member.role.as_str() {
                DEFAULT_ROLE => 0,
                role => xxh3_64(role.as_bytes()),
            },
        }
    }
}

/// The attribute that puts a conversation first.
pub(in super::super) const PINNED: &str = "pinned";
/// The attribute that has only mentions count: `true`, or until when, ms since 1970.
pub(in super::super) const MUTED: &str = "muted";

columns! { ConversationRow beside attributes {
    "$at": joined_at,
    "$cleared": marks.cleared,
    "$hidden": hidden,
    "$hides": marks.hides,
    "$inc": membership.incarnation,
    "$joined": membership.joined,
    "$pos": position,
    "$read": marks.read,
    "$removed": removed,
    "$role": marks.role,
    "$roles": had_others,
} }

impl ConversationRow {
    pub(in super::super) fn new(
        membership: Membership,
        joined_at: u64,
        marks: Marks,
    ) -> ConversationRow {
        ConversationRow {
            membership,
            joined_at,
            marks,
            ..ConversationRow::default()
        }
    }

    pub(in super::super) fn is_pinned(&self) -> bool {
        self.attribute(PINNED) == Some(&Value::Boolean(true))
    }

    /// Whether only mentions count now.
    pub(in super::super) fn is_muted(&self, now_ms: u64) -> bool {
        match self.attribute(MUTED) {
            Some(Value::Boolean(is)) => *is,
            Some(Value::Integer(until)) => *until > now_ms.cast_signed(),
            _ => false,
        }
    }

    fn attribute(&self, name: &str) -> Option<&Value> {
        let at = self
            .attributes
            .binary_search_by(|(other, _)| other.as_str().cmp(name));
        at.ok().map(|at| &self.attributes[at].1)
    }
}

/// Whether a row has all of these attributes.
pub(in super::super) fn has_all(row: Option<&ConversationRow>, wanted: &Columns) -> bool {
    wanted
        .iter()
        .all(|one| row.is_some_and(|row| row.attributes.contains(one)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_model::arbitrary;

    proptest! {
        #[test]
        fn conversations_come_back(
            attributes in arbitrary::columns(),
            numbers in any::<[u32; 10]>(),
            had_others: bool,
            bytes: Vec<u8>,
        ) {
            let [incarnation, joined, joined_at, read, cleared, hides, role, hidden, removed, position] =
                numbers.map(u64::from);
            let row = ConversationRow {
                membership: Membership { incarnation, joined },
                joined_at,
                marks: Marks { read, cleared, hides, role },
                had_others, hidden, removed, position, attributes,
            };
            let value = row.encode().finish(7);
            prop_assert_eq!(ConversationRow::decode(&value), Ok(row));
            let _ = ConversationRow::decode(&bytes).is_ok();
        }
    }
}
