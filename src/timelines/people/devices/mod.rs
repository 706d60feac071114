//! The devices of a user: their positions in timelines, and what is new for them.
//!
//! Owns: positions and devices. Promises: in one history a position moves forward only, unless it is forced. Must not:
//! change a conversation, but to mark one that has ended.

pub(super) mod device;
pub(super) mod places;
pub(super) mod positions;
pub(super) mod stored;
