//! The member family: add, update, remove, get, list.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use tideline_timelines::timeline::{AddMembers, ListMembers, RemoveMembers, UpdateMember};
use tideline_wire::timelines::member;
use tideline_wire::timelines::new_member::{History, HistoryWord};
use tideline_wire::{Columns, Entry, Method, Reply};

fn columns(entry: Entry<'static>) -> Columns {
    entry.columns.into_owned()
}

pub(in super::super) fn add(shared: &Arc<Shared>, caller: &Caller, request: member::Add) -> Work {
    let queued = shared.timelines.add_members(AddMembers {
        target: caller.target(Method::MemberAdd, request.timeline, request.epoch),
        members: request.members,
        history: match request.history.unwrap_or(History::Word(HistoryWord::All)) {
            History::Word(HistoryWord::All) => None,
            History::Word(HistoryWord::None) => Some(0),
            History::Last(count) => Some(count),
        },
        announce: request.announce.map(columns),
    });
    Work::write(queued, |changed| {
        Reply::MemberAdd(member::Added {
            added: changed.changed,
            members_count: changed.members,
            version: changed.version,
            sequence: changed.sequence,
        })
    })
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: member::Update,
) -> Work {
    let user = request.user;
    let member::AttributesPatch { set, remove } = request.attributes.unwrap_or_default();
    let queued = shared.timelines.update_member(UpdateMember {
        target: caller.target(Method::MemberUpdate, request.timeline, request.epoch),
        user: user.clone(),
        role: request.role,
        set: set.map_or_else(Vec::new, columns),
        remove,
        expect_version: request.expect_version,
    });
    Work::write_entry("attributes", queued, |row| {
        let member = Some(row.of(user));
        Reply::MemberUpdate(Box::new(member::Updated { member }))
    })
}

pub(in super::super) fn remove(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: member::Remove,
) -> Work {
    let queued = shared.timelines.remove_members(RemoveMembers {
        target: caller.target(Method::MemberRemove, request.timeline, request.epoch),
        users: request.users,
        announce: request.announce.map(columns),
    });
    Work::write(queued, |changed| {
        Reply::MemberRemove(member::Removed {
            removed: changed.changed,
            members_count: changed.members,
            version: changed.version,
            sequence: changed.sequence,
        })
    })
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: member::Get) -> Work {
    let (timelines, user) = (shared.timelines.clone(), request.user);
    let target = caller.target(Method::MemberGet, request.timeline, request.epoch);
    Work::Read(Box::pin(async move {
        let row = timelines.member(target, user.clone()).await;
        let member = row.map_err(refusal)?.of(user);
        Ok(Reply::MemberGet(Box::new(member::Got { member })))
    }))
}

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller, request: member::List) -> Work {
    let timelines = shared.timelines.clone();
    let list = ListMembers {
        target: caller.target(Method::MemberList, request.timeline, request.epoch),
        since: request.since,
        after: request.after,
        role: request.role,
        limit: size(request.limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    Work::Read(Box::pin(async move {
        let page = timelines.list_members(list).await;
        page.map(Reply::MemberList).map_err(refusal)
    }))
}
