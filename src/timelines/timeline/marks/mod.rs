//! What users put on messages: reactions and pins.
//!
//! Owns: the rows of both and the rules for them. Promises: a reaction is a change of its message but leaves the
//! message's row alone; a pin is a change like an edit; a tombstone has neither. Must not: cost a timeline that has
//! none anything.

mod of_message;
mod pins;
mod reactions;
pub(super) mod row;
mod verify;

use super::{Error, Message, SMALL_BYTES, Target, Timelines};
use tideline_table::Purpose;

pub use pins::Pinned;
pub use reactions::{React, ReactionPage, ReactionsOf};
use tideline_model::timelines::Reaction;

pub(super) use of_message::{Walk, bury, look_up, look_up_own};
#[cfg(test)]
pub(super) use row::gone;
pub(super) use row::{Sums, is_gone};
pub(super) use verify::{Marks, stored};

impl Timelines {
    /// Adds a user's reaction to a message or takes it back. Gives the reactions that the message has then.
    pub fn react(
        &self,
        react: React,
    ) -> impl Future<Output = Result<Vec<Reaction>, Error>> + Send + use<> {
        let purpose = match react.adds {
            true => Purpose::Adds,
            false => Purpose::MakesRoom,
        };
        let partition = self.place(&react.target.timeline);
        self.submit(purpose, partition, SMALL_BYTES, move |txn, site| {
            site.react(txn, &react)
        })
    }

    /// The reactions to a message, or all users of one.
    pub async fn reactions(&self, of: ReactionsOf) -> Result<ReactionPage, Error> {
        let partition = self.place(&of.target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| site.reactions(view, &of))
            .await
    }

    /// Pins a message or unpins it; `false` if it was so already.
    pub fn pin(
        &self,
        target: Target,
        sequence: u64,
        pins: bool,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let partition = self.place(&target.timeline);
        self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, site| {
            site.pin(txn, &target, sequence, pins)
        })
    }

    /// Pinned messages in order, and the sequence to go on after if there are more.
    pub async fn pinned(&self, pinned: Pinned) -> Result<(Vec<Message>, Option<u64>), Error> {
        let partition = self.place(&pinned.target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| site.pinned(view, &pinned))
            .await
    }
}
