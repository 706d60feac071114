//! Readers' positions, and what comes behind them, as types.
//!
//! Owns: arguments and answers of resuming and of `sync`. Promises: every answer carries the epoch that its positions
//! are of. Must not: hold a rule, or touch rows.

use super::super::{Head, Message};
use tideline_model::access::Asker;
use tideline_model::timelines::Grown;
pub use tideline_model::timelines::SyncState;

/// A reader's position in one timeline, for `subscribe` and for a subscription's next page.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The asker.
    pub asker: Asker,
    /// Where.
    pub timeline: String,
    /// `Some(n)`: everything above n. `None` with `rewind` `None`: from now.
    pub after: Option<u64>,
    /// The newest n messages.
    pub rewind: Option<u64>,
    /// The epoch that `after` belongs to.
    pub epoch: Option<String>,
    /// Also what changed at or below `after`, above this change number.
    pub changes_after: Option<u64>,
    /// Open messages at or below `after`, and how many parts of each the reader has: also what came since.
    pub open: Vec<(u64, u64)>,
    /// The reader follows parts: other open messages at or below `after` come whole.
    pub parts: bool,
    /// Messages at most (already clamped).
    pub limit: usize,
    /// Approximate bytes at most; at least one message or change is returned all the same.
    pub bytes_max: usize,
}

/// How a resume went; texts as in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeState {
    /// As asked.
    Ok,
    /// `after` is below `floor - 1`: messages start at the floor.
    TooOld,
    /// Another history, or `after` above the head: nothing is returned.
    EpochChanged,
}

impl From<ResumeState> for SyncState {
    fn from(state: ResumeState) -> SyncState {
        match state {
            ResumeState::Ok => SyncState::Ok,
            ResumeState::TooOld => SyncState::TooOld,
            ResumeState::EpochChanged => SyncState::EpochChanged,
        }
    }
}

/// The place of a reader in an open message that it does not have yet.
pub const NONE_YET: u64 = u64::MAX;

/// What a resume returns; also a subscription's next page.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// Epoch, head, floor, change head of the view.
    pub head: Head,
    /// How it went.
    pub state: ResumeState,
    /// Messages above the position, contiguous.
    pub messages: Vec<Message>,
    /// Messages at or below the asked position whose change is above `changes_after`, newest form, in change order;
    /// `None` if not asked for.
    pub changed: Option<Vec<Message>>,
    /// Parts of open messages that were asked for.
    pub grown: Vec<Grown>,
    /// Open messages at or below the asked position, and how many parts the reader has by now; [`NONE_YET`] = it does
    /// not have the message.
    pub open: Vec<(u64, u64)>,
    /// The reader's position after applying `messages`: what a next resume passes as `after`.
    pub position: u64,
    /// The change position after applying `changed` (equal to the view's change head if all fitted).
    pub change_position: u64,
    /// There is more up to `head` or `change_head`.
    pub more: bool,
    /// What the reader may see.
    pub admission: Admission,
}

impl Changed {
    /// All messages in it.
    pub fn shown_mut(&mut self) -> impl Iterator<Item = &mut Message> {
        let changed = self.changed.iter_mut().flatten();
        changed.chain(&mut self.messages)
    }
}

/// What a reader may see, apart from the timeline's own floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// The member's own floor; 0 = they see everything.
    pub floor: u64,
    /// Not all users are alike: there are members, or only members may read.
    pub bound: bool,
}

/// One position of a `sync`.
#[derive(Clone, Copy, Debug)]
pub struct SyncPosition<'a> {
    /// Which timeline.
    pub timeline: &'a str,
    /// Everything above this.
    pub after: u64,
    /// The epoch that `after` belongs to.
    pub epoch: Option<&'a str>,
    /// Also what changed at or below `after`, above this change number.
    pub changes_after: Option<u64>,
    /// Open messages, and how many parts of each the reader has.
    pub open: &'a [(u64, u64)],
    /// There is no position yet: so many of the newest messages, if there is any. The others are 0 and none.
    pub rewind: Option<u64>,
}

/// The asker of a `sync`, and how much it asks for.
#[derive(Clone, Copy, Debug)]
pub struct SyncAsker<'a> {
    /// The asker.
    pub asker: &'a Asker,
    /// The user is known to be a member of all of it: where there is nothing new, the member rows need not be read.
    pub is_member: bool,
    /// Messages of a timeline at most.
    pub limit: usize,
}

/// One timeline of a sync's reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Synced {
    /// Which.
    pub timeline: String,
    /// How it went.
    pub state: SyncState,
    /// `None` if deleted.
    pub page: Option<Changed>,
}
