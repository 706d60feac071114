//! Looking up members: one, pages of all, and what changed since a version.
//!
//! Owns: `member.get`, `member.list`. Promises: a reader that applies each incremental answer to the list that it has
//! gets the list at the answer's version; where that can't be, the answer says that the reader has to begin anew. Must
//! not: write.

use std::collections::BTreeSet;

use tideline_model::{Direction, json_bytes};
use tideline_table::{ReadError, Source, View, damaged, scan, scan_behind};

use super::super::Error;
use super::super::Target;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{MEMBERS, Name};
use super::super::write::Site;
use super::call::{ListMembers, ListedMembers, NextMembers};
use super::change_row::ChangeRow;
use super::row::MemberRow;

/// Rows that one view looks at, at most: with a role given most of them may be left out. Tests go through the cut with
/// few.
const ROWS_SCANNED_MAX: usize = if cfg!(test) { 4 } else { 4_096 };

impl Site {
    /// One member.
    pub(in super::super) fn member(
        &self,
        view: &View,
        target: &Target,
        user: &str,
    ) -> Result<MemberRow, Error> {
        let (name, head, _) = self.enter(view, target)?;
        MemberRow::load(view, &name, &head, user)?.ok_or(Error::MemberNotFound)
    }

    /// A page of members, or of what changed. `now_ms` decides what is too old.
    pub(in super::super) fn list_members(
        &self,
        view: &View,
        list: &ListMembers,
        now_ms: u64,
    ) -> Result<ListedMembers, Error> {
        let target = &list.target;
        let (name, head, _) = self.enter(view, target)?;
        let at = (view, &name, &head);
        let page = match list.since {
            None => whole(at, list, false)?,
            Some(since) => match changed(at, list, since, now_ms)? {
                Some(page) => page,
                None => whole(at, list, true)?,
            },
        };
        Ok(page)
    }
}

type At<'v> = (&'v View, &'v Name, &'v HeadRow);

fn listed(head: &HeadRow) -> ListedMembers {
    ListedMembers {
        members: Vec::new(),
        removed: None,
        version: head.member_version,
        next: None,
        members_count: u64::from(head.members),
        reset: false,
    }
}

/// A page of the whole list, in the order of users.
fn whole(at: At<'_>, list: &ListMembers, reset: bool) -> Result<ListedMembers, ReadError> {
    let (view, name, head) = at;
    let mut page = ListedMembers {
        reset,
        ..listed(head)
    };
    let members = name.rows_of(MEMBERS, head.incarnation);
    let mut room = Room::new(list);
    let rows = scan_behind(view, &members, list.after.as_deref());
    let mut reached = None;
    for (scanned, row) in rows.enumerate() {
        let row = row?;
        if scanned == ROWS_SCANNED_MAX {
            page.next = reached.map(NextMembers::After);
            break;
        }
        let (user, row) = MemberRow::named(&row)?;
        if list.has_role(&row) {
            if !room.take(&user, &row) {
                page.next = reached.map(NextMembers::After);
                break;
            }
            let user = user.clone();
            page.members.push(row.of(user));
        }
        reached = Some(user);
    }
    Ok(page)
}

/// What changed after a version, in order; `None` if not all of that is known any more.
fn changed(
    at: At<'_>,
    list: &ListMembers,
    since: u64,
    now_ms: u64,
) -> Result<Option<ListedMembers>, ReadError> {
    let (view, name, head) = at;
    let mut page = ListedMembers {
        removed: Some(Vec::new()),
        ..listed(head)
    };
    if since == head.member_version {
        return Ok(Some(page));
    }
    let key = |version| name.member_change_key(head.incarnation, version);
    // Each version has its row until it is too old; a version beyond the last is of another history.
    let first = (since < head.member_version).then(|| view.row(&key(since + 1)));
    let Some(first) = first.transpose()?.flatten() else {
        return Ok(None);
    };
    let malformed = |version| damaged(key(version).as_bytes(), "not a member change");
    if ChangeRow::is_over(&first, now_ms).map_err(|_| malformed(since + 1))? {
        return Ok(None);
    }
    let mut room = Room::new(list);
    let mut removed = BTreeSet::new();
    let (from, to) = (key(since + 1), key(head.member_version + 1));
    let rows = scan(view, &from, &to, Direction::Forward);
    for ((scanned, row), version) in rows.enumerate().zip(since + 1..) {
        let (_, value) = row?;
        let ChangeRow { user, .. } = ChangeRow::decode(&value).map_err(|_| malformed(version))?;
        let row = MemberRow::load(view, name, head, &user)?;
        let is_full = match &row {
            // They changed again, which comes later.
            Some(row) if row.version > version => false,
            Some(row) if list.has_role(row) => !room.take(&user, row),
            _ if user.is_empty() => false,
            _ => !room.take_name(&user),
        };
        if is_full || scanned == ROWS_SCANNED_MAX {
            page.next = Some(NextMembers::Since(version - 1));
            break;
        }
        match row {
            Some(row) if row.version > version => {}
            Some(row) if list.has_role(&row) => page.members.push(row.of(user)),
            _ if user.is_empty() => {}
            _ => drop(removed.insert(user)),
        }
    }
    page.removed = Some(removed.into_iter().collect());
    Ok(Some(page))
}

/// What a page may still hold.
struct Room {
    limit: usize,
    bytes: usize,
    is_empty: bool,
}

impl Room {
    fn new(list: &ListMembers) -> Room {
        Room {
            limit: list.limit,
            bytes: list.bytes_max,
            is_empty: true,
        }
    }

    fn take(&mut self, user: &str, row: &MemberRow) -> bool {
        let attributes = json_bytes(&row.attributes);
        self.take_bytes(2 * (user.len() + row.role.len()) + attributes + MEMBER_BYTES)
    }

    fn take_name(&mut self, user: &str) -> bool {
        self.take_bytes(2 * user.len() + 3)
    }

    /// Takes room; the first of a page has it anyway.
    fn take_bytes(&mut self, bytes: usize) -> bool {
        if self.limit == 0 || (bytes > self.bytes && !self.is_empty) {
            return false;
        }
        self.limit -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_empty = false;
        true
    }
}

/// Names and numbers of a member beside its texts.
const MEMBER_BYTES: usize = 256;
