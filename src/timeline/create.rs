//! Making a timeline, with its meta, settings and members in one batch.
//!
//! Owns: `timeline.create`, and what a subscribe to an unknown timeline makes. Promises: a timeline that exists stays
//! as it is; nobody learns that there is one that they may not read. Must not: number messages.

use crate::access::{Asker, Membership, Right, Rights};
use crate::table::Txn;

use super::head::HeadRow;
use super::members::settings_row::SettingsRow;
use super::members::{
    Create, NewMember, SettingsPatch, change, checked, configure, rights_to_make,
};
use super::tables::Name;
use super::write::{Site, new_head, put_head, put_new_meta, sort};
use super::{Columns, Error, TimelineInfo};

impl Site {
    pub(super) fn create(
        &self,
        txn: &mut Txn<'_>,
        create: Create,
    ) -> Result<(TimelineInfo, bool), Error> {
        let Create {
            target,
            mut meta,
            settings,
            members,
            implicit,
        } = create;
        let epoch = target.epoch.as_deref();
        let name = Name::new(&target.timeline);
        let found = HeadRow::load(txn, &name)?;
        let existing = found.filter(|head| !head.dropped);
        let asker = &target.asker;
        let by_name = || rights_to_make(&name, asker, Membership::default());
        if existing.is_some() || implicit {
            let create = (implicit, epoch);
            match self.check_asker(txn, &name, existing.as_ref(), asker, create) {
                // Who may create learns which names are taken.
                Err(Error::TimelineNotFound)
                    if asker.claim().is_some()
                        && !implicit
                        && checked(asker, by_name()).is_ok() =>
                {
                    return Err(Error::NoRight);
                }
                checked => checked?,
            }
        } else {
            checked(asker, by_name())?;
        }
        self.check_epoch_or_create(&name, &existing, true, epoch)?;
        if let Some(head) = existing {
            let asker = &asker.needing(Rights::NONE);
            let seen = match self.reader(txn, &name, &head, asker) {
                Err(Error::TimelineNotFound) => return Err(Error::NoRight),
                reader => reader?.sees(head),
            };
            return Ok((self.info(txn, target.timeline, &seen)?, false));
        }
        let members = self.check_creation(&name, asker, &settings, members)?;
        let mut head = new_head(txn, found);
        sort(&mut meta);
        put_new_meta(txn, &name, meta);
        configure::set(txn, &name, &mut head, SettingsRow::default(), settings);
        change::add(txn, &name, &mut head, members, None)?;
        self.turn(txn, &name, &mut head)?;
        put_head(txn, &name, &head);
        Ok((self.info(txn, target.timeline, &head)?, true))
    }

    /// Members and settings of a new timeline are decided as if its creator set them afterwards, in the role that
    /// creators get: nobody makes themselves more. Gives the members with the creator, if there is such a role.
    fn check_creation(
        &self,
        name: &Name,
        asker: &Asker,
        settings: &SettingsPatch,
        mut members: Vec<NewMember>,
    ) -> Result<Vec<NewMember>, Error> {
        let creator = creator(name, asker);
        let role = creator.as_ref().and_then(|creator| creator.role.as_deref());
        let membership = Membership {
            role,
            members_only: false,
        };
        let rights = asker.rights(name.id(), membership);
        let sets = *settings != SettingsPatch::default();
        let may = (!sets || rights.has(Right::Manage))
            && (members.is_empty() || rights.has(Right::Members));
        if !may {
            return Err(Error::NoRight);
        }
        change::check_roles(name, asker, rights, members.iter().map(NewMember::role))?;
        if let Some(creator) = creator {
            match members
                .iter_mut()
                .find(|member| member.user == creator.user)
            {
                Some(member) => member.role = creator.role,
                None => members.insert(0, creator),
            }
        }
        Ok(members)
    }

    /// Who creates a timeline by writing to it becomes a member, too, if there is a role for that.
    pub(super) fn add_creator(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        asker: &Asker,
    ) -> Result<(), Error> {
        if let Some(creator) = creator(name, asker) {
            change::add(txn, name, head, vec![creator], None)?;
        }
        Ok(())
    }
}

fn creator(name: &Name, asker: &Asker) -> Option<NewMember> {
    let role = asker.creator_role(name.id())?;
    let user = asker.user();
    (!user.is_empty()).then(|| NewMember {
        user: user.to_owned(),
        role: Some(role),
        attributes: Columns::new(),
        visible_from: None,
        read: None,
    })
}
