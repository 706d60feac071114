//! Adding, changing and removing members.
//!
//! Owns: member versions and the writes of member rows. Promises: each change of one member takes the next member
//! version and leaves a change row and a record; an announcement is in the same batch, behind the change, and only if
//! something changed. Must not: check names and sizes that need no store; the caller has.

use tideline_model::access::{Asker, Membership, Right, Rights};
use tideline_table::{Action, ReadError, Txn, delete, put, record};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::{MEMBERS, Name};
use super::super::write::append::Prepared;
use super::super::write::{Site, check_open, check_size, merge, put_head, sort, version};
use super::super::{EntryLimits, Error, Target};
use super::admit::Reader;
use super::call::{MembersChanged, NewMember, UpdateMember};
use super::change_row::{ChangeRow, Left};
use super::row::MemberRow;

/// Bytes of a member's attributes, as compact JSON.
const ATTRIBUTES_BYTES_MAX: u64 = 4 << 10;

impl Site {
    /// Adds those users that are not members yet, then the announcement if there were any. `None`: messages that the
    /// timeline's first members find there are not counted yet; call again in another batch.
    pub(in super::super) fn add_members(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        (members, history): (&mut Vec<NewMember>, Option<u64>),
        announce: &mut Option<Prepared>,
    ) -> Result<Option<MembersChanged>, Error> {
        let (name, mut head, reader) = self.enter(txn, target)?;
        let roles = members.iter().map(NewMember::role);
        check_roles(&name, &target.asker, reader.rights, roles)?;
        check_announcement(announce.as_ref(), reader.rights)?;
        if head.members == 0 && !self.count_for_members(txn, &name, &mut head)? {
            return Ok(None);
        }
        let added = add(txn, &name, &mut head, std::mem::take(members), history)?;
        self.turn_by_count(txn, &name, &mut head)?;
        finish(txn, (self, &name), head, added, announce.take()).map(Some)
    }

    /// Removes those users that are members, then the announcement if there were any.
    pub(in super::super) fn remove_members(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        users: &[String],
        announce: Option<Prepared>,
    ) -> Result<MembersChanged, Error> {
        let name = Name::new(&target.timeline);
        let (mut head, rights) = self.admit_to_remove(txn, &name, target, users)?;
        check_announcement(announce.as_ref(), rights)?;
        let mut left = Vec::new();
        for user in users {
            if let Some(member) = MemberRow::load(txn, &name, &head, user)? {
                // Everyone may leave.
                let role = (*user != target.asker.user()).then_some(member.role.as_str());
                check_roles(&name, &target.asker, rights, role.into_iter())?;
                left.push((user, member.joined));
            }
        }
        let mut entries = Entries::default();
        for (user, _) in &left {
            entries.add(delete(txn, name.member_key(head.incarnation, user)));
        }
        for (user, joined) in &left {
            let left = Left {
                joined: *joined,
                head: head.last,
            };
            let change = ChangeRow {
                user: (*user).clone(),
                left,
                ..ChangeRow::default()
            };
            put_change(txn, &name, &mut head, &change);
        }
        entries.record(txn, Action::Delete);
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        head.set_members(head.members.saturating_sub(count));
        finish(txn, (self, &name), head, left.len(), announce)
    }

    /// The head, and the caller's rights: a user that only leaves needs none. A key that acts for one has its own
    /// rights.
    fn admit_to_remove(
        &self,
        txn: &Txn<'_>,
        name: &Name,
        target: &Target,
        users: &[String],
    ) -> Result<(HeadRow, Rights), Error> {
        let (epoch, asker) = (target.epoch.as_deref(), &target.asker);
        let claim = asker.claim();
        if claim.is_some_and(|claim| claim.identity().key().is_none())
            && users.iter().all(|user| *user == asker.user())
            && let Some(head) = HeadRow::existing(txn, name)?
            && let Some(member) = MemberRow::load(txn, name, &head, asker.user())?
        {
            self.check_epoch(name, &head, epoch)?;
            let membership = Membership {
                role: Some(&member.role),
                members_only: false,
            };
            return Ok((head, asker.rights(name.id(), membership)));
        }
        let (head, Reader { rights, .. }) = self.admit(txn, name, epoch, asker)?;
        Ok((head, rights))
    }

    /// Changes a member's role and attributes. Gives the row as it is then.
    pub(in super::super) fn update_member(
        &self,
        txn: &mut Txn<'_>,
        update: UpdateMember,
    ) -> Result<MemberRow, Error> {
        let target = &update.target;
        let (name, mut head, reader) = self.enter(txn, target)?;
        let before = MemberRow::load(txn, &name, &head, &update.user)?;
        let before = before.ok_or(Error::MemberNotFound)?;
        let is_expected = |expected| expected == before.version;
        if !update.expect_version.is_none_or(is_expected) {
            return Err(Error::ConditionFailed {
                actual: before.version,
            });
        }
        let roles = [Some(before.role.as_str()), update.role.as_deref()];
        let roles = roles.into_iter().flatten();
        check_roles(&name, &target.asker, reader.rights, roles)?;
        let mut member = before.clone();
        merge(&mut member.attributes, update.set, &update.remove);
        check_size(&member.attributes, ATTRIBUTES)?;
        member.role = update.role.unwrap_or(member.role);
        if member != before {
            self.put_member(txn, &name, &mut head, (&update.user, &mut member));
            put_head(txn, &name, &head);
        }
        Ok(member)
    }

