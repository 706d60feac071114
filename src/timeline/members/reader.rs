//! What a user may see of a timeline.
//!
//! Owns: the rules of `members_only` and of a member's own floor. Promises: whoever is shut out learns nothing, not
//! even that the timeline exists; a timeline without members that is open to all costs no look-up. Must not: hold more
//! than one view's or batch's state.

use crate::table::Source;

use super::super::head::{HeadRow, MEMBERS_ONLY, OPEN_TO_ALL};
use super::super::tables::Name;
use super::super::write::Site;
use super::super::{Admission, Error};
use super::row::MemberRow;

/// A user in front of a timeline that they may read.
pub(in crate::timeline) struct Reader {
    /// The lowest sequence that they may see: never below the timeline's floor.
    pub(in crate::timeline) floor: u64,
    /// Their row, if they are a member.
    pub(in crate::timeline) member: Option<MemberRow>,
}

impl Reader {
    /// The timeline's head as they see it: with their own floor. For reading only.
    pub(in crate::timeline) fn sees(&self, head: HeadRow) -> HeadRow {
        HeadRow {
            floor: self.floor.max(head.floor),
            ..head
        }
    }
}

impl Site {
    /// What a user may see; an empty one is a back end, which sees everything. [`Error::TimelineNotFound`] for those
    /// whom `members_only` shuts out.
    pub(in crate::timeline) fn reader(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        user: &str,
    ) -> Result<Reader, Error> {
        if self.is_inbox_of_another(name, user) {
            return Err(Error::TimelineNotFound);
        }
        let member = match user {
            "" => None,
            user => match MemberRow::load(rows, name, head, user)? {
                None if self.is_members_only(name, head) => return Err(Error::TimelineNotFound),
                member => member,
            },
        };
        let own = member.as_ref().map_or(0, MemberRow::floor);
        Ok(Reader {
            floor: head.floor.max(own),
            member,
        })
    }

    /// What a reader may see, for those who keep it.
    pub(in crate::timeline) fn admission(
        &self,
        name: &Name,
        head: &HeadRow,
        reader: &Reader,
    ) -> Admission {
        Admission {
            floor: reader.member.as_ref().map_or(0, MemberRow::own_floor),
            bound: head.members > 0 || self.is_members_only(name, head),
        }
    }

    /// The head of a timeline that must exist, and its reader, who must be let in.
    pub(in crate::timeline) fn admit(
        &self,
        rows: &impl Source,
        name: &Name,
        epoch: Option<&str>,
        user: &str,
    ) -> Result<(HeadRow, Reader), Error> {
        let head = HeadRow::existing(rows, name)?.ok_or(Error::TimelineNotFound)?;
        let reader = self.reader(rows, name, &head, user)?;
        self.check_epoch(name, &head, epoch)?;
        Ok((head, reader))
    }

    /// Whether a user must not learn of a timeline, or must not bring it about by writing to it.
    pub(in crate::timeline) fn is_shut_out(
        &self,
        rows: &impl Source,
        name: &Name,
        existing: Option<&HeadRow>,
        user: &str,
    ) -> Result<bool, Error> {
        let Some(head) = existing else {
            let is_theirs = self.is_inbox_of_another(name, user);
            return Ok(is_theirs || (!user.is_empty() && self.policy_shuts_out(name)));
        };
        if user.is_empty() || self.is_inbox_of_another(name, user) {
            return Ok(!user.is_empty());
        }
        // Mostly who is a member does not matter, and costs no look-up.
        Ok(self.is_members_only(name, head) && !MemberRow::is_there(rows, name, head, user)?)
    }

    /// Whether only members may read and write a timeline.
    pub(in crate::timeline) fn is_members_only(&self, name: &Name, head: &HeadRow) -> bool {
        match head.flags & (MEMBERS_ONLY | OPEN_TO_ALL) {
            0 => self.policy_shuts_out(name),
            own => own == MEMBERS_ONLY,
        }
    }

    fn policy_shuts_out(&self, name: &Name) -> bool {
        let policy = self.policies.of_name(name);
        policy.and_then(|policy| policy.members_only) == Some(true)
    }
}
