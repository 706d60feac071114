//! The members that have received and read a message.
//!
//! Owns: `receipt.list`. Promises: of each member what one view shows; a member that can't see the message is not among
//! them. Must not: walk more members than the limit.

use crate::table::{View, scan_all};

use super::super::members::MemberRow;
use super::super::rows::tables::MEMBERS;
use super::super::write::Site;
use super::super::{Error, Target};

/// Larger timelines have no receipts.
const MEMBERS_MAX: u64 = 1_000;

/// How far one member has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The user.
    pub user: String,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received.
    pub received: u64,
}

/// The members that have received a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// How many members have read it.
    pub read_count: u64,
    /// How many have received it.
    pub received_count: u64,
    /// The members that have received it, by user.
    pub members: Vec<Receipt>,
    /// What goes into `after` for the next page, if there is more.
    pub next: Option<String>,
}

impl Site {
    pub(in super::super) fn receipts(
        &self,
        view: &View,
        target: &Target,
        sequence: u64,
        (after, limit): (Option<&str>, usize),
    ) -> Result<Receipts, Error> {
        let (name, head, reader) = self.enter(view, target)?;
        if !(reader.floor..=head.last).contains(&sequence) {
            return Err(Error::MessageNotFound);
        }
        if u64::from(head.members) > MEMBERS_MAX {
            return Err(Error::TooMany {
                field: "timeline",
                limit: MEMBERS_MAX,
                actual: head.members.into(),
            });
        }
        let mut receipts = Receipts::default();
        for row in scan_all(view, &name.rows_of(MEMBERS, head.incarnation)) {
            let (user, member) = MemberRow::named(&row?)?;
            if member.visible_from > sequence || member.received < sequence {
                continue;
            }
            receipts.received_count += 1;
            receipts.read_count += u64::from(member.read >= sequence);
            if after.is_some_and(|after| *user <= *after) {
                continue;
            }
            if receipts.members.len() < limit {
                receipts.members.push(Receipt {
                    user,
                    read: member.read,
                    received: member.received,
                });
            } else {
                let last = receipts.members.last();
                receipts.next = last.map(|last| last.user.clone());
            }
        }
        Ok(receipts)
    }
}