    /// Writes a member's row anew under the next member version: others may see that it changed, and what its user may
    /// see is looked at again. The caller puts the head.
    pub(in super::super) fn put_member(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        (user, member): (&str, &mut MemberRow),
    ) {
        let change = ChangeRow {
            user: user.to_owned(),
            ..ChangeRow::default()
        };
        member.version = put_change(txn, name, head, &change);
        let (key, now) = (name.member_key(head.incarnation, user), txn.now_ms());
        let entry = put(txn, key, member.encode(), version(now));
        record(txn, MEMBERS, Action::Update, entry, 1);
    }
}

/// Nobody gives, changes or takes a role whose rights they do not have.
pub(in super::super) fn check_roles<'r>(
    name: &Name,
    asker: &Asker,
    rights: Rights,
    mut roles: impl Iterator<Item = &'r str>,
) -> Result<(), Error> {
    let is_theirs = |role| rights.covers(asker.of_role(name.id(), role));
    match asker.claim().is_none() || roles.all(is_theirs) {
        true => Ok(()),
        false => Err(Error::NoRight),
    }
}

/// An announcement is an append.
fn check_announcement(announce: Option<&Prepared>, rights: Rights) -> Result<(), Error> {
    match announce.is_none() || rights.has(Right::Append) {
        true => Ok(()),
        false => Err(Error::NoRight),
    }
}

/// What a member's attributes may grow to.
const ATTRIBUTES: EntryLimits = EntryLimits {
    entry_bytes_max: ATTRIBUTES_BYTES_MAX,
    entry_names_max: 128,
};

/// Adds members; how many of them are new. `history`: how many earlier messages they see, `None` = all. The caller puts
/// the head.
pub(in super::super) fn add(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    members: Vec<NewMember>,
    history: Option<u64>,
) -> Result<usize, ReadError> {
    let mut added = Vec::new();
    for mut new in members {
        if MemberRow::load(txn, name, head, &new.user)?.is_some() {
            continue;
        }
        sort(&mut new.attributes);
        let end = head.last + 1;
        let earliest = history.map_or(1, |count| end.saturating_sub(count).max(1));
        let joined = head.member_version + 1 + added.len() as u64;
        // What was there before they joined is nothing new to them, unless the caller says so.
        let read = new.read.unwrap_or(head.last).min(head.last);
        let member = MemberRow {
            joined,
            joined_at: txn.now_ms(),
            role: new.role().to_owned(),
            attributes: new.attributes,
            visible_from: new.visible_from.unwrap_or(earliest).clamp(1, end),
            read,
            received: read,
            cleared: 0,
            hides: 0,
            version: joined,
        };
        added.push((new.user, member));
    }
    let mut entries = Entries::default();
    let now = version(txn.now_ms());
    for (user, member) in &added {
        let key = name.member_key(head.incarnation, user);
        entries.add(put(txn, key, member.encode(), now));
    }
    let count = added.len();
    for (user, _) in added {
        let change = ChangeRow {
            user,
            ..ChangeRow::default()
        };
        put_change(txn, name, head, &change);
    }
    entries.record(txn, Action::Put);
    let more = u32::try_from(count).unwrap_or(u32::MAX);
    head.set_members(head.members.saturating_add(more));
    Ok(count)
}

/// Takes the next member version and writes its row; gives the version.
pub(in super::super) fn put_change(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    change: &ChangeRow,
) -> u64 {
    head.member_version += 1;
    let key = name.member_change_key(head.incarnation, head.member_version);
    let now = version(txn.now_ms());
    put(txn, key, change.encode(), now);
    head.member_version
}

/// Appends the announcement if something changed, and puts the head. A closed timeline takes no announcement, and so
/// not the change either.
fn finish(
    txn: &mut Txn<'_>,
    (site, name): (&Site, &Name),
    mut head: HeadRow,
    changed: usize,
    announce: Option<Prepared>,
) -> Result<MembersChanged, Error> {
    let sequence = match announce.filter(|_| changed > 0) {
        Some(mut announcement) => {
            check_open(&head)?;
            announcement.write(txn, site, &mut head)?;
            Some(head.last)
        }
        None => None,
    };
    if changed > 0 && sequence.is_none() {
        put_head(txn, name, &head);
    }
    Ok(MembersChanged {
        changed: changed as u64,
        members: u64::from(head.members),
        version: head.member_version,
        sequence,
    })
}

/// Numbers of entries that were treated alike. Mostly they follow each other; a user whose row the batch has written
/// before keeps the entry of then.
#[derive(Default)]
struct Entries {
    runs: Vec<(u32, u32)>,
}

impl Entries {
    fn add(&mut self, entry: u32) {
        match self.runs.last_mut() {
            Some((first, count)) if *first + *count == entry => *count += 1,
            _ => self.runs.push((entry, 1)),
        }
    }

    fn record(self, txn: &mut Txn<'_>, action: Action) {
        for (first, count) in self.runs {
            record(txn, MEMBERS, action, first, count);
        }
    }
}
