//! The calls about members and settings: their arguments, answers, and the way to the partition.
//!
//! Owns: these types. Promises: a write is queued when its function returns. Must not: hold a rule.

use std::future::Future;

use tideline_model::json_bytes;
pub use tideline_model::timelines::{ListedMembers, Member, NewMember, NextMembers, SettingsPatch};
use tideline_table::Purpose;

use super::super::write::append::Prepared;
use super::super::{Append, AppendOne, Columns, Error, Meta, SMALL_BYTES, Target, Timelines};
use super::row::MemberRow;
use super::settings::Configured;

/// An addition of members, all or none.
#[derive(Clone, Debug)]
pub struct AddMembers {
    /// Where.
    pub target: Target,
    /// Nobody twice.
    pub members: Vec<NewMember>,
    /// How many earlier messages they see; `None` = all.
    pub history: Option<u64>,
    /// Appended behind, if anybody was added.
    pub announce: Option<Columns>,
}

/// A removal of members.
#[derive(Clone, Debug)]
pub struct RemoveMembers {
    /// Where.
    pub target: Target,
    /// Nobody twice; users that are no members are ignored.
    pub users: Vec<String>,
    /// Appended behind, if anybody was removed.
    pub announce: Option<Columns>,
}

/// What became of an addition or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembersChanged {
    /// How many were added or removed.
    pub changed: u64,
    /// How many members there are now.
    pub members: u64,
    /// The member version.
    pub version: u64,
    /// Of the announcement.
    pub sequence: Option<u64>,
}

/// A change of one member.
#[derive(Clone, Debug)]
pub struct UpdateMember {
    /// Where.
    pub target: Target,
    /// Whose.
    pub user: String,
    /// The new role.
    pub role: Option<String>,
    /// Attributes that get a new value, unique names.
    pub set: Columns,
    /// Attributes that go away; none of them is in `set`.
    pub remove: Vec<String>,
    /// Refuse unless the member has this version.
    pub expect_version: Option<u64>,
}

/// Which members a page should hold.
#[derive(Clone, Debug)]
pub struct ListMembers {
    /// Where.
    pub target: Target,
    /// What changed after this version; `None` = the whole list.
    pub since: Option<u64>,
    /// Of the whole list only users above this.
    pub after: Option<String>,
    /// Only members with this role; of changes, others count as removed.
    pub role: Option<String>,
    /// Members at most.
    pub limit: usize,
    /// Approximate bytes of JSON at most; at least one member is returned all the same.
    pub bytes_max: usize,
}

impl ListMembers {
    pub(super) fn has_role(&self, row: &MemberRow) -> bool {
        self.role.as_ref().is_none_or(|role| *role == row.role)
    }
}

/// A timeline to be made.
#[derive(Clone, Debug)]
pub struct Create {
    /// Which.
    pub target: Target,
    /// Its meta.
    pub meta: Meta,
    /// Its settings.
    pub settings: SettingsPatch,
    /// Its members.
    pub members: Vec<NewMember>,
    /// Nobody asked for it in so many words, so it must not be one that its user could not read.
    pub implicit: bool,
}

/// A timeline without meta, settings and members.
impl From<Target> for Create {
    fn from(target: Target) -> Create {
        Create {
            target,
            meta: Meta::new(),
            settings: SettingsPatch::default(),
            members: Vec::new(),
            implicit: false,
        }
    }
}

impl Timelines {
    /// Adds members; users that are members already stay as they are.
    pub fn add_members(
        &self,
        add: AddMembers,
    ) -> impl Future<Output = Result<MembersChanged, Error>> + Send + use<> {
        let AddMembers {
            target,
            members,
            history,
            announce,
        } = add;
        let partition = self.place(&target.timeline);
        let announce = self.announcement(&target, announce);
        let bytes = members_bytes(&members) + announce.as_ref().map_or(0, Prepared::bytes);
        let call = (members, announce);
        self.submit_with_members(partition, bytes, call, move |call, txn, site| {
            let (members, announce) = call;
            site.add_members(txn, &target, (members, history), announce)
        })
    }

    /// Removes members.
    pub fn remove_members(
        &self,
        remove: RemoveMembers,
    ) -> impl Future<Output = Result<MembersChanged, Error>> + Send + use<> {
        let RemoveMembers {
            target,
            users,
            announce,
        } = remove;
        let partition = self.place(&target.timeline);
        let announce = self.announcement(&target, announce);
        let names = users.iter().map(String::len).sum::<usize>();
        let bytes = SMALL_BYTES + 2 * names + announce.as_ref().map_or(0, Prepared::bytes);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.remove_members(txn, &target, &users, announce)
        })
    }

    /// Changes a member's role and attributes; gives the member as it is then.
    pub fn update_member(
        &self,
        update: UpdateMember,
    ) -> impl Future<Output = Result<MemberRow, Error>> + Send + use<> {
        let partition = self.place(&update.target.timeline);
        let bytes = SMALL_BYTES + json_bytes(&update.set);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.update_member(txn, update)
        })
    }

    /// One member.
    pub async fn member(&self, target: Target, user: String) -> Result<MemberRow, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| site.member(view, &target, &user))
            .await
    }

    /// A page of members, or of what changed among them.
    pub async fn list_members(&self, list: ListMembers) -> Result<ListedMembers, Error> {
        let partition = self.place(&list.target.timeline);
        let (site, now_ms) = (self.site(partition), self.now_ms());
        self.read(partition, move |view| {
            site.list_members(view, &list, now_ms)
        })
        .await
    }

    /// Changes settings; gives those in force then.
    pub fn configure(
        &self,
        target: Target,
        patch: SettingsPatch,
        expect_version: Option<u64>,
    ) -> impl Future<Output = Result<Configured, Error>> + Send + use<> {
        let partition = self.place(&target.timeline);
        self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, site| {
            site.configure(txn, &target, patch, expect_version)
        })
    }

    /// A message of the caller, ready to be written with a change of members.
    fn announcement(&self, target: &Target, entry: Option<Columns>) -> Option<Prepared> {
        let message = AppendOne {
            entry: entry?,
            ..AppendOne::default()
        };
        let append = Append {
            timeline: target.timeline.clone(),
            asker: target.asker.clone(),
            messages: vec![message],
            expect_head: None,
            create: false,
            epoch: None,
        };
        Some(self.prepare(append, None))
    }
}

/// About what new members hold in the queue.
pub(in super::super) fn members_bytes(members: &[NewMember]) -> usize {
    let member = |new: &NewMember| 128 + 2 * new.user.len() + json_bytes(&new.attributes);
    SMALL_BYTES + members.iter().map(member).sum::<usize>()
}
