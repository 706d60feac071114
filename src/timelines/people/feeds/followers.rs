//! The relay's target for followers: from the follows of users to rows at timelines.
//!
//! Owns: which follow leads to which write. Promises: a timeline's followers are those whose follow of this incarnation
//! is the last one. Must not: know the relay's steps.

use crate::relay::{Anew, CannotDerive, Derived, Kind, Target};
use crate::timeline::Timelines;
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Batch, Partitions, ReadError, View};

use super::super::conversations::lists::EFFECT_BYTES;
use super::super::tables::FOLLOWS;
use super::follows;
use super::follows::FollowChange;

/// The target: it follows the log's changes of follows.
pub(in super::super) struct Followers {
    partitions: Partitions,
    timelines: Timelines,
}

pub(in super::super) const KIND: Kind = Kind {
    number: 3,
    name: "followers",
    tables: &[FOLLOWS],
};
/// Follows in a page of what is made anew.
const PAGE_FOLLOWS: usize = 1_000;

impl Followers {
    /// On these partitions.
    pub(in super::super) fn new(partitions: Partitions, timelines: Timelines) -> Followers {
        Followers {
            partitions,
            timelines,
        }
    }

    fn derived(&self, change: FollowChange, place: u64) -> Derived {
        let FollowChange {
            user,
            timeline,
            follow,
        } = change;
        let destination = self.partitions.place(timeline.as_bytes());
        let bytes = EFFECT_BYTES + user.len() + timeline.len();
        let effect = self.timelines.follower(
            destination,
            &timeline,
            user,
            follow.map(|one| (one.incarnation, one.number)),
        );
        Derived {
            destination,
            place,
            bytes,
            effect: Box::new(effect),
        }
    }
}

impl Target for Followers {
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
        for change in follows::changes(batch)? {
            out.push(self.derived(change, out.len() as u64));
        }
        Ok(())
    }

    /// A user that stopped following in the part of the log that is gone stays a follower, until that user follows and
    /// stops again: their inbox gets entries that their feed leaves out.
    fn anew(
        &self,
        _: PartitionId,
        _: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError> {
        let (follows, next) = follows::page(view, from, PAGE_FOLLOWS)?;
        let derived = follows.into_iter().map(|change| self.derived(change, 0));
        Ok(Anew::page(derived, next))
    }
}
