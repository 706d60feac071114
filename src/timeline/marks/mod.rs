//! What users put on messages: reactions and pins.
//!
//! Owns: the rows of both and the rules for them. Promises: a reaction is a change of its message but leaves the
//! message's row alone; a pin is a change like an edit; a tombstone has neither. Must not: cost a timeline that has
//! none anything.

mod pins;
mod reactions;
mod row;
mod shown;
mod verify;

pub use row::{Reaction, Reactions};

pub(super) use pins::unpin;
pub(super) use reactions::{React, ReactionPage, ReactionsOf};
pub(super) use row::is_gone;
pub(super) use shown::{Walk, bury, look_up};
