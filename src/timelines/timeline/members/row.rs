//! A member of a timeline as a row.
//!
//! Owns: the columns of member rows. Promises: the app's attributes and our columns never meet, because ours begin with
//! `$`. Must not: decide which users become members.

use bytes::Bytes;

use tideline_model::timelines::Member;
use tideline_table::{ReadError, Source, columns, load, read_row};

use super::super::Columns;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{Name, incarnation_of};

/// What is stored of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberRow {
    /// The member version at which they joined: tells this membership from earlier ones of the user.
    pub joined: u64,
    /// ms.
    pub joined_at: u64,
    /// Free text.
    pub role: String,
    /// The app's, sorted by name.
    pub attributes: Columns,
    /// The first sequence that they may see.
    pub visible_from: u64,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received; not below `read`.
    pub received: u64,
    /// Nothing at or below is shown to them; 0 = nothing was cleared.
    pub cleared: u64,
    /// How many messages they hid.
    pub hides: u64,
    /// The member version of the last change of this row that others may see.
    pub version: u64,
}

pub use tideline_model::timelines::DEFAULT_ROLE;

columns! { MemberRow beside attributes {
    "$at": joined_at,
    "$cleared": cleared,
    "$from": visible_from,
    "$hides": hides,
    "$joined": joined,
    "$read": read,
    "$received": received,
    "$role": role = DEFAULT_ROLE,
    "$version": version,
} }

const WHAT: &str = "not a member";

impl MemberRow {
    /// What others get of the member.
    #[must_use]
    pub fn of(self, user: String) -> Member {
        Member {
            user,
            role: self.role,
            attributes: self.attributes,
            visible_from: self.visible_from,
            joined_at: self.joined_at,
            read: self.read,
            received: self.received,
            version: self.version,
        }
    }

    /// The first sequence that they may see now, as far as that depends on the member.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.visible_from.max(self.cleared + 1)
    }

    /// The same; 0 = the member sees everything, as users that are no members do.
    #[must_use]
    pub fn own_floor(&self) -> u64 {
        match self.floor() {
            1 => 0,
            floor => floor,
        }
    }

    /// A user's row in a timeline, if they are a member.
    pub(in super::super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        user: &str,
    ) -> Result<Option<MemberRow>, ReadError> {
        if head.members == 0 {
            return Ok(None);
        }
        let key = name.member_key(head.incarnation, user);
        load(rows, &key, WHAT, MemberRow::decode)
    }

    /// A member's name and row, as they are in the table of members.
    pub(in super::super) fn named(row: &(Bytes, Bytes)) -> Result<(String, MemberRow), ReadError> {
        read_row(row, WHAT, |columns, value| {
            let (_, mut rest) = incarnation_of(columns)?;
            Ok((rest.string()?.into_owned(), MemberRow::decode(value)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_model::arbitrary;

    proptest! {
        #[test]
        fn members_come_back(
            attributes in arbitrary::columns(),
            role in "[a-z]{1,9}",
            numbers in any::<[u32; 8]>(),
            bytes: Vec<u8>,
        ) {
            let [joined, joined_at, visible_from, read, received, cleared, hides, version] =
                numbers.map(u64::from);
            let member = MemberRow {
                joined, joined_at, role, attributes, visible_from, read, received, cleared, hides,
                version,
            };
            let value = member.encode().finish(7);
            prop_assert_eq!(MemberRow::decode(&value), Ok(member));
            let _ = MemberRow::decode(&bytes).is_ok();
        }
    }
}
