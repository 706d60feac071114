//! The relay's target for lists of conversations: from member changes at timelines to rows at users.
//!
//! Owns: which member changes lead to which write. Promises: a user's rows follow each of their memberships, and what
//! of it only they see; other members' changes lead to nothing. Must not: know the relay's steps.

use crate::ids::{PartitionId, Position};
use crate::relay::{Anew, Derived, Target};
use crate::table::{Batch, Partitions, ReadError, Txn, View};
use crate::timeline::{MemberChange, Timelines, memberships};

use super::conversations::{self, Joined, Relayed};
use super::tables::Home;

/// Follows members.
pub struct Lists {
    partitions: Partitions,
}

/// Its number in the keys of cursors.
pub(super) const NUMBER: u32 = 1;
/// About what a change holds in the queue, beside its names.
const EFFECT_BYTES: usize = 192;
/// Members in a page of what is made anew.
const PAGE_MEMBERS: usize = 1_000;

impl Lists {
    /// On these partitions.
    #[must_use]
    pub fn new(partitions: Partitions) -> Lists {
        Lists { partitions }
    }

    fn derived(&self, change: MemberChange, is_anew: bool) -> Derived {
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
            bytes: EFFECT_BYTES + 2 * home.name().len() + timeline.len(),
            effect: Box::new(move |txn: &mut Txn<'_>| {
                conversations::relay(txn, &home, &timeline, &relayed)
            }),
        }
    }
}

impl Target for Lists {
    fn number(&self) -> u32 {
        NUMBER
    }

    fn name(&self) -> &'static str {
        "lists"
    }

    fn derive(&self, source: PartitionId, batch: &Batch, out: &mut Vec<Derived>) {
        match memberships(batch, |_| true) {
            Ok(changes) => out.extend(changes.into_iter().map(|one| self.derived(one, false))),
            Err(_) => {
                let position = batch.position.0;
                tracing::error!(partition = %source, position, "a committed batch has a member that can't be read");
            }
        }
    }

    fn anew(
        &self,
        _: PartitionId,
        _: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError> {
        let (members, next) = Timelines::member_page(view, from, PAGE_MEMBERS)?;
        let derived = members.into_iter().map(|one| self.derived(one, true));
        Ok(Anew {
            derived: derived.collect(),
            next,
        })
    }
}
