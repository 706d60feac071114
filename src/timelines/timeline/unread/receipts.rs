//! The members that have received and read a message.
//!
//! Owns: `receipt.list`. Promises: of each member what one view shows; a member that can't see the message is not among
//! them. Must not: walk more members than the limit.

pub use tideline_model::timelines::{Receipt, Receipts};
use tideline_table::{View, scan_all};

use super::super::members::MemberRow;
use super::super::rows::tables::MEMBERS;
use super::super::write::Site;
use super::super::{Error, Target};

/// Larger timelines have no receipts.
const MEMBERS_MAX: u64 = 1_000;

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
