//! The direct conversation of two users: making it, and closing what is there in its place.
//!
//! Owns: what must hold of a timeline before a user is brought into it as the conversation with another. Promises: it
//! is members-only then, and nobody but the two is a member; one that has left is brought back by their own call only.
//! Must not: know how its ID is made.

use tideline_model::access::{Asker, Decision, Membership};
use tideline_table::Txn;

use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::Site;
use super::super::{Error, Target, TimelineInfo, Timelines};
use super::call::{Create, NewMember, SettingsPatch, members_bytes};
use super::row::MemberRow;

/// What a direct conversation is set to.
const CLOSED: SettingsPatch = SettingsPatch {
    retention: None,
    members_only: Some(Some(true)),
    fan_out: None,
    fan_out_members_max: None,
    edit: None,
    stop: None,
};

impl Timelines {
    /// Makes the conversation `id` of a user with another, of which both are members and which only they may read; or
    /// finds it, and sees to it that the user is a member. Whether it was made now.
    pub fn direct(
        &self,
        asker: &Asker,
        id: &str,
        other: &str,
    ) -> impl Future<Output = Result<(TimelineInfo, bool), Error>> + Send + use<> {
        let partition = self.place(id);
        let bytes = members_bytes(&[NewMember::plain(asker.user()), NewMember::plain(other)]);
        let call = (asker.clone(), id.to_owned(), other.to_owned());
        self.submit_with_members(partition, bytes, call, |(asker, id, other), txn, site| {
            site.direct(txn, asker, id, other)
        })
    }
}

impl Site {
    /// `None`: messages that its first members find there are not counted yet; call again in another batch.
    fn direct(
        &self,
        txn: &mut Txn<'_>,
        asker: &Asker,
        id: &str,
        other: &str,
    ) -> Result<Option<(TimelineInfo, bool)>, Error> {
        let (name, user) = (Name::new(id), asker.user());
        match asker.decide(asker.rights(name.id(), Membership::default())) {
            Decision::Allowed => {}
            Decision::Forbidden => return Err(Error::NoRight),
            Decision::Hidden => return Err(Error::ConversationNotFound),
        }
        // As a back end, because a user that has left may not read it.
        let target = Target::from(id);
        let Some(head) = HeadRow::existing(txn, &name)? else {
            let create = Create {
                settings: CLOSED,
                members: vec![NewMember::plain(user), NewMember::plain(other)],
                ..Create::from(target)
            };
            let (info, made) = self.create(txn, create)?;
            return Ok(Some((info, made.created)));
        };
        let mut known = 0;
        for one in [user, other] {
            known += u32::from(MemberRow::load(txn, &name, &head, one)?.is_some());
        }
        if head.members > known {
            return Err(Error::OfOthers);
        }
        let is_open = !self.is_members_only(&name, &head);
        let mut members = vec![NewMember::plain(user)];
        if is_open {
            members.push(NewMember::plain(other));
        }
        let added = self.add_members(txn, &target, (&mut members, None), &mut None)?;
        if added.is_none() {
            return Ok(None);
        }
        if is_open {
            self.configure(txn, &target, CLOSED, None)?;
        }
        let (head, _) = self.admit(txn, &name, None, &target.asker)?;
        Ok(Some((self.info(txn, id.to_owned(), &head)?, false)))
    }
}
