//! What a member has read, received and cleared.
//!
//! Owns: `read.set` and `conversation.clear`. Promises: `read` ≤ `received` ≤ head; neither falls unless that is asked
//! for; nothing comes back that was cleared; what is so already is not written. Must not: write the head.

use tideline_table::{Action, Source, Txn};

use super::super::members::MemberRow;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::Site;
use super::super::{Error, Target};
use super::own_marks::{put_marks, put_own};
use super::{Unread, unread};

/// What a member says they have read of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMark {
    /// Where, and which user.
    pub target: Target,
    /// Up to here they have read it; clamped to the head.
    pub read: Option<u64>,
    /// Up to here they have received it; clamped to the head.
    pub received: Option<u64>,
    /// Set it back too.
    pub force: bool,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadState {
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received.
    pub received: u64,
    /// What is left.
    pub unread: Unread,
}

/// What `conversation.clear` leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Nothing at or below is shown to the member.
    pub cleared: u64,
    /// What is unread above it.
    pub unread: Unread,
}

impl Site {
    pub(in super::super) fn set_read(
        &self,
        txn: &mut Txn<'_>,
        mark: &ReadMark,
    ) -> Result<(), Error> {
        let (name, head, mut member) = self.own(txn, &mark.target)?;
        let before = (member.read, member.received);
        let moved = |from: u64, to: Option<u64>| match to {
            None => from,
            Some(to) if mark.force || tideline_base::faults::is_named("marks_fall") => {
                to.min(head.last)
            }
            Some(to) => to.min(head.last).max(from),
        };
        member.read = moved(member.read, mark.read);
        member.received = moved(member.received, mark.received).max(member.read);
        if (member.read, member.received) != before {
            put_marks(txn, &name, &head, mark.target.asker.user(), &member);
        }
        Ok(())
    }

    pub(in super::super) fn read_state(
        &self,
        rows: &impl Source,
        target: &Target,
    ) -> Result<ReadState, Error> {
        let (name, head, member) = self.own(rows, target)?;
        Ok(ReadState {
            read: member.read,
            received: member.received,
            unread: unread(rows, &name, &head, (target.asker.user(), &member))?,
        })
    }

    /// Hides all messages below `before` from a member, or all there are.
    pub(in super::super) fn clear(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        before: Option<u64>,
    ) -> Result<Cleared, Error> {
        let own = self.own(txn, target).map_err(|error| match error {
            Error::TimelineNotFound => Error::ConversationNotFound,
            error => error,
        });
        let (name, head, mut member) = own?;
        let cleared = before.map_or(head.last, |before| before.saturating_sub(1).min(head.last));
        if cleared > member.cleared {
            member.cleared = cleared;
            // A row put anew: what they may see is another now, and their subscriptions learn of it.
            put_own(
                txn,
                (&name, &head),
                target.asker.user(),
                &member,
                Action::Put,
            );
        }
        Ok(Cleared {
            cleared: member.cleared,
            unread: unread(txn, &name, &head, (target.asker.user(), &member))?,
        })
    }

    /// A timeline and the caller's row in it.
    fn own(
        &self,
        rows: &impl Source,
        target: &Target,
    ) -> Result<(Name, HeadRow, MemberRow), Error> {
        let (name, head, reader) = self.enter(rows, target)?;
        let member = reader.member.ok_or(Error::NotAMember)?;
        Ok((name, head, member))
    }
}
