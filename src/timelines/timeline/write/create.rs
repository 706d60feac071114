//! Making a timeline, with its meta, settings and members in one batch.
//!
//! Owns: `timeline.create`, and what a subscribe to an unknown timeline makes. Promises: a timeline that exists stays
//! as it is; nobody learns that there is one that they may not read. Must not: number messages.

use std::future::Future;

use tideline_model::access::{Asker, Membership, Right, Rights};
use tideline_table::{Purpose, Txn};

use super::super::members::call::members_bytes;
use super::super::members::settings_row::SettingsRow;
use super::super::members::{
    Create, MemberRow, NewMember, Settings, SettingsPatch, change, checked, configure,
    rights_to_make,
};
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::{Error, Head, Meta, TimelineInfo, Timelines};
use super::{Site, new_head, put_head, put_new_meta, sort};
pub use tideline_model::timelines::Part;

/// What came of a call that makes a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// It was made now.
    pub created: bool,
    /// Which parts of the call the timeline that existed does not have.
    pub differs: Vec<Part>,
}

impl Timelines {
    /// Makes a timeline. One that exists is found, and stays as it is.
    pub fn create(
        &self,
        create: Create,
    ) -> impl Future<Output = Result<(TimelineInfo, Made), Error>> + Send + use<> {
        let nobody: fn(&Head) = |_| {};
        self.create_telling(create, nobody)
    }

    /// The same. `decided` is called on the writer's thread with the head of what is made, before that is on disk: it
    /// may still be lost.
    pub fn create_telling<F: FnOnce(&Head) + Send + 'static>(
        &self,
        create: Create,
        decided: F,
    ) -> impl Future<Output = Result<(TimelineInfo, Made), Error>> + Send + use<F> {
        let meta = tideline_model::json_bytes(&create.meta);
        let bytes = meta + members_bytes(&create.members);
        let partition = self.place(&create.target.timeline);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            let (info, made) = site.create(txn, create)?;
            if made.created {
                decided(&info.head());
            }
            Ok((info, made))
        })
    }
}

impl Site {
    pub(in super::super) fn create(
        &self,
        txn: &mut Txn<'_>,
        create: Create,
    ) -> Result<(TimelineInfo, Made), Error> {
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
            match self.check_asker(txn, &name, existing.as_ref(), asker, implicit) {
                // A caller that may create learns which names are taken.
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
            let info = self.info(txn, target.timeline, &seen)?;
            let asked = (&meta, &settings, members);
            let differs = self.differs(txn, (&name, &head), (asker, &info.meta), asked)?;
            let created = false;
            return Ok((info, Made { created, differs }));
        }
        let members = self.check_creation(&name, asker, &settings, members)?;
        let mut head = new_head(txn, found);
        sort(&mut meta);
        put_new_meta(txn, &name, meta);
        configure::set(txn, &name, &mut head, SettingsRow::default(), settings);
        change::add(txn, &name, &mut head, members, None)?;
        self.turn(txn, &name, &mut head)?;
        put_head(txn, &name, &head);
        let made = Made {
            created: true,
            differs: Vec::new(),
        };
        Ok((self.info(txn, target.timeline, &head)?, made))
    }

    /// Which parts of a call the existing timeline does not have.
    fn differs(
        &self,
        txn: &Txn<'_>,
        (name, head): (&Name, &HeadRow),
        (asker, meta): (&Asker, &Meta),
        (asked, settings, members): (&Meta, &SettingsPatch, Vec<NewMember>),
    ) -> Result<Vec<Part>, Error> {
        let mut differs = Vec::new();
        if !asked.iter().all(|one| meta.contains(one)) {
            differs.push(Part::Meta);
        }
        let own = SettingsRow::load(txn, name, head)?.settings;
        let in_force = self.in_force(name, own.clone());
        if self.in_force(name, own.after(*settings)) != in_force {
            differs.push(Part::Settings);
        }
        if !members.is_empty() {
            let members = self.with_creator(name, asker, settings, members);
            // Up to the first difference: there may be thousands, and the writer waits.
            let mut is_same = members.len() as u64 == u64::from(head.members);
            let mut rest = members.iter();
            while is_same && let Some(member) = rest.next() {
                let row = MemberRow::load(txn, name, head, &member.user)?;
                is_same = row.is_some_and(|row| row.role == member.role());
            }
            if !is_same {
                differs.push(Part::Members);
            }
        }
        Ok(differs)
    }

    /// Members and settings of a new timeline are decided as if its creator set them afterwards, in the role that
    /// creators get: nobody makes themselves more. Gives the members with the creator, if there is such a role.
    fn check_creation(
        &self,
        name: &Name,
        asker: &Asker,
        settings: &SettingsPatch,
        members: Vec<NewMember>,
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
        Ok(self.with_creator(name, asker, settings, members))
    }

    /// The members of a new timeline, and its creator if there is a role for them. Without `[auth]` the creator of a
    /// members-only timeline becomes a member in any case: otherwise they could not read it.
    fn with_creator(
        &self,
        name: &Name,
        asker: &Asker,
        settings: &SettingsPatch,
        mut members: Vec<NewMember>,
    ) -> Vec<NewMember> {
        let by_role = creator(name, asker);
        let is_closed = || {
            let settings = self.in_force(name, Settings::default().after(*settings));
            settings.members_only == Some(true)
        };
        let is_locked_out = asker.claim().is_none() && !asker.user().is_empty() && is_closed();
        let Some(creator) =
            by_role.or_else(|| is_locked_out.then(|| NewMember::plain(asker.user())))
        else {
            return members;
        };
        let known = members
            .iter_mut()
            .find(|member| member.user == creator.user);
        match known {
            Some(member) => member.role = creator.role.or_else(|| member.role.take()),
            None => members.insert(0, creator),
        }
        members
    }

    /// A user that creates a timeline by writing to it becomes a member, too, if there is a role for that.
    pub(in super::super) fn add_creator(
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
        role: Some(role),
        ..NewMember::plain(user)
    })
}
