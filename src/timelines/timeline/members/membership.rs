//! What a committed batch did to members.
//!
//! Owns: reading that out of a batch's change records. Promises: the batch alone is enough. Must not: read the store.

use tideline_base::entry::EntryKind;
use tideline_base::ordered::Reader;
use tideline_table::{Action, Batch, Malformed, changed_rows};

use super::super::rows::tables::{MEMBERS, incarnation_of};
use super::row::MemberRow;

/// One change of one member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberChange {
    /// Of which timeline.
    pub timeline: String,
    /// Of which of its name.
    pub incarnation: u64,
    /// The user.
    pub user: String,
    /// What is stored of them now; `None` = they have left.
    pub row: Option<MemberRow>,
    /// What they may see may have changed: they joined, left or cleared.
    pub moved: bool,
}

/// The members of wanted timelines that a batch added, changed or removed, in order: one may come more than once.
///
/// # Errors
/// If a record or row of the batch can't be read.
pub fn memberships(
    batch: &Batch,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<MemberChange>, Malformed> {
    let mut found = Vec::new();
    for (action, columns, entry) in changed_rows(batch, MEMBERS)? {
        if is_wanted(&Reader::new(columns).string()?) {
            let mut member = member(columns, entry.kind, entry.value)?;
            member.moved = action != Action::Update;
            found.push(member);
        }
    }
    Ok(found)
}

pub(in super::super) fn member(
    columns: &[u8],
    kind: EntryKind,
    value: &[u8],
) -> Result<MemberChange, Malformed> {
    let timeline = Reader::new(columns).string()?;
    let (incarnation, mut rest) = incarnation_of(columns)?;
    let user = rest.string()?;
    let row = match kind {
        EntryKind::Put => Some(MemberRow::decode(value)?),
        EntryKind::Tombstone => None,
        EntryKind::Delta => return Err(Malformed),
    };
    Ok(MemberChange {
        timeline: timeline.into_owned(),
        incarnation,
        user: user.into_owned(),
        row,
        moved: false,
    })
}
