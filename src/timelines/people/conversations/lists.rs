//! The relay's target for lists: from members and followers at timelines to the rows of those users.
//!
//! Owns: which change leads to which write. Promises: a user's rows follow each of their memberships, and what of it
//! only they see; a follow learns that the timeline knows it. Must not: know the relay's steps.

use crate::relay::{Anew, CannotDerive, Derived, Kind, Target};
use crate::timeline::{
    FOLLOWERS, FollowerChange, MEMBERS, MemberChange, Timelines, followings, memberships,
};
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Batch, Partitions, ReadError, Txn, View};

use super::super::feeds::follows;
use super::super::tables::Home;
use super::{Joined, Relayed};
use crate::people::conversations;

/// The target: it follows the log's changes of members and followers.
pub(in super::super) struct Lists {
    partitions: Partitions,
}

pub(in super::super) const KIND: Kind = Kind {
    number: 1,
    name: "lists",
    tables: &[MEMBERS, FOLLOWERS],
};
/// About what a change holds in the queue, beside its names.
pub(in super::super) const EFFECT_BYTES: usize = 192;
/// Members in a page of what is made anew.
const PAGE_MEMBERS: usize = 1_000;

impl Lists {
    /// On these partitions.
    pub(in super::super) fn new(partitions: Partitions) -> Lists {
        Lists { partitions }
    }

    fn member(&self, change: MemberChange, place: u64, is_anew: bool) -> Derived {
        let relayed = Relayed {
            incarnation: change.incarnation,
            member: change.row.as_ref().map(Joined::of),
            is_anew,
        };
        let of = (&*change.user, change.timeline);
        at_user(&self.partitions, of, place, move |txn, home, timeline| {
            conversations::relay(txn, home, timeline, &relayed)
        })
    }
}

/// Tells a user that a timeline knows them as a follower; see [`follows::confirm`].
pub(in super::super) fn confirmed(
    partitions: &Partitions,
    change: FollowerChange,
    place: u64,
    is_anew: bool,
) -> Derived {
    let (of, known) = (
        (&*change.user, change.timeline),
        (change.number, change.from),
    );
    at_user(partitions, of, place, move |txn, home, timeline| {
        follows::confirm(txn, home, timeline, known, is_anew)
    })
}

/// A write at a user about a timeline.
fn at_user(
    partitions: &Partitions,
    (user, timeline): (&str, String),
    place: u64,
    write: impl Fn(&mut Txn<'_>, &Home, &str) -> Result<(), ReadError> + Send + Sync + 'static,
) -> Derived {
    let home = Home::new(user);
    Derived {
        destination: partitions.place(home.name().as_bytes()),
        place,
        bytes: EFFECT_BYTES + 2 * home.name().len() + timeline.len(),
        effect: Box::new(move |txn: &mut Txn<'_>| write(txn, &home, &timeline)),
    }
}

impl Target for Lists {
    fn kind(&self) -> Kind {
        KIND
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
