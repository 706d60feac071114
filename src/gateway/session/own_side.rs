//! What a session keeps of a subscription to all conversations of a user.
//!
//! Owns: where it is, and where a conversation begins in it. Promises: one look at the user at a time. Must not: know
//! the other subscriptions; `conversations.rs` does.

use futures_util::future::BoxFuture;

use super::super::dispatch::subscribe::Asked;
use super::parts::Opening;
use crate::feed::Watch;
use crate::people::{OwnPosition, OwnSide, Place};
use crate::timeline::Error;
use crate::wire::sync::Start;

/// A subscription to all conversations of a user.
pub(super) struct Conversations {
    pub(super) asked: Asked,
    pub(super) device: Option<String>,
    pub(super) rewind: Option<u64>,
    /// The slot that hears of changes at the user.
    pub(super) at: Opening,
    pub(super) _watch: Watch,
    /// Up to where changes at the user were sent; `None` = nothing was.
    pub(super) sent: Option<OwnPosition>,
    /// There may be changes that were not looked at.
    pub(super) is_dirty: bool,
    /// A look is under way.
    pub(super) is_looking: bool,
}

/// A look at the user.
pub(super) type Looking = BoxFuture<'static, Result<OwnSide, Error>>;

impl Conversations {
    /// Where a conversation begins, by the device's position in it.
    pub(super) fn start(&self, place: Option<Place>) -> Start {
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
