//! The member family: add, update, remove, get, list.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape;
use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use crate::timeline::{
    AddMembers, ListMembers, NewMember, NextMembers, RemoveMembers, UpdateMember,
};
use crate::wire::timelines::member;
use crate::wire::timelines::new_member;
use crate::wire::timelines::new_member::{History, HistoryWord};
use crate::wire::{Entry, Method, Reply};

/// A user that is to become a member.
pub(in super::super) fn new_member(from: new_member::NewMember) -> NewMember {
    let new_member::NewMember {
        user,
        role,
        attributes,
        visible_from,
        read,
    } = from;
    NewMember {
        user,
        role,
        attributes: attributes.map_or_else(Vec::new, columns),
        visible_from,
        read,
    }
}

fn columns(entry: Entry<'static>) -> crate::wire::Columns {
    entry.columns.into_owned()
}

pub(in super::super) fn add(shared: &Arc<Shared>, caller: &Caller, request: member::Add) -> Work {
    let member::Add {
        timeline,
        members,
        history,
        announce,
        epoch,
    } = request;
    let queued = shared.timelines.add_members(AddMembers {
        target: caller.target(Method::MemberAdd, timeline, epoch),
        members: members.into_iter().map(new_member).collect(),
        history: match history.unwrap_or(History::Word(HistoryWord::All)) {
            History::Word(HistoryWord::All) => None,
            History::Word(HistoryWord::None) => Some(0),
            History::Last(count) => Some(count),
        },
        announce: announce.map(columns),
    });
    Work::Write(Box::pin(async move {
        let changed = queued.await.map_err(refusal)?;
        Ok(Reply::MemberAdd(member::Added {
            added: changed.changed,
            members_count: changed.members,
            version: changed.version,
            sequence: changed.sequence,
        }))
    }))
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: member::Update,
) -> Work {
    let member::Update {
        timeline,
        user,
        role,
        attributes,
        expect_version,
        epoch,
    } = request;
    let member::AttributesPatch { set, remove } = attributes.unwrap_or_default();
    let queued = shared.timelines.update_member(UpdateMember {
        target: caller.target(Method::MemberUpdate, timeline, epoch),
        user: user.clone(),
        role,
        set: set.map_or_else(Vec::new, columns),
        remove,
        expect_version,
    });
    let integers = caller.integers;
    Work::Write(Box::pin(async move {
        let row = queued.await.map_err(|error| {
            let mut failure = refusal(error);
            if failure.field.as_deref() == Some("entry") {
                failure.field = Some("attributes".to_owned());
            }
            failure
        })?;
        Ok(Reply::MemberUpdate(Box::new(member::Updated {
            member: Some(shape::member(user, row, integers)),
        })))
    }))
}

pub(in super::super) fn remove(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: member::Remove,
) -> Work {
    let member::Remove {
        timeline,
        users,
        announce,
        epoch,
    } = request;
    let queued = shared.timelines.remove_members(RemoveMembers {
        target: caller.target(Method::MemberRemove, timeline, epoch),
        users,
        announce: announce.map(columns),
    });
    Work::Write(Box::pin(async move {
        let changed = queued.await.map_err(refusal)?;
        Ok(Reply::MemberRemove(member::Removed {
            removed: changed.changed,
            members_count: changed.members,
            version: changed.version,
            sequence: changed.sequence,
        }))
    }))
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: member::Get) -> Work {
    let (timelines, integers) = (shared.timelines.clone(), caller.integers);
    let member::Get {
        timeline,
        user,
        epoch,
    } = request;
    let target = caller.target(Method::MemberGet, timeline, epoch);
    Work::Read(Box::pin(async move {
        let row = timelines.member(target, user.clone()).await;
        let row = row.map_err(refusal)?;
        Ok(Reply::MemberGet(Box::new(member::Got {
            member: shape::member(user, row, integers),
        })))
    }))
}

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller, request: member::List) -> Work {
    let (shared, integers) = (Arc::clone(shared), caller.integers);
    let member::List {
        timeline,
        since,
        after,
        role,
        limit,
        epoch,
    } = request;
    let list = ListMembers {
        target: caller.target(Method::MemberList, timeline, epoch),
        since,
        after,
        role,
        limit: size(limit),
        bytes_max: page_bytes(&shared.options.limits),
    };
    Work::Read(Box::pin(async move {
        let page = shared.timelines.list_members(list).await.map_err(refusal)?;
        let members = page.members.into_iter();
        Ok(Reply::MemberList(member::Listed {
            members: members
                .map(|member| shape::member(member.user, member.row, integers))
                .collect(),
            removed: page.removed,
            version: page.version,
            next: page.next.map(|next| match next {
                NextMembers::After(user) => member::Next::After(user),
                NextMembers::Since(version) => member::Next::Since(version),
            }),
            members_count: page.members_count,
            reset: page.reset,
        }))
    }))
}
