//! The relay's target for lists: from members and followers at timelines to the rows of those users.
//!
//! Owns: which change leads to which write. Promises: a user's rows follow each of their memberships, and what of it
//! only they see; a follow learns that the timeline knows it. Must not: know the relay's steps.

use crate::ids::{PartitionId, Position, TableId};
use crate::relay::{Anew, CannotDerive, Derived, Target};
use crate::table::{Batch, Partitions, ReadError, Txn, View};
use crate::timeline::{
    FOLLOWERS, FollowerChange, MEMBERS, MemberChange, Timelines, followings, memberships,
};

use super::conversations::{self, Joined, Relayed};
use super::follows;
use super::tables::Home;

/// The target: it follows the log's changes of members and followers.
pub(super) struct Lists {
    partitions: Partitions,
}

/// Its number in the keys of cursors.
pub(super) const NUMBER: u32 = 1;
/// About what a change holds in the queue, beside its names.
pub(super) const EFFECT_BYTES: usize = 192;
/// Members in a page of what is made anew.
const PAGE_MEMBERS: usize = 1_000;

impl Lists {
    /// On these partitions.
    pub(super) fn new(partitions: Partitions) -> Lists {
        Lists { partitions }
    }

    fn member(&self, change: MemberChange, place: u64, is_anew: bool) -> Derived {
        let MemberChange {
            timeline,
            incarnation,
            user,
            row,
            ..
        } = change;
        let home = Home::new(&user);
        let relayed = Relayed {
            incarnation,
            member: row.as_ref().map(Joined::of),
            is_anew,
        };
        Derived {
            destination: self.partitions.place(home.name().as_bytes()),
            place,
            bytes: EFFECT_BYTES + 2 * home.name().len() + timeline.len(),
            effect: Box::new(move |txn: &mut Txn<'_>| {
                conversations::relay(txn, &home, &timeline, &relayed)
            }),
        }
    }
}

/// Tells a user that a timeline knows them as a follower; see [`follows::confirm`].
pub(super) fn confirmed(
    partitions: &Partitions,
    change: FollowerChange,
    place: u64,
    is_anew: bool,
) -> Derived {
    let FollowerChange {
        timeline,
        user,
        number,
        from,
    } = change;
    let home = Home::new(&user);
    Derived {
        destination: partitions.place(home.name().as_bytes()),
        place,
        bytes: EFFECT_BYTES + 2 * home.name().len() + timeline.len(),
        effect: Box::new(move |txn: &mut Txn<'_>| {
            follows::confirm(txn, &home, &timeline, (number, from), is_anew)
        }),
    }
}

impl Target for Lists {
    fn number(&self) -> u32 {
        NUMBER
    }

    fn name(&self) -> &'static str {
        "lists"
    }

    fn tables(&self) -> &[TableId] {
        &[MEMBERS, FOLLOWERS]
    }

    fn derive(
        &self,
        _: PartitionId,
        batch: &Batch,
        _: &View,
        out: &mut Vec<Derived>,
    ) -> Result<(), CannotDerive> {
        for change in memberships(batch, |_| true)? {
            out.push(self.member(change, out.len() as u64, false));
        }
        for change in followings(batch)? {
            out.push(confirmed(&self.partitions, change, out.len() as u64, false));
        }
        Ok(())
    }

    fn anew(
        &self,
        _: PartitionId,
        _: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError> {
        let (members, next) = Timelines::member_page(view, from, PAGE_MEMBERS)?;
        let derived = members
            .into_iter()
            .map(|change| self.member(change, 0, true));
        Ok(Anew::page(derived, next))
    }
}
