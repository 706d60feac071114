//! What a session keeps of a subscription to all conversations of a user.
//!
//! Owns: where it is, and where a conversation begins in it. Promises: one look at the user at a time. Must not: know
//! the other subscriptions; `conversations.rs` does.

use futures_util::future::BoxFuture;

use super::parts::Opening;
use crate::feed::Watch;
use crate::gateway::dispatch::subscribe::Asked;
use crate::people::{OwnPosition, OwnSide, Place};
use crate::timeline::Error;
use crate::wire::timelines::sync::Start;

/// A subscription to all conversations of a user.
pub(in super::super) struct Conversations {
    pub(in super::super) asked: Asked,
    pub(in super::super) device: Option<String>,
    pub(in super::super) rewind: Option<u64>,
    /// The slot that hears of changes at the user.
    pub(in super::super) at: Opening,
    pub(in super::super) _watch: Watch,
    /// Up to where changes at the user were sent; `None` = nothing was.
    pub(in super::super) sent: Option<OwnPosition>,
    /// There may be changes that were not looked at.
    pub(in super::super) is_dirty: bool,
    /// A look is under way.
    pub(in super::super) is_looking: bool,
}

/// A look at the user.
pub(in super::super) type Looking = BoxFuture<'static, Result<OwnSide, Error>>;

impl Conversations {
    /// Where a conversation begins, by the device's position in it.
    pub(in super::super) fn start(&self, place: Option<Place>) -> Start {
        match place {
            Some(place) => Start {
                after: Some(place.after),
                rewind: None,
                epoch: Some(place.epoch),
                changes_after: place.changes_after,
            },
            None => Start {
                rewind: self.rewind,
                ..Start::default()
            },
        }
    }
}
