//! The devices of a user: their positions in timelines, and what is new for them.
//!
//! Owns: positions and devices. Promises: a position only rises. Must not: know conversations.

pub(super) mod device;
pub(super) mod places;
pub(super) mod positions;
pub(super) mod stored;
