//! What a caller may see of a timeline, and do with it.
//!
//! Owns: what the decision of `access` needs of the store, and a member's own floor. Promises: a caller that is shut
//! out learns nothing, not even that the timeline exists: a hidden one is answered as a missing one is, after the same
//! look-ups, before epochs and conditions count; a timeline without members that is open to all costs no look-up. Must
//! not: hold more than one view's or batch's state, or a rule of rights.

use tideline_model::access::{Asker, Decision, Membership, Right, Rights, is_inbox_of_another};
use tideline_table::{ReadError, Source, Txn};

use super::super::rows::head::{HeadRow, MEMBERS_ONLY, OPEN_TO_ALL};
use super::super::rows::tables::Name;
use super::super::write::Site;
use super::super::{Admission, Error, Target};
use super::row::MemberRow;

/// What the names of direct conversations begin with.
pub const DIRECT: &str = "direct/";

/// A user in front of a timeline that they may read.
pub(in crate::timeline) struct Reader {
    /// The lowest sequence that they may see: never below the timeline's floor.
    pub(in crate::timeline) floor: u64,
    /// Their row, if they are a member.
    pub(in crate::timeline) member: Option<MemberRow>,
    /// What they may do there.
    pub(in crate::timeline) rights: Rights,
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
    /// What a caller may see. [`Error::TimelineNotFound`] for a caller that may not read it, and [`Error::NoRight`] for
    /// one that may, but not do what it asks for.
    pub(in crate::timeline) fn reader(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        asker: &Asker,
    ) -> Result<Reader, Error> {
        let user = asker.user();
        if is_inbox_of_another(name.id(), user) {
            return Err(self.missing(rows, name, asker)?);
        }
        let member = match user {
            "" => None,
            user => MemberRow::load(rows, name, head, user)?,
        };
        let rights = asker.rights(name.id(), self.membership_of(name, head, member.as_ref()));
        match checked(asker, rights) {
            // The look-up of a member was none if there are no members.
            Err(Error::TimelineNotFound) if head.members == 0 => {
                return Err(self.missing(rows, name, asker)?);
            }
            checked => checked?,
        }
        let own = member.as_ref().map_or(0, MemberRow::floor);
        Ok(Reader {
            floor: head.floor.max(own),
            member,
            rights,
        })
    }

    /// What the decision must know of a timeline.
    fn membership_of<'m>(
        &self,
        name: &Name,
        head: &HeadRow,
        member: Option<&'m MemberRow>,
    ) -> Membership<'m> {
        Membership {
            role: member.map(|member| member.role.as_str()),
            members_only: member.is_none() && self.is_members_only(name, head),
        }
    }

    /// The answer for a timeline that is not there, or that is hidden where nobody is a member: it looks for the caller
    /// among members too, so that nobody can tell the two by the time that they take.
    fn missing(&self, rows: &impl Source, name: &Name, asker: &Asker) -> Result<Error, ReadError> {
        if asker.claim().is_some() && !asker.user().is_empty() {
            rows.row(&name.member_key(0, asker.user()))?;
            let _ = asker.rights(name.id(), Membership::default());
        }
        Ok(Error::TimelineNotFound)
    }

    /// What a reader may see, for callers that keep it.
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

    /// The head of a timeline, and its reader. An error if there is none, the caller may not, or the epoch is another.
    pub(in crate::timeline) fn admit(
        &self,
        rows: &impl Source,
        name: &Name,
        epoch: Option<&str>,
        asker: &Asker,
    ) -> Result<(HeadRow, Reader), Error> {
        let Some(head) = HeadRow::existing(rows, name)? else {
            return Err(self.missing(rows, name, asker)?);
        };
        let reader = self.reader(rows, name, &head, asker)?;
        self.check_epoch(name, &head, epoch)?;
        Ok((head, reader))
    }

    /// The same for the writer, which mostly knows the head.
    pub(in crate::timeline) fn admit_to_write(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        target: &Target,
    ) -> Result<(HeadRow, Reader), Error> {
        let found = HeadRow::load_to_write(txn, name)?;
        let Some(head) = found.filter(|head| !head.dropped) else {
            return Err(self.missing(txn, name, &target.asker)?);
        };
        let reader = self.reader(txn, name, &head, &target.asker)?;
        self.check_epoch(name, &head, target.epoch.as_deref())?;
        Ok((head, reader))
    }

    /// The timeline that a call is about; see [`Site::admit`].
    pub(in crate::timeline) fn enter(
        &self,
        rows: &impl Source,
        target: &Target,
    ) -> Result<(Name, HeadRow, Reader), Error> {
        let name = Name::new(&target.timeline);
        let (head, reader) = self.admit(rows, &name, target.epoch.as_deref(), &target.asker)?;
        Ok((name, head, reader))
    }

    /// Whether a caller may do what it asks for with a timeline that may not exist; with `create`, also whether it may
    /// make one that does not. Mostly membership does not matter, and costs no look-up.
    pub(in crate::timeline) fn check_asker(
        &self,
        rows: &impl Source,
        name: &Name,
        existing: Option<&HeadRow>,
        asker: &Asker,
        create: bool,
    ) -> Result<(), Error> {
        let user = asker.user();
        let is_shut_out = match existing {
            _ if is_inbox_of_another(name.id(), user) => true,
            None => !user.is_empty() && self.policy_shuts_out(name),
            Some(head) => {
                let members_only = !user.is_empty() && self.is_members_only(name, head);
                let by_name = rights_to_make(name, asker, Membership::default());
                if !members_only && asker.decide(by_name) == Decision::Allowed {
                    return Ok(());
                }
                let member = match user {
                    "" => None,
                    user => MemberRow::load(rows, name, head, user)?,
                };
                let membership = self.membership_of(name, head, member.as_ref());
                match asker.decide(rights_to_make(name, asker, membership)) {
                    Decision::Allowed => return Ok(()),
                    Decision::Forbidden => return Err(Error::NoRight),
                    Decision::Hidden => true,
                }
            }
        };
        // From here on as of a name that nobody used.
        let rights = rights_to_make(name, asker, Membership::default());
        let may = checked(asker, rights);
        let may = may.and_then(|()| match create {
            true => checked(&asker.needing(Rights::NONE.with(Right::Create)), rights),
            false => Ok(()),
        });
        if let Err(Error::TimelineNotFound) = may
            && existing.is_none_or(|head| head.members == 0)
        {
            return Err(self.missing(rows, name, asker)?);
        }
        may?;
        match is_shut_out {
            true => Err(Error::TimelineNotFound),
            false => Ok(()),
        }
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

/// All rights that count for a call that may make a timeline. Users make direct conversations by their own call only,
/// which asks as a back end: else anybody could make one of two others first, and be in it.
pub(in crate::timeline) fn rights_to_make(
    name: &Name,
    asker: &Asker,
    membership: Membership<'_>,
) -> Rights {
    let rights = asker.rights(name.id(), membership);
    let is_user = asker.claim().is_some() && !asker.user().is_empty();
    let is_direct = || name.id().starts_with(DIRECT.as_bytes());
    match is_user && membership.role.is_none() && is_direct() {
        true => rights.without(Right::Create),
        false => rights,
    }
}

/// What comes of asking with these rights.
pub(in crate::timeline) fn checked(asker: &Asker, rights: Rights) -> Result<(), Error> {
    match asker.decide(rights) {
        Decision::Allowed => Ok(()),
        Decision::Forbidden => Err(Error::NoRight),
        Decision::Hidden => Err(Error::TimelineNotFound),
    }
}
