//! A member's own marks: how far it has received, read and cleared, and how much it has hidden.
//!
//! Owns: how they are written. Promises: each write has a record for followers of the log. Must not: decide on a mark.

use tideline_table::{Action, Txn, put, record};

use super::super::members::MemberRow;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{MEMBERS, Name};
use super::super::write::version;

/// Writes a member's own marks, and a record of it for followers of the log. The member version stays: what others see
/// of the member is the same.
pub(super) fn put_marks(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &HeadRow,
    user: &str,
    member: &MemberRow,
) {
    put_own(txn, (name, head), user, member, Action::Update);
}

pub(super) fn put_own(
    txn: &mut Txn<'_>,
    (name, head): (&Name, &HeadRow),
    user: &str,
    member: &MemberRow,
    action: Action,
) {
    let key = name.member_key(head.incarnation, user);
    let time = version(txn.now_ms());
    let entry = put(txn, key, member.encode(), time);
    record(txn, MEMBERS, action, entry, 1);
}
